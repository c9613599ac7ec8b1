//! A defect of a log: the damage at one place, and the offsets it costs.

use std::borrow::Cow;

use crate::base::error::{Error, ErrorKind, Fault};

/// A defect at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The file; None for the file that is read.
    pub path: Option<String>,
    /// Byte position of the defect.
    pub position: u64,
    /// The first offset that may be missing.
    pub start_offset: i64,
    /// The offset after the last one that may be missing; None if the log ends here, or its end is not known.
    pub end_offset: Option<i64>,
    /// The explanation.
    pub reason: String,
    /// Its code among all findings of a check. Users look codes up, so a code never changes its meaning.
    pub code: Cow<'static, str>,
    /// The base offset field at that position, if it can be read.
    pub base_offset: Option<i64>,
    /// The position at which the file is sound again; None if its rest is lost.
    pub next_position: Option<u64>,
}

impl Defect {
    /// Returns the missing records after the end of a `.log` that its index still lists. The `.log` has `size` bytes,
    /// and its last batch ends at `next_offset`. The last entry of the index is an offset and a position. If this entry
    /// lies in the file, or in the next segment, nothing is missing, and the result is None.
    pub fn cut_short(
        path: &str,
        size: u64,
        next_offset: i64,
        following_offset: i64,
        (offset, position): (i64, i32),
    ) -> Option<Self> {
        let is_behind = next_offset <= offset
            && offset < following_offset
            && i128::from(size) <= i128::from(position);
        is_behind.then(|| Self {
            path: Some(path.to_owned()),
            position: size,
            start_offset: next_offset,
            end_offset: Some(following_offset),
            reason: cut_short_in_words(size, (offset, position)),
            code: Cow::Borrowed("segment-cut"),
            base_offset: None,
            next_position: None,
        })
    }
}

/// The explanation for a `.log` that is shorter than the last entry of its index.
pub fn cut_short_in_words(size: u64, (offset, position): (i64, i32)) -> String {
    format!(
        "the file ends at {size}, and its index has offset {offset} at {position}: a broker starts without the \
         records after the end"
    )
}

/// Returns the name of the defect for an error in a segment.
pub(crate) fn code(error: &Error) -> &'static str {
    match (error.kind, error.fault) {
        (ErrorKind::Unsupported, Fault::Framing) => "batch-magic",
        (ErrorKind::Unsupported, _) => "batch-unsupported",
        (_, Fault::Framing) => "batch-framing",
        (_, Fault::Cut) => "batch-cut",
        (_, Fault::Checksum) => "batch-crc",
        (_, Fault::Payload) => "batch-payload",
        (_, Fault::Order) => "batch-order",
        (_, Fault::Structure) => "batch-records",
    }
}
