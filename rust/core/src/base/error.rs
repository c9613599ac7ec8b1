//! What can be wrong with bytes, and where.
//!
//! The core knows positions, not files: the caller who opened the file adds its path.

use std::fmt;

/// Whose fault it is, in the sense of Kafka's own exception families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The bytes break the format: framing, checksum or structure.
    Corrupt,
    /// The bytes may be legal Kafka, but not a form that is read here: magic, codec, size cap.
    Unsupported,
    /// The caller asked for something that cannot be.
    Invalid,
}

/// An error with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// What is wrong: lower case, stored against computed where both are known.
    pub message: String,
    /// Byte position of the batch (or index entry) at fault, from the start of the file.
    pub position: u64,
    /// Offset field of that batch, if its first bytes could be read.
    pub base_offset: Option<i64>,
    /// Where the next batch starts, if this one's framing can still be trusted.
    pub next_position: Option<u64>,
}

/// The core's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The bytes break the format.
    #[cold]
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message.into())
    }

    /// The bytes are in a form that is not read here.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message.into())
    }

    /// The caller's mistake.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message.into())
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            position: 0,
            base_offset: None,
            next_position: None,
        }
    }

    /// The same error, placed: whoever knows the batch calls this once.
    pub fn at(mut self, position: u64, base_offset: Option<i64>) -> Self {
        self.position = position;
        self.base_offset = base_offset;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at position {}", self.message, self.position)?;
        match self.base_offset {
            Some(offset) => write!(f, " (base_offset {offset})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
