//! Bytes to entries, header first.
//!
//! A log is entries back to back, with no count and no padding. A cut tail is not an error here but a
//! value, [`Next::NeedMore`]: whether it may be cut is the caller's to judge.

use crate::batch::{Header, LOG_OVERHEAD, MAGIC_END};
use crate::error::Result;

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
