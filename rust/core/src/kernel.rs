//! The short way for plain records: payload to columns with one bounds check a record. The only unsafe code.
//!
//! # Why
//!
//! An uncompressed read is bound by the instructions spent on each record. The same loop in safe code, in the best of
//! four forms tried, takes 1.2 times as long (`make bench` measures the whole decoder).
//!
//! # What it may do
//!
//! [`append`] takes records as long as they are plain: varints of at most three bytes (eight for the timestamp),
//! header keys in ASCII, the record's end at least [`SLACK`] bytes before the payload's. Before the first that is not, it stops, with nothing of
//! it kept; the caller does that one in safe code, which is also where every error is raised. So this file decides
//! nothing about the format, and a fuzz target holds it against the safe way.
//!
//! # Why it is sound
//!
//! *Reads.* A record is entered only if `SLACK` bytes lie behind its start, and its fields are read only after
//! `end <= limit` is known, where `limit + SLACK` is the payload's end. The fields' varints start below `end`, each
//! field's length is held against `end` before it is copied, and no copy of a constant size is over `SLACK`: all reads
//! end at most `SLACK` behind `end`, so inside the payload.
//!
//! *Writes.* On entry each byte column has room for the rest of the payload and `SLACK` more, each fixed column for
//! `count` more: [`Bytes::new`] and [`spare`] check it and the kernel does nothing otherwise. Fields of different
//! records do not overlap in the payload, so what is appended to one column is no longer than the payload; header
//! columns are held against their capacity at each record with headers. Lengths are set once, at the end, to what was
//! written.

#![expect(unsafe_code, reason = "argued for above")]

use crate::columns::{BinaryColumn, Columns, HeadersColumn, NULL};

/// How far a copy may run over, on either side.
pub(crate) const SLACK: usize = 128;

/// The smallest body: attributes, two deltas, two lengths, a header count.
const MIN_BODY: usize = 6;

/// What turns deltas into absolute values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    /// 0 where the broker's one timestamp replaces the deltas, else 1.
    pub(crate) timestamp_factor: i64,
}

/// Appends up to `count` records that start at `payload[at..]`; returns where it stopped, and how many it took.
///
/// `columns.sequences` must not be asked for, and `columns` must have room as `Columns::begin` makes it.
pub(crate) fn append(
    payload: &[u8],
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    // Columns that are not asked for are compiled out.
    if columns.keys.is_some() {
        with_keys::<true>(payload, at, count, base, columns)
    } else {
        with_keys::<false>(payload, at, count, base, columns)
    }
}

fn with_keys<const KEYS: bool>(
    payload: &[u8],
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    if columns.values.is_some() {
        with_values::<KEYS, true>(payload, at, count, base, columns)
    } else {
        with_values::<KEYS, false>(payload, at, count, base, columns)
    }
}

fn with_values<const KEYS: bool, const VALUES: bool>(
    payload: &[u8],
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    let places = columns.offsets.is_some() || columns.timestamps.is_some();
    match (columns.headers.is_some(), places) {
        (false, false) => run::<KEYS, VALUES, false, false>(payload, at, count, base, columns),
        (false, true) => run::<KEYS, VALUES, false, true>(payload, at, count, base, columns),
        (true, false) => run::<KEYS, VALUES, true, false>(payload, at, count, base, columns),
        (true, true) => run::<KEYS, VALUES, true, true>(payload, at, count, base, columns),
    }
}

/// A byte column being written: next byte, first byte, next end.
struct Bytes {
    next: *mut u8,
    first: *mut u8,
    end: *mut i32,
}

impl Bytes {
    /// None where there is not room for `bytes` and `SLACK` bytes more, and for `rows` more ends.
    fn new(column: &mut BinaryColumn, bytes: usize, rows: usize) -> Option<Self> {
        let room = column.data.spare_capacity_mut();
        if room.len() < bytes + SLACK {
            return None;
        }
        let next = room.as_mut_ptr().cast::<u8>();
        let first = column.data.as_mut_ptr();
        let end = spare(&mut column.offsets, rows)?;
        Some(Self { next, first, end })
    }

    /// No column: never written through.
    fn absent() -> Self {
        let null = std::ptr::null_mut();
        Self {
            next: null,
            first: null,
            end: std::ptr::null_mut(),
        }
    }

    /// Appends `length` bytes from `from`.
    ///
    /// # Safety
    /// `length.max(SLACK)` bytes are readable at `from` and writable at `next`, and so is one end.
    #[inline(always)]
    unsafe fn push(&mut self, from: *const u8, length: usize) {
        unsafe {
            copy(self.next, from, length);
            self.next = self.next.add(length);
            *self.end = self.next.offset_from(self.first) as i32;
            self.end = self.end.add(1);
        }
    }

    /// Appends null.
    ///
    /// # Safety
    /// One end is writable.
    #[inline(always)]
    unsafe fn push_null(&mut self) {
        unsafe {
            *self.end = self.next.offset_from(self.first) as i32 | NULL;
            self.end = self.end.add(1);
        }
    }

    /// Makes what was written part of the column.
    ///
    /// # Safety
    /// `self` came from `column`, and all up to `next` and `end` was written.
    unsafe fn commit(self, column: &mut BinaryColumn) {
        unsafe {
            column
                .data
                .set_len(self.next.offset_from(self.first) as usize);
            set_end(&mut column.offsets, self.end);
        }
    }
}

/// Where the next element of `column` goes, if there is room for `rows`.
fn spare<T>(column: &mut Vec<T>, rows: usize) -> Option<*mut T> {
    let room = column.spare_capacity_mut();
    (room.len() >= rows).then(|| room.as_mut_ptr().cast())
}

/// Makes all elements before `end` part of `column`.
///
/// # Safety
/// `end` points into the column's memory, and all before it was written.
unsafe fn set_end<T>(column: &mut Vec<T>, end: *mut T) {
    unsafe {
        let length = end.offset_from(column.as_ptr()) as usize;
        column.set_len(length);
    }
}

/// A column of fixed width that may be absent.
fn fixed<T>(column: &mut Option<Vec<T>>, rows: usize) -> Option<*mut T> {
    match column {
        Some(column) => spare(column, rows),
        None => Some(std::ptr::null_mut()),
    }
}

/// Headers being written.
struct HeaderBytes {
    keys: Bytes,
    values: Bytes,
    /// Headers of all rows so far, and how many there is room for.
    count: i32,
    capacity: i32,
    end: *mut i32,
}

impl HeaderBytes {
    fn new(column: &mut HeadersColumn, bytes: usize, rows: usize) -> Option<Self> {
        let headers = column.keys.offsets.len() - 1;
        let room = column
            .keys
            .offsets
            .capacity()
            .min(column.values.offsets.capacity())
            - 1;
        Some(Self {
            keys: Bytes::new(&mut column.keys, bytes, 0)?,
            values: Bytes::new(&mut column.values, bytes, 0)?,
            count: i32::try_from(headers).ok()?,
            capacity: i32::try_from(room).unwrap_or(i32::MAX),
            end: spare(&mut column.offsets, rows)?,
        })
    }

    /// Takes `count` headers that must fill `at..end`; false: they are not plain, nothing is kept.
    ///
    /// # Safety
    /// `end + SLACK` bytes are readable; rows and bytes have room as [`HeaderBytes::new`] made sure.
    #[inline(always)]
    unsafe fn push(&mut self, mut at: *const u8, end: *const u8, count: u32) -> bool {
        unsafe {
            // A header takes two bytes at least, so a count that passes is no longer than the payload.
            if i64::from(count) * 2 > end.offset_from(at) as i64
                || i64::from(self.count) + i64::from(count) > i64::from(self.capacity)
            {
                return false;
            }
            let mut keys = Bytes { ..self.keys };
            let mut values = Bytes { ..self.values };
            for _ in 0..count {
                let Some((key, from)) = varint(at) else {
                    return false;
                };
                let length = (key >> 1) as usize;
                if from > end || key & 1 != 0 || length > left(from, end) || !is_ascii(from, length)
                {
                    return false;
                }
                keys.push(from, length);
                let Some((value, from)) = varint(from.add(length)) else {
                    return false;
                };
                let length = (value >> 1) as usize;
                if value & 1 != 0 {
                    values.push_null();
                    at = from;
                } else {
                    if from > end || length > left(from, end) {
                        return false;
                    }
                    values.push(from, length);
                    at = from.add(length);
                }
            }
            if at != end {
                return false;
            }
            self.keys = keys;
            self.values = values;
            self.count += count as i32;
            true
        }
    }
}

#[inline(never)]
fn run<const KEYS: bool, const VALUES: bool, const HEADERS: bool, const PLACES: bool>(
    payload: &[u8],
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    let Some(bytes) = payload.len().checked_sub(at + SLACK) else {
        return (at, 0);
    };
    let room = bytes + SLACK;
    let nothing = (at, 0);
    let mut keys = Bytes::absent();
    let mut values = Bytes::absent();
    if let Some(column) = &mut columns.keys {
        let Some(bytes) = Bytes::new(column, room, count) else {
            return nothing;
        };
        keys = bytes;
    }
    if let Some(column) = &mut columns.values {
        let Some(bytes) = Bytes::new(column, room, count) else {
            return nothing;
        };
        values = bytes;
    }
    let mut headers = match &mut columns.headers {
        Some(column) => match HeaderBytes::new(column, room, count) {
            Some(headers) => Some(headers),
            None => return nothing,
        },
        None => None,
    };
    let Some(mut offsets) = fixed(&mut columns.offsets, count) else {
        return nothing;
    };
    let Some(mut timestamps) = fixed(&mut columns.timestamps, count) else {
        return nothing;
    };
    let mut taken = 0;
    // SAFETY: see the head of the file.
    unsafe {
        let start = payload.as_ptr();
        let mut record = start.add(at);
        let limit = record.add(bytes);
        while taken < count && record < limit {
            let Some((length, body)) = varint(record) else {
                break;
            };
            let length_bytes = (length >> 1) as usize;
            if length & 1 != 0
                || length_bytes < MIN_BODY
                || body > limit
                || length_bytes > left(body, limit)
            {
                break;
            }
            let end = body.add(length_bytes);
            // These may run behind `end`, but by far not through the slack; what follows compares before it goes on.
            let Some((timestamp_delta, next)) = varlong(body.add(1)) else {
                break;
            };
            let Some((offset_delta, next)) = varint(next) else {
                break;
            };
            let Some((key, mut next)) = varint(next) else {
                break;
            };
            let key_at = next;
            let key_length = (key >> 1) as usize;
            let key_is_null = key & 1 != 0;
            if !key_is_null {
                if next > end || key_length > left(next, end) {
                    break;
                }
                next = next.add(key_length);
            }
            let Some((value, mut next)) = varint(next) else {
                break;
            };
            let value_at = next;
            let value_length = (value >> 1) as usize;
            let value_is_null = value & 1 != 0;
            if !value_is_null {
                if next > end || value_length > left(next, end) {
                    break;
                }
                next = next.add(value_length);
            }
            let Some((header_count, next)) = varint(next) else {
                break;
            };
            if header_count == 0 {
                if next != end {
                    break;
                }
            } else if header_count & 1 != 0
                || next > end
                || (header_count >> 1) as usize > left(next, end)
            {
                break;
            } else if HEADERS
                && let Some(headers) = &mut headers
                && !headers.push(next, end, header_count >> 1)
            {
                break;
            }
            if KEYS {
                if key_is_null {
                    keys.push_null()
                } else {
                    keys.push(key_at, key_length)
                }
            }
            if VALUES {
                if value_is_null {
                    values.push_null()
                } else {
                    values.push(value_at, value_length)
                }
            }
            if HEADERS && let Some(headers) = &mut headers {
                *headers.end = headers.count;
                headers.end = headers.end.add(1);
            }
            if PLACES && !offsets.is_null() {
                *offsets = base.offset.wrapping_add(zigzag(u64::from(offset_delta)));
                offsets = offsets.add(1);
            }
            if PLACES && !timestamps.is_null() {
                let delta = zigzag(timestamp_delta).wrapping_mul(base.timestamp_factor);
                *timestamps = base.timestamp.wrapping_add(delta);
                timestamps = timestamps.add(1);
            }
            record = end;
            taken += 1;
        }
        if let Some(column) = &mut columns.keys {
            keys.commit(column);
        }
        if let Some(column) = &mut columns.values {
            values.commit(column);
        }
        if let (Some(column), Some(headers)) = (&mut columns.headers, headers) {
            headers.keys.commit(&mut column.keys);
            headers.values.commit(&mut column.values);
            set_end(&mut column.offsets, headers.end);
        }
        if let Some(column) = &mut columns.offsets {
            set_end(column, offsets);
        }
        if let Some(column) = &mut columns.timestamps {
            set_end(column, timestamps);
        }
        columns.rows += taken;
        (record.offset_from(start) as usize, taken)
    }
}

/// Bytes from `at` to `end`, which must not be before it.
///
/// # Safety
/// Both point into the same payload.
#[inline(always)]
unsafe fn left(at: *const u8, end: *const u8) -> usize {
    unsafe { end.offset_from(at) as usize }
}

/// An unsigned varint of at most three bytes, and where it ends.
///
/// # Safety
/// Three bytes are readable.
#[inline(always)]
unsafe fn varint(at: *const u8) -> Option<(u32, *const u8)> {
    unsafe {
        let first = u32::from(*at);
        if first < 0x80 {
            return Some((first, at.add(1)));
        }
        let second = u32::from(*at.add(1));
        if second < 0x80 {
            return Some((first & 0x7f | second << 7, at.add(2)));
        }
        let third = u32::from(*at.add(2));
        if third < 0x80 {
            return Some((first & 0x7f | (second & 0x7f) << 7 | third << 14, at.add(3)));
        }
        None
    }
}

/// An unsigned varlong of at most eight bytes, and where it ends. Only timestamps far apart take more than three.
///
/// # Safety
/// Eight bytes are readable.
#[inline(always)]
unsafe fn varlong(at: *const u8) -> Option<(u64, *const u8)> {
    unsafe {
        match varint(at) {
            Some((value, next)) => Some((u64::from(value), next)),
            None => long_varlong(at),
        }
    }
}

/// # Safety
/// Eight bytes are readable.
#[inline(never)]
unsafe fn long_varlong(at: *const u8) -> Option<(u64, *const u8)> {
    let mut value = 0;
    for i in 0..8 {
        let byte = unsafe { *at.add(i) };
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, unsafe { at.add(i + 1) }));
        }
    }
    None
}

#[inline(always)]
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Copies `length` bytes, or up to `SLACK`: a copy of a constant size is a few moves, one of a variable size a call.
///
/// # Safety
/// `length.max(SLACK)` bytes are readable at `from` and writable at `to`, and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    unsafe {
        if length <= 16 {
            blocks::<1>(to, from);
        } else if length <= SLACK {
            blocks::<8>(to, from);
        } else {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}

/// Copies `N` times 16 bytes through integers: as plain copies, the compiler would fold the sizes back into one call.
///
/// # Safety
/// As many bytes are readable at `from` and writable at `to`, and do not overlap.
#[inline(always)]
unsafe fn blocks<const N: usize>(to: *mut u8, from: *const u8) {
    unsafe {
        for i in 0..N {
            let block = from.cast::<u128>().add(i).read_unaligned();
            to.cast::<u128>().add(i).write_unaligned(block);
        }
    }
}

/// Whether the first `length` bytes are ASCII.
///
/// # Safety
/// `length.max(16)` bytes are readable.
#[inline(always)]
unsafe fn is_ascii(at: *const u8, length: usize) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    unsafe {
        if length == 0 {
            true
        } else if length <= 8 {
            let word = u64::from_le(at.cast::<u64>().read_unaligned());
            (word & HIGH) << (64 - 8 * length) == 0
        } else if length <= 16 {
            let first = at.cast::<u64>().read_unaligned();
            let last = at.add(length - 8).cast::<u64>().read_unaligned();
            (first | last) & HIGH == 0
        } else {
            std::slice::from_raw_parts(at, length).is_ascii()
        }
    }
}
