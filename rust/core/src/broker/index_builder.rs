//! Writing the indexes beside a segment: which entries, and when (`LogSegment`, `OffsetIndex`, `TimeIndex`).
//!
//! One rule serves a live log and its recovery: once more than `index.interval.bytes` have gone by since the last entry,
//! the next batch gets one, (its last offset, its first byte). The time index is then offered the largest timestamp so
//! far, and takes it if it is larger than its last. So a segment's first batch never has an entry, and a rebuilt index
//! equals the live one unless the segment was reopened in between, which starts the count again.

use std::fmt;

use crate::format::batch::Header;
use crate::format::index::{AbortedTxn, OffsetIndex, TimeIndex, TimestampOffset};

/// Why an index does not take an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexError {
    /// No slot is left.
    Full(String),
    /// The offset (or timestamp) does not go on from the last entry's.
    InvalidOffset(String),
    /// The offset is too far from the base offset, or below it.
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

/// What an index stores of an offset, if a segment with this base may hold it.
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
    /// Of the segment.
    pub base_offset: i64,
    /// Entries that there may be.
    pub max_entries: usize,
    /// Entries so far.
    pub entries: usize,
    /// Of the last entry; without any, the base offset.
    pub last_offset: i64,
}

impl OffsetIndexEnd {
    /// No slot is left.
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
                "offset {offset} is not above the offset index's last one {}",
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
    /// Of the segment.
    pub base_offset: i64,
    /// Entries that there may be; the last slot is kept for the final entry.
    pub max_entries: usize,
    /// Entries so far.
    pub entries: usize,
    /// The last entry; without any, -1 at the base offset.
    pub last: TimestampOffset,
}

impl TimeIndexEnd {
    /// Only the slot of the final entry is left.
    pub fn is_full(&self) -> bool {
        self.entries >= self.max_entries.saturating_sub(1)
    }

    /// Adds an entry's bytes to `to` if its timestamp is above the last one's. The final entry goes into a full index too.
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
                "offset {} is below the time index's last one {}",
                entry.offset, self.last.offset
            )));
        }
        if self.entries > 0 && entry.timestamp < self.last.timestamp {
            return Err(IndexError::InvalidOffset(format!(
                "timestamp {} is below the time index's last one {}",
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
    /// Of the last entry: the offset of its marker.
    pub last_offset: Option<i64>,
}

impl TransactionIndexEnd {
    /// Whether an entry with this marker offset may follow.
    pub fn check(&self, last_offset: i64) -> Result<(), IndexError> {
        match self.last_offset {
            Some(last) if last_offset <= last => Err(IndexError::InvalidOffset(format!(
                "marker offset {last_offset} is not above the transaction index's last one {last}"
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

/// The offset and the time index of the segment being written.
#[derive(Debug, Clone, Copy)]
pub struct SegmentIndexes {
    /// `.index`.
    pub offset: OffsetIndexEnd,
    /// `.timeindex`.
    pub time: TimeIndexEnd,
    /// The segment's largest timestamp, and the last offset of the first batch that has it.
    pub max_timestamp: TimestampOffset,
    interval: i64,
    /// Bytes since the last entry, the next batch's excluded. Not stored anywhere: a reopened segment starts at 0.
    since_entry: i64,
}

impl SegmentIndexes {
    /// Of an empty segment: `interval` is `index.interval.bytes`, `max_bytes` is `segment.index.bytes`.
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

    /// Of a segment that is opened again, whose index files hold this. Its largest timestamp is that of the last entry.
    ///
    /// A running broker has zeros behind the entries, up to the length that an index may have there. For a broker that opens
    /// a copy it is full; so it is here, too, where it may be longer: no entry goes behind zeros.
    pub fn reopened(mut self, index: &OffsetIndex, timeindex: &TimeIndex) -> Self {
        let base_offset = self.offset.base_offset;
        self.offset.last_offset = index.last_offset();
        self.offset.entries = match index.len() {
            entries if entries > 1 && index.last_offset() == base_offset => self.offset.max_entries,
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

    /// The same, before its first batch.
    pub fn emptied(&self) -> Self {
        let base_offset = self.offset.base_offset;
        let mut empty = Self::new(base_offset, self.interval, 0);
        empty.offset.max_entries = self.offset.max_entries;
        empty.time.max_entries = self.time.max_entries;
        empty
    }

    /// A segment whose index is full must be rolled before the next append.
    pub fn is_full(&self) -> bool {
        self.offset.is_full() || self.time.is_full()
    }

    /// Takes the next batch, which lies at `position` of the file, and adds the entries that it gets.
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

    /// Adds the final entry of a segment that is rolled, closed or recovered: its largest timestamp.
    pub fn finish(&mut self, timeindex: &mut Vec<u8>) -> Result<(), IndexError> {
        self.time.offer(self.max_timestamp, true, timeindex)
    }
}
