//! Writes the index entries of a segment (`LogSegment`, `OffsetIndex`, `TimeIndex`).
//!
//! A live log and its recovery follow one rule. After more than `index.interval.bytes` since the last entry, the next
//! batch gets an entry with its last offset and its position. At the same point, the time index gets the largest
//! timestamp so far, if it is above the last entry. So the first batch of a segment never has an entry. A rebuilt index
//! equals the live one, unless the segment was reopened in between, which restarts the count of bytes.

use std::fmt;

use crate::format::batch::Header;
use crate::format::index::{AbortedTxn, OffsetIndex, TimeIndex, TimestampOffset};

/// Why an index refuses an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexError {
    /// The index has no free slot.
    Full(String),
    /// The offset, or the timestamp, is not above the last entry's.
    InvalidOffset(String),
    /// The offset is below the base offset or too far above it.
    Overflow(String),
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(message) | Self::InvalidOffset(message) | Self::Overflow(message) => {
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for IndexError {}

/// Returns the relative offset that an index stores for an offset; None if a segment with this base offset cannot
/// contain the offset.
pub fn relative_offset(offset: i64, base_offset: i64) -> Option<i32> {
    let relative = offset.checked_sub(base_offset)?;
    i32::try_from(relative)
        .ok()
        .filter(|&relative| relative >= 0)
}

fn stored(offset: i64, base_offset: i64) -> Result<[u8; 4], IndexError> {
    relative_offset(offset, base_offset)
        .map(i32::to_be_bytes)
        .ok_or_else(|| {
            IndexError::Overflow(format!(
                "offset {offset} is not within 2^31-1 of base offset {base_offset}"
            ))
        })
}

/// The end of an offset index, where entries are added.
#[derive(Debug, Clone, Copy)]
pub struct OffsetIndexEnd {
    /// The segment's base offset.
    pub base_offset: i64,
    /// The maximum number of entries.
    pub max_entries: usize,
    /// The number of entries.
    pub entries: usize,
    /// Offset of the last entry; the base offset of an empty index.
    pub last_offset: i64,
}

impl OffsetIndexEnd {
    /// Returns true if no slot is free.
    pub fn is_full(&self) -> bool {
        self.entries >= self.max_entries
    }

    /// Adds an entry's bytes to `to`.
    pub fn append(
        &mut self,
        offset: i64,
        position: i32,
        to: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        if self.is_full() {
            return Err(full("offset", self.entries));
        }
        if self.entries > 0 && offset <= self.last_offset {
            return Err(IndexError::InvalidOffset(format!(
                "offset {offset} is not above {}, the last offset in the offset index",
                self.last_offset
            )));
        }
        to.extend(stored(offset, self.base_offset)?);
        to.extend(position.to_be_bytes());
        self.entries += 1;
        self.last_offset = offset;
        Ok(())
    }
}

#[cold]
fn full(what: &str, entries: usize) -> IndexError {
    IndexError::Full(format!("{what} index is full: {entries} entries"))
}

/// The end of a time index, where entries are added.
#[derive(Debug, Clone, Copy)]
pub struct TimeIndexEnd {
    /// The segment's base offset.
    pub base_offset: i64,
    /// The maximum number of entries. The last slot is reserved for the final entry.
    pub max_entries: usize,
    /// The number of entries.
    pub entries: usize,
    /// The last entry; timestamp -1 at the base offset if the index is empty.
    pub last: TimestampOffset,
}

impl TimeIndexEnd {
    /// Returns true if only the slot of the final entry is free.
    pub fn is_full(&self) -> bool {
        self.entries >= self.max_entries.saturating_sub(1)
    }

    /// Adds an entry's bytes to `to`, if its timestamp is above the last one's. The final entry may take the reserved
    /// slot.
    pub fn offer(
        &mut self,
        entry: TimestampOffset,
        is_final: bool,
        to: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let may_be = self.max_entries.saturating_sub(usize::from(!is_final));
        if self.entries >= may_be && !(is_final && entry.timestamp <= self.last.timestamp) {
            return Err(full("time", self.entries));
        }
        if self.entries > 0 && entry.offset < self.last.offset {
            return Err(IndexError::InvalidOffset(format!(
                "offset {} is below {}, the last offset in the time index",
                entry.offset, self.last.offset
            )));
        }
        if self.entries > 0 && entry.timestamp < self.last.timestamp {
            return Err(IndexError::InvalidOffset(format!(
                "timestamp {} is below {}, the last timestamp in the time index",
                entry.timestamp, self.last.timestamp
            )));
        }
        if entry.timestamp > self.last.timestamp {
            let offset = stored(entry.offset, self.base_offset)?;
            to.extend(entry.timestamp.to_be_bytes());
            to.extend(offset);
            self.entries += 1;
            self.last = entry;
        }
        Ok(())
    }
}

/// The end of a transaction index, where entries are added.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransactionIndexEnd {
    /// Marker offset of the last entry.
    pub last_offset: Option<i64>,
}

impl TransactionIndexEnd {
    /// Checks that an entry with this marker offset may follow.
    pub fn check(&self, last_offset: i64) -> Result<(), IndexError> {
        match self.last_offset {
            Some(last) if last_offset <= last => Err(IndexError::InvalidOffset(format!(
                "marker offset {last_offset} is not above {last}, the last offset in the transaction index"
            ))),
            _ => Ok(()),
        }
    }

    /// Adds an entry's bytes to `to`.
    pub fn append(&mut self, entry: &AbortedTxn, to: &mut Vec<u8>) -> Result<(), IndexError> {
        self.check(entry.last_offset)?;
        to.extend(0_i16.to_be_bytes());
        to.extend(entry.producer_id.to_be_bytes());
        to.extend(entry.first_offset.to_be_bytes());
        to.extend(entry.last_offset.to_be_bytes());
        to.extend(entry.last_stable_offset.to_be_bytes());
        self.last_offset = Some(entry.last_offset);
        Ok(())
    }
}

/// The ends of the offset and the time index of a segment that is written.
#[derive(Debug, Clone, Copy)]
pub struct SegmentIndexes {
    /// `.index`.
    pub offset: OffsetIndexEnd,
    /// `.timeindex`.
    pub time: TimeIndexEnd,
    /// The segment's largest timestamp, and the last offset of the first batch that has it.
    pub max_timestamp: TimestampOffset,
    interval: i64,
    /// Bytes since the last entry, without the next batch. This is stored nowhere, so a reopened segment starts at 0.
    since_entry: i64,
}

impl SegmentIndexes {
    /// Creates the ends of an empty segment's indexes: `interval` is `index.interval.bytes`, `max_bytes` is
    /// `segment.index.bytes`.
    pub fn new(base_offset: i64, interval: i64, max_bytes: usize) -> Self {
        let nothing = TimestampOffset {
            timestamp: -1,
            offset: base_offset,
        };
        Self {
            offset: OffsetIndexEnd {
                base_offset,
                max_entries: max_bytes / 8,
                entries: 0,
                last_offset: base_offset,
            },
            time: TimeIndexEnd {
                base_offset,
                max_entries: max_bytes / 12,
                entries: 0,
                last: nothing,
            },
            max_timestamp: nothing,
            interval,
            since_entry: 0,
        }
    }

    /// Continues the indexes of a reopened segment, given the content of their files. The last entry gives the
    /// segment's largest timestamp.
    ///
    /// A running broker has zeros after the entries, up to the index's full length. A broker that opens a copy of such
    /// a file treats the index as full, and so does this function: no entry follows zeros.
    pub fn reopened(mut self, index: &OffsetIndex, timeindex: &TimeIndex) -> Self {
        let base_offset = self.offset.base_offset;
        self.offset.last_offset = index.last_entry().offset;
        self.offset.entries = match index.len() {
            entries if entries > 1 && index.last_entry().offset == base_offset => {
                self.offset.max_entries
            }
            entries => entries,
        };
        self.time.last = timeindex.last_entry();
        self.time.entries = match timeindex.len() {
            entries if entries > 1 && self.time.last.offset == base_offset => self.time.max_entries,
            entries => entries,
        };
        self.max_timestamp = self.time.last;
        self
    }

    /// Returns the same indexes without entries.
    pub fn emptied(&self) -> Self {
        let base_offset = self.offset.base_offset;
        let mut empty = Self::new(base_offset, self.interval, 0);
        empty.offset.max_entries = self.offset.max_entries;
        empty.time.max_entries = self.time.max_entries;
        empty
    }

    /// Returns true if the segment must be rolled before the next append.
    pub fn is_full(&self) -> bool {
        self.offset.is_full() || self.time.is_full()
    }

    /// Adds the entries of the next batch, which starts at `position` of the file.
    pub fn add(
        &mut self,
        header: &Header,
        position: u64,
        index: &mut Vec<u8>,
        timeindex: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        if header.max_timestamp > self.max_timestamp.timestamp {
            self.max_timestamp = TimestampOffset {
                timestamp: header.max_timestamp,
                offset: header.last_offset(),
            };
        }
        if self.since_entry > self.interval {
            let position = i32::try_from(position).map_err(|_| {
                IndexError::Overflow(format!("position {position} is beyond 2^31-1"))
            })?;
            self.offset.append(header.last_offset(), position, index)?;
            self.time.offer(self.max_timestamp, false, timeindex)?;
            self.since_entry = 0;
        }
        self.since_entry += header.size() as i64;
        Ok(())
    }

    /// Adds the final entry, the segment's largest timestamp, when a segment is rolled, closed or recovered.
    pub fn finish(&mut self, timeindex: &mut Vec<u8>) -> Result<(), IndexError> {
        self.time.offer(self.max_timestamp, true, timeindex)
    }
}
