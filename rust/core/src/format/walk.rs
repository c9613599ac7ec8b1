//! Framing: a log's bytes divided into entries, and the checks of their offsets.
//!
//! A log is a sequence of entries without count or padding. An incomplete last entry is not an error here but a value,
//! [`NextBatch::NeedMore`]. The caller decides whether it is allowed.

use crate::base::error::{Error, Fault, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, LOG_OVERHEAD, MAGIC_AT, MAGIC_END};

/// The content at the start of `bytes`.
#[derive(Debug, Clone, Copy)]
pub enum NextBatch<'a> {
    /// A whole entry: its header and its bytes.
    Batch(Header, &'a [u8]),
    /// An incomplete entry, and the number of bytes that it needs; 0 if that is unknown.
    NeedMore(usize),
}

/// Returns the entry at the start of `bytes`, which start at `position` of the file.
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

/// Calls `take` with each of the whole entries at the start of `bytes`, which lie at `position` of the file. Errors get
/// the position of their entry. Returns the number of bytes of these entries, and the number of bytes that the next
/// entry needs; 0 if that is unknown.
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

/// Returns the headers of whole batches of magic 2, without their records, and the size of the batches in bytes. The
/// checksums are verified.
pub fn headers_alone(bytes: &[u8]) -> Result<(Vec<u8>, usize)> {
    let mut headers = Vec::new();
    let mut rest = bytes;
    while let NextBatch::Batch(header, entry) = next_batch(rest, (bytes.len() - rest.len()) as u64)?
    {
        header.check_crc(entry)?;
        match entry.get(..BATCH_OVERHEAD) {
            Some(alone) if header.magic == 2 => headers.extend_from_slice(alone),
            _ => {
                return Err(Error::invalid(
                    "only headers of magic 2 can be read without their records",
                ));
            }
        }
        rest = rest.get(entry.len()..).unwrap_or_default();
    }
    Ok((headers, bytes.len() - rest.len()))
}

/// The start of each batch, with its first bytes, which no checksum covers; and the end of the last batch.
pub type PlacedHeaders<'a> = (Vec<(u64, &'a [u8])>, u64);

/// Places batches one after the other, given their headers alone.
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

/// Returns the first of several headers that are given without their records.
pub(crate) fn next_alone(bytes: &[u8], position: u64) -> Result<NextBatch<'_>> {
    let Some(alone) = bytes.get(..BATCH_OVERHEAD) else {
        return Ok(NextBatch::NeedMore(BATCH_OVERHEAD));
    };
    match Header::parse(alone, position)? {
        Some(header) if header.magic == 2 => Ok(NextBatch::Batch(header, alone)),
        _ => Err(
            Error::invalid("only headers of magic 2 can be read without their records")
                .at(position, None),
        ),
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

/// Returns true if the bytes after a bad entry that ends at `end` look like a log: they are empty, or start with a
/// plausible header of a higher offset. Then only the bad entry is lost.
pub fn framing_holds(rest: &[u8], end: u64, base_offset: i64) -> bool {
    match Header::parse(rest, end) {
        Ok(Some(header)) => header.last_offset() > base_offset,
        Ok(None) => true,
        Err(_) => false,
    }
}

/// The first offset that a header states. The header of a wrapper (magic 0 or 1) states its last offset; the first
/// offset is inside the wrapper.
pub(crate) fn first_known_offset(header: &Header) -> i64 {
    match header.magic {
        2 => header.base_offset,
        _ => header.last_offset(),
    }
}

/// Returns true if `value` is below an exclusive end. `i64::MAX` stands for no end, and includes itself.
#[inline]
pub(crate) fn is_before(value: i64, end: i64) -> bool {
    value < end || end == i64::MAX
}

/// The largest gap between two batches of a segment: index entries hold 31 bits.
pub(crate) const MAX_GAP: i64 = 1 << 31;

/// Refuses a batch that begins below `next_offset`, the end of the batch before it.
pub(crate) fn check_offset(header: &Header, next_offset: i64) -> Result<()> {
    let first = first_known_offset(header);
    check_first_offset(first, next_offset).map_err(|mut error| {
        if first < next_offset && next_offset <= header.last_offset() {
            error.message += ". If a check calls the batch offset-overlap, `repair` rebuilds it";
        }
        error
    })
}

/// Refuses a first offset below `next_offset`. This is for wrappers, whose first offset is inside.
pub fn check_first_offset(first: i64, next_offset: i64) -> Result<()> {
    if first < next_offset {
        return Err(Error::corrupt(format!(
            "offset {first} is below {next_offset}, where the segment continues"
        ))
        .of(Fault::Order));
    }
    Ok(())
}

/// Returns true if a batch may be sound although it begins below `next_offset`, the end of the batch before it, and
/// ends above. A replica has appended such a batch to a log that had been truncated inside of it (KAFKA-3919). Java's
/// consumer gets its records from `next_offset` on.
///
/// No checksum covers a base offset. So the result is false if the batch may have begun at `next_offset` before a
/// single flipped bit changed its base offset. The caller must also check [`is_continued`].
pub(crate) fn may_overlap(header: &Header, next_offset: i64, limit: i64) -> bool {
    let (first, last) = (header.base_offset, header.last_offset());
    let reaches_over = 0 <= first && first < next_offset && next_offset <= last;
    let is_moved = (first ^ next_offset).count_ones() == 1;
    header.magic == 2 && reaches_over && !is_moved && is_before(last, limit)
}

/// Returns true if the log continues at the end offset of a batch. `after` are the first bytes after the batch; they
/// are empty at the end of the file, where the next segment begins at `limit`. If damage changed the batch's base
/// offset, its end offset is wrong too, so the log does not continue there.
pub(crate) fn is_continued(header: &Header, limit: i64, after: &[u8]) -> bool {
    let end = header.next_offset();
    match Header::parse(after, header.end_position()) {
        Ok(Some(following)) => following.magic == 2 && following.base_offset == end,
        Ok(None) => after.is_empty() && end == limit,
        Err(_) => false,
    }
}

/// Refuses a batch that is not between `next_offset`, the end of the batch before it, and `limit`, the highest possible
/// end of its segment. `i64::MAX` stands for no limit.
pub fn check_offset_range(header: &Header, next_offset: i64, limit: i64) -> Result<()> {
    check_offset(header, next_offset)?;
    let last = header.last_offset();
    if !is_before(last, limit) {
        return Err(Error::corrupt(format!(
            "offset {last} is not below {limit}, where the segment has to end"
        ))
        .of(Fault::Order));
    }
    let first = first_known_offset(header);
    if next_offset >= 0 && first - next_offset >= MAX_GAP {
        return Err(Error::corrupt(format!(
            "offset {first} is not below {}, the limit of a segment that continues at {next_offset}",
            next_offset.saturating_add(MAX_GAP)
        ))
        .of(Fault::Order));
    }
    if last < first {
        return Err(Error::corrupt(format!(
            "last offset delta {} gives a last offset below the first offset {first}",
            header.last_offset_delta
        ))
        .of(Fault::Order));
    }
    Ok(())
}
