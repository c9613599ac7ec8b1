//! The fast path for plain rows: columns to records of magic 2 with few checks for each. It is the counterpart of
//! `fast_decode`, in safe code.
//!
//! A row is plain if its key and value are not null (or all keys are null). Its lengths and its offset delta fit
//! varints of two bytes, and its timestamp delta fits a varint of four bytes. The length of the key, the number of
//! headers, and the length of each header key and value are below 64. [`append`] stops before the first row that is not
//! plain, and when the batch or the memory is full. The caller appends that row with the checked code, which also
//! raises every error. Tests compare the bytes of both paths.

mod headers;

use crate::base::primitives::{zigzag32, zigzag64};
use crate::read::fast_decode::{PREFETCHED, prefetch};
use headers::RowHeaders;

/// Bytes of scratch memory for rows.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;
/// Bytes of scratch memory for one row.
pub(crate) const ROW_BYTES: usize = 2 * LONG;

/// The first length that does not fit a varint of two bytes.
const LONG: usize = 1 << 13;
/// The first zigzag timestamp delta, ms, that does not fit a varint of four bytes.
const LONG_DELTA: u64 = 1 << 28;

/// The distance ahead at which values are prefetched. The processor's own prefetching ends at each page. Without this,
/// encoding values that are not in a cache takes 1.3 times as long.
const AHEAD: usize = 2 << 10;

/// A column of byte strings: the bytes of row `i` lie between `offsets[i]` and `offsets[i + 1]`.
#[derive(Debug, Clone, Copy)]
pub struct PlainColumn<'a> {
    /// One more than there are rows.
    pub offsets: &'a [i32],
    /// The bytes of all rows.
    pub data: &'a [u8],
}

/// The headers of rows: the headers of row `i` are the entries `offsets[i]` to `offsets[i + 1]`.
#[derive(Debug, Clone, Copy)]
pub struct PlainHeaders<'a> {
    /// One more than there are rows.
    pub offsets: &'a [i32],
    /// One key for each entry.
    pub keys: PlainColumn<'a>,
    /// One value for each entry.
    pub values: PlainColumn<'a>,
}

/// Rows without nulls.
#[derive(Debug, Clone, Copy)]
pub struct PlainRows<'a> {
    /// None if every key is null.
    pub keys: Option<PlainColumn<'a>>,
    /// The values.
    pub values: PlainColumn<'a>,
    /// None if no row has headers.
    pub headers: Option<PlainHeaders<'a>>,
    /// One timestamp for each row, ms.
    pub timestamps: &'a [i64],
}

/// A row whose value is not null, without headers. Each field comes with its length and with the bytes after it,
/// because copies of a constant size may read beyond the field.
#[derive(Debug, Clone, Copy)]
pub struct PlainRow<'a> {
    /// None: null.
    pub key: Option<(&'a [u8], usize)>,
    /// The value.
    pub value: (&'a [u8], usize),
    /// ms.
    pub timestamp: i64,
}

/// The properties of the open batch that are used here.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    /// Bytes of its records so far.
    pub(crate) records: usize,
    /// Offset delta of the last record.
    pub(crate) offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
}

/// Appends up to `most` rows from `first` on to a batch that has a record. Returns the number of rows. Their records
/// fill the start of `room`. `has_room(records, size)` says whether a record of `size` bytes may follow `records`
/// bytes.
pub(crate) fn append<F: Fn(usize, usize) -> bool>(
    rows: &PlainRows<'_>,
    first: usize,
    most: usize,
    room: &mut [u8],
    batch: &mut OpenBatch,
    has_room: F,
) -> usize {
    let most = most.min(batch.plain_rows());
    if most == 0 {
        return 0;
    }
    let taken = match (rows.keys, rows.headers) {
        (Some(_), None) => run::<true, false, F>(rows, first, most, room, batch, has_room),
        (None, None) => run::<false, false, F>(rows, first, most, room, batch, has_room),
        (Some(_), Some(_)) => run::<true, true, F>(rows, first, most, room, batch, has_room),
        (None, Some(_)) => run::<false, true, F>(rows, first, most, room, batch, has_room),
    }
    .unwrap_or(0);
    batch.offset_delta += taken as i32;
    taken
}

/// Appends a row as [`append`] does, and returns whether it did.
#[inline(always)]
pub(crate) fn append_row(
    row: &PlainRow<'_>,
    room: &mut [u8],
    batch: &mut OpenBatch,
    has_room: impl Fn(usize, usize) -> bool,
) -> bool {
    if batch.plain_rows() == 0 {
        return false;
    }
    let records = batch.records;
    let timestamp_delta = zigzag64(row.timestamp.wrapping_sub(batch.base_timestamp));
    let offset_delta = batch.offset_delta as usize + 1;
    let fits = |size| has_room(records, size);
    let value = Some(row.value);
    let size = match row.key {
        key @ Some(_) => {
            write_record::<true, false>(key, value, None, timestamp_delta, offset_delta, fits, room)
        }
        None => write_record::<false, false>(
            None,
            value,
            None,
            timestamp_delta,
            offset_delta,
            fits,
            room,
        ),
    };
    let Some(size) = size else { return false };
    batch.records += size;
    batch.offset_delta += 1;
    batch.max_timestamp = batch.max_timestamp.max(row.timestamp);
    true
}

impl OpenBatch {
    /// Returns the number of further rows that have a plain offset delta, and a valid timestamp for any plain delta.
    #[inline(always)]
    fn plain_rows(&self) -> usize {
        match usize::try_from(self.offset_delta) {
            Ok(last) if self.base_timestamp >= LONG_DELTA as i64 => (LONG - 1).saturating_sub(last),
            _ => 0,
        }
    }
}

/// The remaining fields of a column.
#[derive(Clone, Copy)]
struct Fields<'a> {
    starts: &'a [i32],
    ends: &'a [i32],
    data: &'a [u8],
}

impl<'a> Fields<'a> {
    fn new(column: PlainColumn<'a>, first: usize) -> Option<Self> {
        let starts = column.offsets.get(first..)?;
        Some(Self {
            starts,
            ends: starts.get(1..)?,
            data: column.data,
        })
    }
}

#[inline(never)]
fn run<const KEYS: bool, const HEADERS: bool, F: Fn(usize, usize) -> bool>(
    rows: &PlainRows<'_>,
    first: usize,
    most: usize,
    room: &mut [u8],
    batch: &mut OpenBatch,
    has_room: F,
) -> Option<usize> {
    let values = Fields::new(rows.values, first)?;
    let keys = match rows.keys {
        Some(keys) => Fields::new(keys, first)?,
        None => values,
    };
    let times = rows.timestamps.get(first..)?;
    let base_timestamp = batch.base_timestamp;
    let mut max_timestamp = batch.max_timestamp;
    let mut records = batch.records;
    let mut rest = room;
    let mut taken = 0;
    let places = (keys.starts.iter().zip(keys.ends)).zip(values.starts.iter().zip(values.ends));
    for (offset_delta, (((&key_start, &key_end), (&value_start, &value_end)), &timestamp)) in
        (batch.offset_delta as usize + 1..).zip(places.zip(times).take(most))
    {
        let headers = match &rows.headers {
            Some(headers) if HEADERS => RowHeaders::new(headers, first + taken),
            _ => None,
        };
        let size = write_record::<KEYS, HEADERS>(
            Fields::get(keys.data, key_start, key_end),
            Fields::get(values.data, value_start, value_end),
            headers,
            zigzag64(timestamp.wrapping_sub(base_timestamp)),
            offset_delta,
            |size| has_room(records, size),
            rest,
        );
        let Some((size, tail)) =
            size.and_then(|size| Some((size, std::mem::take(&mut rest).get_mut(size..)?)))
        else {
            break;
        };
        rest = tail;
        records += size;
        max_timestamp = max_timestamp.max(timestamp);
        taken += 1;
    }
    batch.records = records;
    batch.max_timestamp = max_timestamp;
    Some(taken)
}

impl Fields<'_> {
    /// Returns the bytes from a field on, and the length of the field.
    #[inline(always)]
    fn get(data: &[u8], start: i32, end: i32) -> Option<(&[u8], usize)> {
        // A negative offset becomes a large one, which is not plain.
        let bytes = data.get(start as u32 as usize..)?;
        Some((bytes, end.wrapping_sub(start) as u32 as usize))
    }
}

/// Writes the record of a row to the start of `room`; returns its size. None if the row is not plain or does not fit.
#[inline(always)]
fn write_record<const KEYS: bool, const HEADERS: bool>(
    key: Option<(&[u8], usize)>,
    value: Option<(&[u8], usize)>,
    headers: Option<RowHeaders<'_>>,
    timestamp_delta: u64,
    offset_delta: usize,
    has_room: impl Fn(usize) -> bool,
    room: &mut [u8],
) -> Option<usize> {
    let (value, value_length) = value?;
    prefetch(value.as_ptr(), AHEAD);
    let (key, key_length) = if KEYS { key? } else { (&[][..], 0) };
    // The bytes between the length and the key, assembled from the last to the first: at most eight.
    let mut head = RecordHead {
        word: if KEYS {
            key_length as u64 * 2
        } else {
            u64::from(zigzag32(-1))
        },
        size: 1,
    };
    head.push_short(offset_delta as u64 * 2);
    if timestamp_delta < 2 * LONG as u64 {
        head.push_short(timestamp_delta);
    } else {
        head.push_long(timestamp_delta);
    }
    // Attributes.
    head.push(0, 1);
    let (value_word, value_size) = short_varint(value_length);
    let headers_size = match &headers {
        Some(headers) if HEADERS => headers.size,
        None if HEADERS => return None,
        _ => 1,
    };
    let body = head.size + key_length + value_size + value_length + headers_size;
    let (body_word, body_size) = short_varint(body);
    let size = body_size + body;
    if timestamp_delta >= LONG_DELTA || key_length >= 64 || body >= LONG || !has_room(size) {
        return None;
    }
    // Each store overruns into the bytes of the next one. The masks change nothing; they only spare bounds checks.
    let start = room.first_chunk_mut::<32>()?;
    *start.first_chunk_mut()? = body_word.to_le_bytes();
    *start.get_mut(body_size & 3..)?.first_chunk_mut()? = head.word.to_le_bytes();
    let mut at = body_size + head.size;
    if KEYS {
        match key.first_chunk::<16>() {
            Some(key) if key_length <= 16 => {
                *start.get_mut(at & 15..)?.first_chunk_mut()? = *key;
            }
            _ => copy(room.get_mut(at..)?, key, key_length)?,
        }
        at += key_length;
    }
    let tail = room.get_mut(at..)?;
    *tail.first_chunk_mut()? = value_word.to_le_bytes();
    let tail = tail.get_mut(value_size..)?;
    copy(tail, value, value_length)?;
    let tail = tail.get_mut(value_length..)?;
    match headers {
        Some(headers) if HEADERS => headers.write(tail)?,
        _ => *tail.first_mut()? = 0,
    }
    Some(size)
}

/// The first bytes of a record, assembled from the last one to the first.
struct RecordHead {
    /// The bytes in little-endian order.
    word: u64,
    size: usize,
}

impl RecordHead {
    #[inline(always)]
    fn push(&mut self, bytes: u64, size: usize) {
        self.word = self.word << (8 * size) | bytes;
        self.size += size;
    }

    /// Adds the varint of a number that fits two bytes.
    #[inline(always)]
    fn push_short(&mut self, number: u64) {
        if number < 1 << 7 {
            self.push(number, 1);
        } else {
            self.push(number & 0x7f | 0x80 | (number & 0x3f80) << 1, 2);
        }
    }

    /// Adds the varint of a number that takes three or four bytes.
    #[inline(always)]
    fn push_long(&mut self, number: u64) {
        let low = number & 0x7f | (number & 0x3f80) << 1 | (number & 0x1f_c000) << 2 | 0x8080;
        if number < 1 << 21 {
            self.push(low, 3);
        } else {
            self.push(low | 0x80_0000 | (number & 0xfe0_0000) << 3, 4);
        }
    }
}

/// Returns the varint of a length below [`LONG`], in little-endian order, and its size.
#[inline(always)]
fn short_varint(length: usize) -> (u16, usize) {
    // A longer one wraps, and is refused by its size.
    let doubled = (length as u16).wrapping_mul(2);
    if length < 64 {
        (doubled, 1)
    } else {
        (doubled & 0x7f | 0x80 | (doubled & 0x3f80) << 1, 2)
    }
}

/// Copies the first `length` bytes, and usually some more: copies of a constant size are cheaper than a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8], length: usize) -> Option<()> {
    let is_done = match length {
        0..=16 => blocks::<1>(to, from),
        17..=48 => blocks::<3>(to, from),
        49..=128 => blocks::<8>(to, from),
        _ => false,
    };
    if is_done {
        Some(())
    } else {
        copy_long(to, from, length)
    }
}

#[inline(never)]
fn copy_long(to: &mut [u8], from: &[u8], length: usize) -> Option<()> {
    let (to, from) = (to.get_mut(..length)?, from.get(..length)?);
    let chunks = to.as_chunks_mut::<PREFETCHED>().0.iter_mut();
    for (to, from) in chunks.zip(from.as_chunks::<PREFETCHED>().0) {
        prefetch(from.as_ptr(), AHEAD);
        *to = *from;
    }
    match (to.last_chunk_mut::<PREFETCHED>(), from.last_chunk()) {
        (Some(to), Some(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
    Some(())
}

/// Copies `N` times 16 bytes, if there are as many, through integers. The compiler would merge plain copies into one
/// call.
#[inline(always)]
fn blocks<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(to), Some(from)) = (
        to.as_chunks_mut::<16>().0.first_chunk_mut::<N>(),
        from.as_chunks::<16>().0.first_chunk::<N>(),
    ) else {
        return false;
    };
    for (to, from) in to.iter_mut().zip(from) {
        *to = u128::from_ne_bytes(*from).to_ne_bytes();
    }
    true
}
