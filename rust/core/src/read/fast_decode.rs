//! The fast path for plain records: payload to columns with few bounds checks. All unsafe code of the core is here.
//!
//! # Why
//!
//! Reading uncompressed batches is limited by the instructions spent on each record. The same loop in safe code takes 1.2
//! to 1.4 times as long, in the fastest of five variants. `make bench` measures the whole decoder.
//!
//! # Method
//!
//! [`append`] appends records as long as they are plain. A plain record has varints of at most three bytes (eight for the
//! timestamp) and header keys in ASCII, and ends at least [`SLACK`] bytes before the end of the payload's memory. The
//! function stops before the first record that is not plain, and keeps nothing of it. The caller appends that record in
//! safe code, which also raises every error. So this file defines nothing about the format. Tests and a fuzz target
//! compare it with the safe path.
//!
//! # Why it is sound
//!
//! *Reads.* Positions are integers, so one that is too large does no harm until something is read there. All reads are
//! at positions up to `end`, the end of the record, with two exceptions: runs of varints after such a position, at most
//! `8 + 4 * 3` bytes, and copies of a constant size, at most `SLACK` bytes. `end` is at most `limit`, and `SLACK` bytes
//! are readable after `limit`.
//!
//! *Writes.* On entry, each byte column has room for the payload up to `limit` and `SLACK` bytes more, and each fixed column
//! for `count` elements. [`Bytes::new`] and [`room`] check this; otherwise nothing is done. Fields of a record lie inside it
//! and do not overlap. So the bytes appended to one column are at most the bytes of the records, even if a copy
//! overruns its field. The offsets of header columns are checked against their capacity at each record with headers.
//!
//! *Lengths.* They are set once, at the end, from the offsets written for the last record. These fit 32 bits:
//! `Columns::begin` lets no chunk continue above 1 GiB, counting eight bytes for each header. The payload that still follows
//! has less than 2 GiB of bytes, and at most half as many headers.
//!
//! This file is long because the argument above covers all of its code.

#![expect(unsafe_code, reason = "argued for above")]

use crate::format::batch::Header;
use crate::read::columns::{BinaryColumn, Columns, HeadersColumn, NULL, SLACK};

/// The number of bytes that are prefetched together: two cache lines.
pub(crate) const PREFETCHED: usize = 128;

/// The distance by which memory is prefetched ahead of the written bytes. Columns fill more memory than a cache holds.
const WRITTEN_AHEAD: usize = 1 << 10;

/// A batch above this size does not stay in the cache together with the next one.
const LARGE_BATCH: usize = 256 << 10;

/// The values that deltas are added to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    /// 0 if the broker's timestamp replaces the deltas, else 1.
    pub(crate) timestamp_factor: i64,
}

impl Base {
    /// The base of this batch's records.
    pub(crate) fn of(header: &Header) -> Self {
        let (timestamp, timestamp_factor) = match header.log_append_time() {
            Some(timestamp) => (timestamp, 0),
            None => (header.base_timestamp, 1),
        };
        Self {
            offset: header.base_offset,
            timestamp,
            timestamp_factor,
        }
    }
}

/// The records of a batch: the first `length` of `bytes`. The bytes after them are never interpreted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) length: usize,
}

/// Appends up to `count` records that start at `at`. Returns the position where it stopped, and the number of records
/// that it appended.
///
/// `columns` must have room as made by `Columns::begin`, and no sequences.
pub(crate) fn append(
    payload: Payload<'_>,
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    // Unwanted columns are compiled out.
    if columns.keys.is_some() {
        with_keys::<true>(payload, at, count, base, columns)
    } else {
        with_keys::<false>(payload, at, count, base, columns)
    }
}

fn with_keys<const KEYS: bool>(
    payload: Payload<'_>,
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
    payload: Payload<'_>,
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

/// A byte column being written.
#[derive(Clone, Copy)]
struct Bytes {
    data: *mut u8,
    /// The length so far.
    length: usize,
    /// The place for the end of the next value.
    offsets: *mut i32,
}

impl Bytes {
    /// An unwanted column, which is never written.
    const ABSENT: Self = Self {
        data: std::ptr::null_mut(),
        length: 0,
        offsets: std::ptr::null_mut(),
    };

    /// None if there is no room for `bytes`, `SLACK` more and `rows` offsets.
    fn new(column: &mut BinaryColumn, bytes: usize, rows: usize) -> Option<Self> {
        let length = column.data.len();
        room(&mut column.data, bytes + SLACK)?;
        let offsets = room(&mut column.offsets, rows)?;
        Some(Self {
            data: column.data.as_mut_ptr(),
            length,
            offsets,
        })
    }

    /// Works like [`Self::new`], for a column that may be unwanted.
    fn optional(column: &mut Option<BinaryColumn>, bytes: usize, rows: usize) -> Option<Self> {
        match column {
            Some(column) => Self::new(column, bytes, rows),
            None => Some(Self::ABSENT),
        }
    }

    /// Appends `length` bytes from `from` as value number `index`. For long values, the memory `ahead` bytes further is
    /// prefetched.
    ///
    /// # Safety
    /// `length + SLACK` bytes are readable at `from`, and there is room for them and for the offset.
    #[inline(always)]
    unsafe fn push(&mut self, index: usize, from: *const u8, length: usize, ahead: usize) {
        unsafe {
            copy(self.data.add(self.length), from, length, ahead);
            self.length += length;
            *self.offsets.add(index) = self.length as i32;
        }
    }

    /// Prefetches the memory that will be written soon.
    #[inline(always)]
    fn prefetch(&self) {
        prefetch(self.data, self.length + WRITTEN_AHEAD);
    }

    /// Appends null as value number `index`.
    ///
    /// # Safety
    /// There is room for the offset.
    #[inline(always)]
    unsafe fn push_null(&mut self, index: usize) {
        unsafe { *self.offsets.add(index) = self.length as i32 | NULL }
    }
}

/// Returns the place for the next element of `column`, if there is room for `rows`.
fn room<T>(column: &mut Vec<T>, rows: usize) -> Option<*mut T> {
    let room = column.spare_capacity_mut();
    (room.len() >= rows).then(|| room.as_mut_ptr().cast())
}

/// Works like [`room`], for a column that may be unwanted; returns null if it is.
fn optional_room<T>(column: &mut Option<Vec<T>>, rows: usize) -> Option<*mut T> {
    match column {
        Some(column) => room(column, rows),
        None => Some(std::ptr::null_mut()),
    }
}

/// Adds the next `rows` elements to `column`.
///
/// # Safety
/// The elements have been written.
unsafe fn extend<T>(column: &mut Vec<T>, rows: usize) {
    unsafe { column.set_len(column.len() + rows) }
}

/// Adds the next `rows` values to `column`, with the bytes up to the end of the last one.
///
/// # Safety
/// The values have been written.
unsafe fn extend_bytes(column: &mut BinaryColumn, rows: usize) {
    unsafe {
        extend(&mut column.offsets, rows);
        column.data.set_len(
            column
                .offsets
                .last()
                .map_or(0, |&end| (end & !NULL) as usize),
        );
    }
}

/// The headers column being written.
struct HeaderBytes {
    keys: Bytes,
    values: Bytes,
    /// The number of headers appended here, and the maximum that fits.
    count: usize,
    room: usize,
    /// Headers of earlier rows.
    before: usize,
    /// The place for the end of the next row's list.
    offsets: *mut i32,
}

impl HeaderBytes {
    fn new(column: &mut HeadersColumn, bytes: usize, rows: usize) -> Option<Self> {
        let HeadersColumn {
            keys,
            values,
            offsets,
        } = column;
        let spare = |column: &BinaryColumn| column.offsets.capacity() - column.offsets.len();
        Some(Self {
            count: 0,
            room: spare(keys).min(spare(values)),
            before: keys.offsets.len() - 1,
            keys: Bytes::new(keys, bytes, 0)?,
            values: Bytes::new(values, bytes, 0)?,
            offsets: room(offsets, rows)?,
        })
    }

    /// Appends `count` headers, which must fill `at..end`; false if they are not plain.
    ///
    /// # Safety
    /// `at <= end`, and `SLACK` bytes after `end` are readable from `start`. `count` is below 2^20.
    #[inline(always)]
    unsafe fn push(&mut self, start: *const u8, mut at: usize, end: usize, count: usize) -> bool {
        if self.count + count > self.room {
            return false;
        }
        // Local copies live in registers. The compiler must assume that writes through raw pointers change `self`.
        let Self {
            mut keys,
            mut values,
            ..
        } = *self;
        for index in self.count..self.count + count {
            unsafe {
                let Some((length, key)) = varint(start, at) else {
                    return false;
                };
                at = key + (length >> 1) as usize;
                if at > end || length & 1 != 0 {
                    return false;
                }
                let key = start.add(key);
                let length = (length >> 1) as usize;
                if !is_ascii(key, length) {
                    return false;
                }
                keys.push(index, key, length, 0);
                let Some((length, value)) = varint(start, at) else {
                    return false;
                };
                at = value;
                if length & 1 != 0 {
                    values.push_null(index);
                } else {
                    at += (length >> 1) as usize;
                    if at > end {
                        return false;
                    }
                    values.push(index, start.add(value), (length >> 1) as usize, 0);
                }
            }
        }
        self.keys = keys;
        self.values = values;
        self.count += count;
        at == end
    }

    /// Adds the first `rows` rows and their headers to `column`.
    ///
    /// # Safety
    /// The rows have been written.
    unsafe fn commit(self, column: &mut HeadersColumn, rows: usize) {
        unsafe {
            extend(&mut column.offsets, rows);
            let headers = column.offsets.last().map_or(0, |&end| end as usize) - self.before;
            extend_bytes(&mut column.keys, headers);
            extend_bytes(&mut column.values, headers);
        }
    }
}

/// Adds the next `rows` rows to `columns`.
///
/// # Safety
/// The rows have been written.
#[inline(always)]
unsafe fn commit(columns: &mut Columns, headers: Option<HeaderBytes>, rows: usize) {
    unsafe {
        for column in [&mut columns.keys, &mut columns.values]
            .into_iter()
            .flatten()
        {
            extend_bytes(column, rows);
        }
        if let (Some(column), Some(headers)) = (&mut columns.headers, headers) {
            headers.commit(column, rows);
        }
        for column in [&mut columns.offsets, &mut columns.timestamps]
            .into_iter()
            .flatten()
        {
            extend(column, rows);
        }
    }
    columns.rows += rows;
}

/// [`append`] for the columns that the constants name. `PLACES`: offsets, timestamps or both.
#[inline(never)]
fn run<const KEYS: bool, const VALUES: bool, const HEADERS: bool, const PLACES: bool>(
    payload: Payload<'_>,
    at: usize,
    count: usize,
    base: Base,
    columns: &mut Columns,
) -> (usize, usize) {
    let nothing = (at, 0);
    let Some(readable) = payload.bytes.len().checked_sub(SLACK) else {
        return nothing;
    };
    let limit = payload.length.min(readable);
    let Some(bytes) = limit.checked_sub(at) else {
        return nothing;
    };
    let Some(mut keys) = Bytes::optional(&mut columns.keys, bytes, count) else {
        return nothing;
    };
    let Some(mut values) = Bytes::optional(&mut columns.values, bytes, count) else {
        return nothing;
    };
    let mut headers = match &mut columns.headers {
        Some(column) => match HeaderBytes::new(column, bytes, count) {
            Some(headers) => Some(headers),
            None => return nothing,
        },
        None => None,
    };
    let Some(offsets) = optional_room(&mut columns.offsets, count) else {
        return nothing;
    };
    let Some(timestamps) = optional_room(&mut columns.timestamps, count) else {
        return nothing;
    };
    // After an uncompressed batch lies the next one, whose checksum is computed first and would wait for memory at
    // every page. After decompressed bytes there is nothing to prefetch.
    let is_near = limit < LARGE_BATCH && payload.bytes.len() - limit > limit;
    let next_batch = if is_near { limit } else { 0 };
    let start = payload.bytes.as_ptr();
    let mut record = at;
    let mut taken = 0;
    // SAFETY: see the head of the file.
    unsafe {
        while taken < count {
            let Some((length, body)) = varint(start, record) else {
                break;
            };
            let end = body + (length >> 1) as usize;
            if end > limit {
                break;
            }
            prefetch(start, record + next_batch);
            let Some((timestamp_delta, next)) = varlong(start, body + 1) else {
                break;
            };
            let Some((offset_delta, next)) = varint(start, next) else {
                break;
            };
            let Some((key_length, key)) = varint(start, next) else {
                break;
            };
            let mut next = key;
            if key_length & 1 == 0 {
                next += (key_length >> 1) as usize;
                if next > end {
                    break;
                }
                if KEYS {
                    keys.prefetch();
                    keys.push(taken, start.add(key), (key_length >> 1) as usize, 0);
                }
            } else if KEYS {
                keys.push_null(taken);
            }
            let Some((value_length, value)) = varint(start, next) else {
                break;
            };
            next = value;
            if value_length & 1 == 0 {
                next += (value_length >> 1) as usize;
                if next > end {
                    break;
                }
                if VALUES {
                    values.prefetch();
                    values.push(
                        taken,
                        start.add(value),
                        (value_length >> 1) as usize,
                        next_batch,
                    );
                }
            } else if VALUES {
                values.push_null(taken);
            }
            let Some((header_count, next)) = varint(start, next) else {
                break;
            };
            if header_count | (length & 1) == 0 {
                if next != end {
                    break;
                }
            } else {
                let header_bytes = end.wrapping_sub(next);
                let headers_taken = (header_count >> 1) as usize;
                if (header_count | length) & 1 != 0 || next > end || headers_taken > header_bytes {
                    break;
                }
                let is_filled = match &mut headers {
                    Some(headers) if HEADERS => headers.push(start, next, end, headers_taken),
                    _ => headers_fill(start, next, end, headers_taken),
                };
                if !is_filled {
                    break;
                }
            }
            if HEADERS && let Some(headers) = &headers {
                *headers.offsets.add(taken) = (headers.before + headers.count) as i32;
            }
            if PLACES && !offsets.is_null() {
                *offsets.add(taken) = base.offset.wrapping_add(zigzag(u64::from(offset_delta)));
            }
            if PLACES && !timestamps.is_null() {
                let delta = zigzag(timestamp_delta).wrapping_mul(base.timestamp_factor);
                *timestamps.add(taken) = base.timestamp.wrapping_add(delta);
            }
            record = end;
            taken += 1;
        }
        commit(columns, headers, taken);
    }
    (record, taken)
}

/// Returns true if `count` headers fill `at..end`. The check of a record does not depend on whether its headers are
/// wanted.
///
/// # Safety
/// `at <= end`, and `SLACK` bytes after `end` are readable from `start`.
#[inline(always)]
unsafe fn headers_fill(start: *const u8, mut at: usize, end: usize, count: usize) -> bool {
    for _ in 0..count {
        unsafe {
            let Some((key_length, key)) = varint(start, at) else {
                return false;
            };
            let key_end = key + (key_length >> 1) as usize;
            if key_end > end || key_length & 1 != 0 {
                return false;
            }
            let Some((value_length, value)) = varint(start, key_end) else {
                return false;
            };
            at = value;
            if value_length & 1 == 0 {
                at += (value_length >> 1) as usize;
            }
        }
        if at > end {
            return false;
        }
    }
    at == end
}

/// Reads an unsigned varint of at most three bytes; returns the varint and its end.
///
/// # Safety
/// Three bytes are readable.
#[inline(always)]
unsafe fn varint(start: *const u8, at: usize) -> Option<(u32, usize)> {
    unsafe {
        let first = u32::from(*start.add(at));
        if first < 0x80 {
            return Some((first, at + 1));
        }
        let second = u32::from(*start.add(at + 1));
        if second < 0x80 {
            return Some((first & 0x7f | second << 7, at + 2));
        }
        let third = u32::from(*start.add(at + 2));
        if third < 0x80 {
            return Some((first & 0x7f | (second & 0x7f) << 7 | third << 14, at + 3));
        }
        None
    }
}

/// Reads an unsigned varlong of at most eight bytes; returns the varlong and its end. Only timestamps with a large
/// distance take more than three bytes.
///
/// # Safety
/// Eight bytes are readable.
#[inline(always)]
unsafe fn varlong(start: *const u8, at: usize) -> Option<(u64, usize)> {
    unsafe {
        match varint(start, at) {
            Some((value, next)) => Some((u64::from(value), next)),
            None => long_varlong(start, at),
        }
    }
}

/// # Safety
/// Eight bytes are readable.
#[inline(never)]
unsafe fn long_varlong(start: *const u8, at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for i in 0..8 {
        let byte = unsafe { *start.add(at + i) };
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, at + i + 1));
        }
    }
    None
}

#[inline(always)]
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Copies `length` bytes and possibly more, up to `SLACK` bytes beyond. A copy of constant size is a few moves. A copy
/// of variable size is a call, which pays off only for long values.
///
/// # Safety
/// `length + SLACK` bytes are readable at `from` and writable at `to`, and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize, ahead: usize) {
    unsafe {
        if length <= 16 {
            blocks::<1>(to, from);
        } else if length <= 48 {
            blocks::<3>(to, from);
        } else if length <= SLACK {
            blocks::<8>(to, from);
        } else {
            copy_long(to, from, length, ahead);
        }
    }
}

/// Copies more than `SLACK` bytes, and prefetches the memory `ahead` bytes further.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_long(to: *mut u8, from: *const u8, length: usize, ahead: usize) {
    unsafe {
        if length <= 4096 {
            let mut done = 0;
            while done < length {
                prefetch(from, done + ahead);
                blocks::<8>(to.add(done), from.add(done));
                done += SLACK;
            }
        } else {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}

/// Copies `N` times 16 bytes through integers. The compiler would merge plain copies of different sizes into one call.
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

/// Prefetches [`PREFETCHED`] bytes that lie `ahead` of an address. A prefetch is only a hint: any address is allowed.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
pub(crate) fn prefetch(address: *const u8, ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in [ahead, ahead + PREFETCHED / 2] {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(line).cast()) }
    }
}

/// Returns true if the first `length` bytes are ASCII.
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
