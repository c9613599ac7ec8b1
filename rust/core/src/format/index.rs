//! The three binary indexes of a segment: arrays of big-endian entries of a fixed size.
//!
//! ```text
//! .index      int32 relative offset | int32 position                                          8
//! .timeindex  int64 timestamp | int32 relative offset                                        12
//! .txnindex   int16 version | int64 producer id | int64 first offset | int64 last offset
//!             | int64 last stable offset                                                     34
//! ```
//!
//! They have no header and no checksum: an index is a hint, and only the log is proof. Relative offsets count from the
//! segment's base offset.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;

/// Cuts off the zeros behind the entries of an offset or time index.
///
/// A running broker keeps the active segment's indexes at full length, with zeros behind the entries, and a crash
/// leaves them so. A zero entry is valid only in the first slot, where it stands for the base offset.
fn without_zero_tail<const N: usize>(
    slots: &[[u8; N]],
    relative: fn(&[u8; N]) -> i32,
) -> &[[u8; N]] {
    let end = slots.iter().skip(1).position(|slot| relative(slot) == 0);
    end.and_then(|end| slots.get(..=end)).unwrap_or(slots)
}

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

/// An entry of an offset index: the batch with this last offset starts at this position. Every batch before the
/// position ends below the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Offset in the log.
    pub offset: i64,
    /// Byte in the `.log` file.
    pub position: i32,
}

impl OffsetPosition {
    /// Reads an entry of the index of a segment.
    pub fn parse(slot: [u8; 8], base_offset: i64) -> Self {
        let [.., p0, p1, p2, p3] = slot;
        Self {
            offset: base_offset.wrapping_add(i64::from(relative_offset(&slot))),
            position: i32::from_be_bytes([p0, p1, p2, p3]),
        }
    }
}

/// A `.index` file.
#[derive(Debug, Clone)]
pub struct OffsetIndex {
    base_offset: i64,
    slots: Vec<[u8; 8]>,
    length: (usize, usize),
}

impl OffsetIndex {
    /// Reads `data`. With `raw`, a tail of zeros counts as entries, as for Kafka.
    pub fn new(data: &[u8], base_offset: i64, raw: bool) -> Self {
        let (slots, stray) = data.as_chunks();
        let entries = if raw {
            slots
        } else {
            without_zero_tail(slots, relative_offset)
        };
        Self {
            base_offset,
            slots: entries.to_vec(),
            length: (slots.len(), stray.len()),
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries in file order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = OffsetPosition> + '_ {
        self.slots.iter().map(|slot| self.entry(slot))
    }

    fn entry(&self, slot: &[u8; 8]) -> OffsetPosition {
        OffsetPosition::parse(*slot, self.base_offset)
    }

    /// Returns the greatest entry not above `offset`, or the segment's start.
    pub fn lookup(&self, offset: i64) -> OffsetPosition {
        let above = self
            .slots
            .partition_point(|slot| self.entry(slot).offset <= offset);
        match above.checked_sub(1).and_then(|last| self.slots.get(last)) {
            Some(slot) => self.entry(slot),
            None => OffsetPosition {
                offset: self.base_offset,
                position: 0,
            },
        }
    }

    /// Returns the offset of the first entry at or behind `position + size`. A read of `size` bytes from `position`
    /// finds no record above it.
    pub fn upper_bound(&self, position: i64, size: i64) -> Option<i64> {
        let end = position.saturating_add(size);
        let at = self
            .slots
            .partition_point(|slot| i64::from(self.entry(slot).position) < end);
        self.slots.get(at).map(|slot| self.entry(slot).offset)
    }

    /// The offset of the last entry; the base offset if there is none.
    pub fn last_offset(&self) -> i64 {
        self.slots
            .last()
            .map_or(self.base_offset, |slot| self.entry(slot).offset)
    }

    /// Returns the length of the file without the entries from `offset` on.
    pub fn length_below(&self, offset: i64) -> usize {
        8 * self
            .slots
            .partition_point(|slot| self.entry(slot).offset < offset)
    }

    /// Applies Kafka's `sanityCheck`.
    pub fn sanity_check(&self) -> Result<()> {
        let (slots, stray) = self.length;
        check_length("offset", 8, slots, stray)?;
        check_base(
            "offset",
            self.base_offset,
            self.last_offset(),
            8 * self.len().saturating_sub(1),
        )
    }
}

fn relative_offset(slot: &[u8; 8]) -> i32 {
    let [o0, o1, o2, o3, ..] = *slot;
    i32::from_be_bytes([o0, o1, o2, o3])
}

/// An entry of a time index: the largest timestamp up to the batch with this last offset, which is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Milliseconds; -1 for none.
    pub timestamp: i64,
    /// Offset in the log.
    pub offset: i64,
}

/// A `.timeindex` file.
#[derive(Debug, Clone)]
pub struct TimeIndex {
    base_offset: i64,
    slots: Vec<[u8; 12]>,
    length: (usize, usize),
}

impl TimeIndex {
    /// Reads `data`. With `raw`, a tail of zeros counts as entries, as for Kafka.
    pub fn new(data: &[u8], base_offset: i64, raw: bool) -> Self {
        let (slots, stray) = data.as_chunks();
        let entries = if raw {
            slots
        } else {
            without_zero_tail(slots, timed_relative_offset)
        };
        Self {
            base_offset,
            slots: entries.to_vec(),
            length: (slots.len(), stray.len()),
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries in file order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = TimestampOffset> + '_ {
        self.slots.iter().map(|slot| self.entry(slot))
    }

    fn entry(&self, slot: &[u8; 12]) -> TimestampOffset {
        let [t0, t1, t2, t3, t4, t5, t6, t7, ..] = *slot;
        TimestampOffset {
            timestamp: i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            offset: self
                .base_offset
                .wrapping_add(i64::from(timed_relative_offset(slot))),
        }
    }

    /// Returns the greatest entry not above `timestamp`, or timestamp -1 at the base offset.
    pub fn lookup(&self, timestamp: i64) -> TimestampOffset {
        let above = self
            .slots
            .partition_point(|slot| self.entry(slot).timestamp <= timestamp);
        self.entry_or_none(above.checked_sub(1))
    }

    /// The entry with the segment's largest timestamp, as far as the index knows it.
    pub fn last_entry(&self) -> TimestampOffset {
        self.entry_or_none(self.slots.len().checked_sub(1))
    }

    /// Returns the length of the file without the entries from `offset` on.
    pub fn length_below(&self, offset: i64) -> usize {
        12 * self
            .slots
            .partition_point(|slot| self.entry(slot).offset < offset)
    }

    fn entry_or_none(&self, at: Option<usize>) -> TimestampOffset {
        match at.and_then(|at| self.slots.get(at)) {
            Some(slot) => self.entry(slot),
            None => TimestampOffset {
                timestamp: -1,
                offset: self.base_offset,
            },
        }
    }

    /// Applies Kafka's `sanityCheck`.
    pub fn sanity_check(&self) -> Result<()> {
        let (slots, stray) = self.length;
        let last = self.last_entry();
        let position = 12 * self.len().saturating_sub(1);
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

fn timed_relative_offset(slot: &[u8; 12]) -> i32 {
    let [.., o0, o1, o2, o3] = *slot;
    i32::from_be_bytes([o0, o1, o2, o3])
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

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries in file order; a version above 0 is an error.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Result<AbortedTxn>> + '_ {
        self.slots.iter().enumerate().map(|(index, slot)| {
            parse_aborted(slot).map_err(|error| error.at((index * TRANSACTION_ENTRY) as u64, None))
        })
    }

    /// Returns the transactions that a read from `fetch_offset` to below `upper_bound` needs, and whether they are all.
    /// If not, the indexes of later segments may hold more.
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
