//! The limits of schemas and bodies.

use std::fmt;

/// The reason why a schema cannot be used, or a body cannot be decoded. It has no content of the body.
///
/// Each value of a body returns a result: one word, in a register, takes a seventh less time than a `String`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "a boxed str has two words")]
pub struct Error(Box<String>);

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(reason.into()))
    }

    #[cold]
    pub(crate) fn no_varint() -> Self {
        Self::new("the body ends within a number, or the number has more than ten bytes")
    }

    #[cold]
    pub(crate) fn not_utf8() -> Self {
        Self::new("a string is not UTF-8")
    }

    #[cold]
    pub(crate) fn too_deep() -> Self {
        Self::new(format!(
            "values are nested more than {MOST_DEPTH} levels deep"
        ))
    }

    #[cold]
    pub(crate) fn misfit() -> Self {
        Self::new("the value does not fit the type of its column")
    }

    #[cold]
    pub(crate) fn too_long() -> Self {
        Self::new(format!(
            "the decoded body takes more than {} MiB",
            MOST_DECODED >> 20
        ))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The most levels of values in values. A deeper one would take much of a thread's stack.
pub(crate) const MOST_DEPTH: u32 = 200;

/// The most items without bytes of their own in a body: nulls, or records without fields. Their number is in the
/// body, and nothing else limits it.
const MOST_EMPTY: u64 = 10_000;

/// The most bytes that a body becomes: of JSON text, which repeats the names of fields, or of nulls and defaults in
/// columns, which take no bytes in the body.
pub(crate) const MOST_DECODED: usize = 64 << 20;

/// The most bytes of a decimal: its text takes time that grows with their square.
pub(crate) const MOST_DECIMAL: usize = 4096;

/// The rest of a body's limits.
#[derive(Debug)]
pub(crate) struct Limits {
    /// The number of levels that values may go deeper.
    pub(crate) depth: u32,
    empty: u64,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self {
            depth: MOST_DEPTH,
            empty: MOST_EMPTY,
        }
    }

    /// Counts an item that took no bytes.
    pub(crate) fn take_empty(&mut self) -> Result<()> {
        self.empty = self
            .empty
            .checked_sub(1)
            .ok_or_else(|| Error::new(format!("more than {MOST_EMPTY} items take no bytes")))?;
        Ok(())
    }
}
