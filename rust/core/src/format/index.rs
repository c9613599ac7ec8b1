//! The three binary indexes of a segment: arrays of big-endian entries of a fixed size.
//!
//! ```text
//! .index      int32 relative offset | int32 position                                          8
//! .timeindex  int64 timestamp | int32 relative offset                                        12
//! .txnindex   int16 version | int64 producer id | int64 first offset | int64 last offset
//!             | int64 last stable offset                                                     34
//! ```
//!
//! They have no header and no checksum. An index is only a hint: if it contradicts the log, the log is right. A
//! relative offset is the distance from the segment's base offset.

use std::marker::PhantomData;

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;

fn check_length(what: &str, entry: usize, slots: usize, stray: usize) -> Result<()> {
    if stray == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what} index is {} bytes long, not a multiple of {entry}",
        slots * entry + stray
    ))
    .at((slots * entry) as u64, None))
}

fn check_base(what: &str, base_offset: i64, last_offset: i64, position: usize) -> Result<()> {
    if last_offset >= base_offset {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what} index has last offset {last_offset}, below its base offset {base_offset}"
    ))
    .at(position as u64, None))
}

/// An entry of an offset or time index, which takes `SIZE` bytes.
pub trait IndexEntry<const SIZE: usize>: Copy {
    /// The entry for the segment's start, which is not in the file.
    const START: [u8; SIZE];

    /// Reads an entry of the index of a segment.
    fn parse(slot: [u8; SIZE], base_offset: i64) -> Self;

    /// Offset in the log.
    fn offset(self) -> i64;

    /// Returns the key by which entries are searched.
    fn key(self) -> i64;
}

/// An entry of an offset index: the batch with this last offset starts at this position. Every batch before the
/// position ends below the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Offset in the log.
    pub offset: i64,
    /// Byte in the `.log` file.
    pub position: i32,
}

impl IndexEntry<8> for OffsetPosition {
    const START: [u8; 8] = [0; 8];

    fn parse(slot: [u8; 8], base_offset: i64) -> Self {
        let [o0, o1, o2, o3, p0, p1, p2, p3] = slot;
        Self {
            offset: absolute([o0, o1, o2, o3], base_offset),
            position: i32::from_be_bytes([p0, p1, p2, p3]),
        }
    }

    fn offset(self) -> i64 {
        self.offset
    }

    fn key(self) -> i64 {
        self.offset
    }
}

/// An entry of a time index: the largest timestamp up to the batch with this last offset, which is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Milliseconds; -1 for none.
    pub timestamp: i64,
    /// Offset in the log.
    pub offset: i64,
}

impl IndexEntry<12> for TimestampOffset {
    /// The timestamp is -1.
    const START: [u8; 12] = [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0];

    fn parse(slot: [u8; 12], base_offset: i64) -> Self {
        let [t0, t1, t2, t3, t4, t5, t6, t7, offset @ ..] = slot;
        Self {
            timestamp: i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            offset: absolute(offset, base_offset),
        }
    }

    fn offset(self) -> i64 {
        self.offset
    }

    fn key(self) -> i64 {
        self.timestamp
    }
}

fn absolute(relative: [u8; 4], base_offset: i64) -> i64 {
    base_offset.wrapping_add(i64::from(i32::from_be_bytes(relative)))
}

/// An offset or time index.
#[derive(Debug, Clone)]
pub struct Index<E, const SIZE: usize> {
    base_offset: i64,
    slots: Vec<[u8; SIZE]>,
    length: (usize, usize),
    entry: PhantomData<E>,
}

/// A `.index` file.
pub type OffsetIndex = Index<OffsetPosition, 8>;

/// A `.timeindex` file.
pub type TimeIndex = Index<TimestampOffset, 12>;

impl<E: IndexEntry<SIZE>, const SIZE: usize> Index<E, SIZE> {
    /// Reads `data`. With `raw`, zeros at the end are entries, as for Kafka.
    ///
    /// A running broker keeps the active segment's indexes at full length, with zeros after the entries. After a crash,
    /// the zeros remain. A zero entry is valid only in the first slot, where it stands for the base offset.
    pub fn new(data: &[u8], base_offset: i64, raw: bool) -> Self {
        let (slots, stray) = data.as_chunks();
        let is_zero = |slot: &[u8; SIZE]| E::parse(*slot, 0).offset() == 0;
        let zeros = match raw {
            true => None,
            false => slots.iter().skip(1).position(is_zero),
        };
        let entries = zeros.and_then(|end| slots.get(..=end)).unwrap_or(slots);
        Self {
            base_offset,
            slots: entries.to_vec(),
            length: (slots.len(), stray.len()),
            entry: PhantomData,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if the index has no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries in file order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = E> + '_ {
        self.slots.iter().map(|slot| self.entry(slot))
    }

    fn entry(&self, slot: &[u8; SIZE]) -> E {
        E::parse(*slot, self.base_offset)
    }

    /// Returns the number of entries up to the first for which `is_before` is false.
    fn count(&self, is_before: impl Fn(E) -> bool) -> usize {
        self.slots
            .partition_point(|slot| is_before(self.entry(slot)))
    }

    /// Returns the last of the first `count` entries, or the segment's start.
    fn last_of(&self, count: usize) -> E {
        let last = count.checked_sub(1).and_then(|last| self.slots.get(last));
        self.entry(last.unwrap_or(&E::START))
    }

    /// Returns the greatest entry whose offset, or timestamp, is not above `key`; or the segment's start, which has
    /// position 0, or timestamp -1.
    pub fn lookup(&self, key: i64) -> E {
        self.last_of(self.count(|entry| entry.key() <= key))
    }

    /// The last entry, or the segment's start. In a time index it has the segment's largest timestamp, as far as the
    /// index knows it.
    pub fn last_entry(&self) -> E {
        self.last_of(self.len())
    }

    /// Returns the length of the file without the entries from `offset` on.
    pub fn length_below(&self, offset: i64) -> usize {
        SIZE * self.count(|entry| entry.offset() < offset)
    }

    fn last_position(&self) -> usize {
        SIZE * self.len().saturating_sub(1)
    }
}

impl OffsetIndex {
    /// Returns the offset of the first entry whose position is at or after `position + size`, or None. A
    /// read of `size` bytes from `position` finds no record above it.
    pub fn upper_bound(&self, position: i64, size: i64) -> Option<i64> {
        let end = position.saturating_add(size);
        let at = self.count(|entry| i64::from(entry.position) < end);
        self.slots.get(at).map(|slot| self.entry(slot).offset)
    }

    /// Applies Kafka's `sanityCheck`.
    pub fn sanity_check(&self) -> Result<()> {
        let (slots, stray) = self.length;
        check_length("offset", 8, slots, stray)?;
        let last = self.last_entry().offset;
        check_base("offset", self.base_offset, last, self.last_position())
    }
}

impl TimeIndex {
    /// Applies Kafka's `sanityCheck`.
    pub fn sanity_check(&self) -> Result<()> {
        let (slots, stray) = self.length;
        let (last, position) = (self.last_entry(), self.last_position());
        if let Some(first) = self.entries().next()
            && last.timestamp < first.timestamp
        {
            return Err(Error::corrupt(format!(
                "time index has last timestamp {}, below its first {}",
                last.timestamp, first.timestamp
            ))
            .at(position as u64, None));
        }
        check_base("time", self.base_offset, last.offset, position)?;
        check_length("time", 12, slots, stray)
    }
}

/// An entry of a transaction index: an aborted transaction whose marker lies in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// The version of the entry: 0.
    pub version: i16,
    /// The producer's id.
    pub producer_id: i64,
    /// Base offset of the transaction's first batch, which may lie in an earlier segment.
    pub first_offset: i64,
    /// Offset of the ABORT marker.
    pub last_offset: i64,
    /// The last stable offset after the marker. A search may stop here.
    pub last_stable_offset: i64,
}

/// A `.txnindex` file.
#[derive(Debug, Clone)]
pub struct TransactionIndex {
    base_offset: i64,
    slots: Vec<[u8; TRANSACTION_ENTRY]>,
}

const TRANSACTION_ENTRY: usize = 34;

impl TransactionIndex {
    /// Reads `data`; an incomplete last entry is ignored.
    pub fn new(data: &[u8], base_offset: i64) -> Self {
        Self {
            base_offset,
            slots: data.as_chunks().0.to_vec(),
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if the index has no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries in file order; a version above 0 is an error.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Result<AbortedTxn>> + '_ {
        self.slots.iter().enumerate().map(|(index, slot)| {
            parse_aborted(slot).map_err(|error| error.at((index * TRANSACTION_ENTRY) as u64, None))
        })
    }

    /// Returns the transactions that a read from `fetch_offset` to below `upper_bound` needs, and whether the list is
    /// complete. If not, the indexes of later segments may hold more.
    pub fn collect(&self, fetch_offset: i64, upper_bound: i64) -> Result<(Vec<AbortedTxn>, bool)> {
        let mut found = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            if entry.last_offset >= fetch_offset && entry.first_offset < upper_bound {
                found.push(entry);
            }
            if entry.last_stable_offset >= upper_bound {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// Returns the length of the file without the transactions whose marker lies at or above `offset`.
    pub fn length_below(&self, offset: i64) -> Result<usize> {
        for (index, entry) in self.entries().enumerate() {
            if entry?.last_offset >= offset {
                return Ok(index * TRANSACTION_ENTRY);
            }
        }
        Ok(self.slots.len() * TRANSACTION_ENTRY)
    }

    /// Applies Kafka's `sanityCheck`, as every load of a log does.
    pub fn sanity_check(&self) -> Result<()> {
        for (index, entry) in self.entries().enumerate() {
            check_base(
                "transaction",
                self.base_offset,
                entry?.last_offset,
                index * TRANSACTION_ENTRY,
            )?;
        }
        Ok(())
    }
}

fn parse_aborted(slot: &[u8; TRANSACTION_ENTRY]) -> Result<AbortedTxn> {
    let mut reader = Reader::new(slot);
    let version = reader.i16()?;
    // Brokers up to 4.1 read the first byte alone, 4.4 both.
    if version >= 1 << 8 {
        return Err(Error::unsupported(format!(
            "transaction index version {version} is not 0"
        )));
    }
    Ok(AbortedTxn {
        version,
        producer_id: reader.i64()?,
        first_offset: reader.i64()?,
        last_offset: reader.i64()?,
        last_stable_offset: reader.i64()?,
    })
}
