//! Bytes to entries, header first.
//!
//! A log is entries back to back, with no count and no padding. A cut tail is not an error here but a
//! value, [`Next::NeedMore`]: whether it may be cut is the caller's to judge.

use crate::batch::{Header, LOG_OVERHEAD, MAGIC_END};
use crate::error::{Error, Result};

/// What `bytes` start with.
#[derive(Debug, Clone, Copy)]
pub enum Next<'a> {
    /// A whole entry: its header and all its bytes.
    Batch(Header, &'a [u8]),
    /// Not one whole entry: this many bytes are needed, or 0 where even that cannot be told.
    NeedMore(usize),
}

/// The entry at the start of `bytes`, whose place in the file is `position`.
#[inline]
pub fn next(bytes: &[u8], position: u64) -> Result<Next<'_>> {
    let Some(header) = Header::parse(bytes, position)? else {
        return Ok(Next::NeedMore(declared_size(bytes)));
    };
    Ok(match bytes.get(..header.size()) {
        Some(entry) => Next::Batch(header, entry),
        None => Next::NeedMore(header.size()),
    })
}

fn declared_size(bytes: &[u8]) -> usize {
    match bytes.get(8..LOG_OVERHEAD).and_then(|b| b.try_into().ok()) {
        Some(length) if bytes.len() >= MAGIC_END => {
            LOG_OVERHEAD + i32::from_be_bytes(length).max(0) as usize
        }
        _ => 0,
    }
}

/// Whether what follows a bad entry at `end` (the rest of the file after it) still looks like a log: nothing, or
/// a plausible header with a higher offset. Then only that entry is lost.
pub fn framing_holds(rest: &[u8], end: u64, base_offset: i64) -> bool {
    match Header::parse(rest, end) {
        Ok(Some(header)) => header.last_offset() > base_offset,
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Refuses a batch that begins below `next_offset`, where the one before it ends.
pub(crate) fn check_offset(header: &Header, next_offset: i64) -> Result<()> {
    let first = match header.magic {
        2 => header.base_offset,
        // a wrapper's first offset is inside
        _ => header.last_offset(),
    };
    if first < next_offset {
        return Err(Error::corrupt(format!(
            "offset {first} is below {next_offset}, where the segment goes on"
        )));
    }
    Ok(())
}
