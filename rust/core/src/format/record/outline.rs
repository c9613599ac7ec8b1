//! Some fields of a record, read without parsing the rest. Appends, compaction and the division of large batches need
//! only these.

use super::{at_record, check_count, check_end, parse};
use crate::base::error::Result;
use crate::base::primitives::Reader;

/// Some fields of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline<'a> {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) has_value: bool,
    /// The number of headers.
    pub(crate) headers: usize,
}

/// Returns the outline of the record at `at`, and moves `at` past it. The whole record is checked, as in [`parse`].
#[inline]
pub(crate) fn outline<'a>(payload: &'a [u8], at: &mut usize) -> Result<Outline<'a>> {
    if let Some((outline, end)) = plain_outline(payload, *at) {
        *at = end;
        return Ok(outline);
    }
    let record = parse(payload, at)?;
    Ok(Outline {
        timestamp_delta: record.timestamp_delta,
        offset_delta: record.offset_delta,
        key: record.key,
        has_value: record.value.is_some(),
        headers: record.headers.count,
    })
}

/// Calls `visit` with the outline of each of the `count` records, which must fill `payload`.
#[inline]
pub(crate) fn for_each_outline(
    payload: &[u8],
    count: i32,
    mut visit: impl FnMut(Outline),
) -> Result<()> {
    let mut at = 0;
    for index in 0..check_count(count)? {
        visit(outline(payload, &mut at).map_err(|error| at_record(error, index, count))?);
    }
    check_end(payload, at, count)
}

/// Returns the outline and the end of a plain record: a sound record with short varints that is not at the very end of
/// the payload. Returns None for any other record.
#[inline]
fn plain_outline(payload: &[u8], at: usize) -> Option<(Outline<'_>, usize)> {
    let (length, body) = short_varint(payload, at)?;
    let end = body + (length >> 1) as usize;
    // Reads of varints may go beyond the record. Its fields may not: they are taken from `record`.
    let record = payload.get(..end)?;
    let (timestamp_delta, at) = varlong(payload, body + 1)?;
    let (offset_delta, at) = short_varint(payload, at)?;
    let (key, at) = short_varint(payload, at)?;
    let (key, at) = if key & 1 == 0 {
        let key_end = at + (key >> 1) as usize;
        (Some(payload.get(at..key_end)?), key_end)
    } else {
        (None, at)
    };
    let (value, at) = short_varint(payload, at)?;
    let at = at
        + if value & 1 == 0 {
            (value >> 1) as usize
        } else {
            0
        };
    let (headers, mut at) = short_varint(payload, at)?;
    if (length | headers) & 1 != 0 {
        return None;
    }
    for _ in 0..headers >> 1 {
        let (key, next) = short_varint(record, at)?;
        let (value, next) = short_varint(record, next + (key >> 1) as usize)?;
        at = next
            + if value & 1 == 0 {
                (value >> 1) as usize
            } else {
                0
            };
        if key & 1 != 0 {
            return None;
        }
    }
    let outline = Outline {
        timestamp_delta,
        offset_delta: (offset_delta >> 1) as i32 ^ -((offset_delta & 1) as i32),
        key,
        has_value: value & 1 == 0,
        headers: (headers >> 1) as usize,
    };
    (at == end).then_some((outline, end))
}

/// Reads an unsigned varint of at most three bytes; returns the varint and its end. None if it is longer, or if fewer
/// than three bytes are left.
#[inline(always)]
fn short_varint(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let &[first, second, third] = bytes.get(at..)?.first_chunk()?;
    let (first, second, third) = (u32::from(first), u32::from(second), u32::from(third));
    if first < 0x80 {
        Some((first, at + 1))
    } else if second < 0x80 {
        Some((first & 0x7f | second << 7, at + 2))
    } else if third < 0x80 {
        Some((first & 0x7f | (second & 0x7f) << 7 | third << 14, at + 3))
    } else {
        None
    }
}

/// Reads a zigzag varlong; returns the varlong and its end.
#[inline(always)]
fn varlong(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    if let Some((value, next)) = short_varint(bytes, at) {
        return Some((i64::from(value >> 1) ^ -i64::from(value & 1), next));
    }
    let mut reader = Reader::new(bytes.get(at..)?);
    let value = reader.varlong().ok()?;
    Some((value, bytes.len() - reader.remaining()))
}
