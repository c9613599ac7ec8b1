//! Bytes to entries, header first.
//!
//! A log is entries back to back, with no count and no padding. A cut tail is not an error here but a
//! value, [`NextBatch::NeedMore`]: whether it may be cut is the caller's to judge.

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, LOG_OVERHEAD, MAGIC_AT, MAGIC_END};

/// What `bytes` start with.
#[derive(Debug, Clone, Copy)]
pub enum NextBatch<'a> {
    /// A whole entry: its header and all its bytes.
    Batch(Header, &'a [u8]),
    /// Not one whole entry: this many bytes are needed, or 0 where even that cannot be told.
    NeedMore(usize),
}

/// The entry at the start of `bytes`, whose place in the file is `position`.
#[inline]
pub fn next_batch(bytes: &[u8], position: u64) -> Result<NextBatch<'_>> {
    let Some(header) = Header::parse(bytes, position)? else {
        return Ok(NextBatch::NeedMore(declared_size(bytes)));
    };
    Ok(match bytes.get(..header.size()) {
        Some(entry) => NextBatch::Batch(header, entry),
        None => NextBatch::NeedMore(header.size()),
    })
}

/// Calls `take` with each of the whole entries that `bytes`, at `position` of a file, start with; its errors are placed at
/// the entry. Returns how many bytes these take, and how many the entry behind them needs, or 0 where that cannot be told.
pub(crate) fn for_each<'a>(
    bytes: &'a [u8],
    position: u64,
    mut take: impl FnMut(&Header, &'a [u8]) -> Result<()>,
) -> Result<(usize, usize)> {
    let mut taken = 0;
    loop {
        let rest = bytes.get(taken..).unwrap_or_default();
        match next_batch(rest, position + taken as u64)? {
            NextBatch::NeedMore(needed) => return Ok((taken, needed)),
            NextBatch::Batch(header, entry) => {
                take(&header, entry).map_err(|error| header.locate(error))?;
                taken += entry.len();
            }
        }
    }
}

/// The headers of whole batches, all of magic 2, one behind the other without their records, and the batches' bytes. The
/// checksums are verified.
pub fn headers_alone(bytes: &[u8]) -> Result<(Vec<u8>, usize)> {
    let mut headers = Vec::new();
    let mut rest = bytes;
    while let NextBatch::Batch(header, entry) = next_batch(rest, (bytes.len() - rest.len()) as u64)?
    {
        header.check_crc(entry)?;
        match entry.get(..BATCH_OVERHEAD) {
            Some(alone) if header.magic == 2 => headers.extend_from_slice(alone),
            _ => return Err(Error::invalid("headers stand alone in magic 2 only")),
        }
        rest = rest.get(entry.len()..).unwrap_or_default();
    }
    Ok((headers, bytes.len() - rest.len()))
}

/// Where each batch starts, and its first bytes, which no checksum covers; and where the last one ends.
pub type PlacedHeaders<'a> = (Vec<(u64, &'a [u8])>, u64);

/// Places the batches of such headers one behind the other.
pub fn place_headers(headers: &[u8]) -> Result<PlacedHeaders<'_>> {
    let (mut placed, mut end) = (Vec::new(), 0);
    for alone in headers.chunks_exact(BATCH_OVERHEAD) {
        if let NextBatch::Batch(header, alone) = next_alone(alone, end)? {
            placed.push((end, alone.get(..MAGIC_AT).unwrap_or_default()));
            end += header.size() as u64;
        }
    }
    Ok((placed, end))
}

/// The first of such headers; its batch is as long as it says, and elsewhere.
pub(crate) fn next_alone(bytes: &[u8], position: u64) -> Result<NextBatch<'_>> {
    let Some(alone) = bytes.get(..BATCH_OVERHEAD) else {
        return Ok(NextBatch::NeedMore(BATCH_OVERHEAD));
    };
    match Header::parse(alone, position)? {
        Some(header) if header.magic == 2 => Ok(NextBatch::Batch(header, alone)),
        _ => Err(Error::invalid("headers stand alone in magic 2 only").at(position, None)),
    }
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

/// The first offset that a header tells: of a wrapper of magic 0 or 1 the last one, the first is inside.
pub(crate) fn first_known_offset(header: &Header) -> i64 {
    match header.magic {
        2 => header.base_offset,
        _ => header.last_offset(),
    }
}

/// Below an exclusive end. The greatest number stands for no end, and so is before it: an offset may be it.
#[inline]
pub(crate) fn is_before(value: i64, end: i64) -> bool {
    value < end || end == i64::MAX
}

/// So far above the end of a batch, none follows in its segment: its indexes hold 31 bits.
const MAX_GAP: i64 = 1 << 31;

/// Refuses a batch that begins below `next_offset`, where the one before it ends.
pub(crate) fn check_offset(header: &Header, next_offset: i64) -> Result<()> {
    check_first_offset(first_known_offset(header), next_offset)
}

/// The same of a wrapper, whose first offset is inside.
pub fn check_first_offset(first: i64, next_offset: i64) -> Result<()> {
    if first < next_offset {
        return Err(Error::corrupt(format!(
            "offset {first} is below {next_offset}, where the segment goes on"
        )));
    }
    Ok(())
}

/// Refuses a batch that does not lie between `next_offset`, where the one before it ends, and `limit`, where its segment
/// has to end. The greatest number stands for no limit.
pub fn check_offset_range(header: &Header, next_offset: i64, limit: i64) -> Result<()> {
    check_offset(header, next_offset)?;
    let last = header.last_offset();
    if !is_before(last, limit) {
        return Err(Error::corrupt(format!(
            "offset {last} is not below {limit}, where the segment has to end"
        )));
    }
    let first = first_known_offset(header);
    if next_offset >= 0 && first - next_offset >= MAX_GAP {
        return Err(Error::corrupt(format!(
            "offset {first} is not below {}, as far as a segment reaches from {next_offset} on",
            next_offset.saturating_add(MAX_GAP)
        )));
    }
    if last < first {
        return Err(Error::corrupt(format!(
            "last offset delta {} cannot be",
            header.last_offset_delta
        )));
    }
    Ok(())
}
