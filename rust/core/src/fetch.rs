//! What a consumer does with fetched bytes (`CompletedFetch`): check, skip, decompress, hand out rows.
//!
//! Whole batches are passed over by their header alone, before checksum and decompression. Control records are never
//! handed out; their offsets are consumed.

use std::collections::HashMap;

use crate::batch::{BATCH_OVERHEAD, Header};
use crate::columns::{Columns, Row};
use crate::compression::{Compression, Decompressor};
use crate::error::Result;
use crate::kernel::{self, Base, Payload};
use crate::message::{self, Message};
use crate::record::{self, Headers, Record};

/// A transaction that ended with an ABORT marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: i64,
    /// Of its first batch in this partition.
    pub first_offset: i64,
    /// Of the marker.
    pub last_offset: i64,
}

impl From<(i64, i64, i64)> for AbortedTransaction {
    /// From its fields in their order.
    fn from((producer_id, first_offset, last_offset): (i64, i64, i64)) -> Self {
        Self {
            producer_id,
            first_offset,
            last_offset,
        }
    }
}

/// Which rows a consumer wants.
#[derive(Debug)]
pub struct Selection {
    /// First offset wanted.
    pub start_offset: i64,
    /// First offset not wanted.
    pub end_offset: i64,
    /// Producer id to its aborted transactions, first and last offset, ascending.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
}

impl Selection {
    /// Everything but `aborted` transactions.
    pub fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut by_producer: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
        for range in aborted {
            by_producer
                .entry(range.producer_id)
                .or_default()
                .push((range.first_offset, range.last_offset));
        }
        for ranges in by_producer.values_mut() {
            ranges.sort_unstable();
        }
        Self {
            start_offset: i64::MIN,
            end_offset: i64::MAX,
            aborted: by_producer,
        }
    }

    /// Outside the offsets: told before the checksum, so that whoever seeks need not read what comes before.
    fn is_elsewhere(&self, header: &Header) -> bool {
        header.last_offset() < self.start_offset && header.last_offset_delta >= 0
            || header.magic == 2 && !is_before(header.base_offset, self.end_offset)
    }

    /// No row of the batch is wanted, by what only the checksum vouches for.
    fn is_unwanted(&self, header: &Header) -> bool {
        header.is_control() || header.records_count == Some(0) || self.is_aborted(header)
    }

    /// A transaction's batches lie between its first offset and its marker. The batch's *last* offset counts:
    /// compaction keeps base offsets, so the first batch may start below.
    pub(crate) fn is_aborted(&self, header: &Header) -> bool {
        header.is_transactional()
            && self.aborted.get(&header.producer_id).is_some_and(|ranges| {
                let started = ranges.partition_point(|&(first, _)| first <= header.last_offset());
                ranges
                    .get(..started)
                    .and_then(<[_]>::last)
                    .is_some_and(|&(_, last)| header.last_offset() < last)
            })
    }

    /// Every row of the batch.
    fn is_all_wanted(&self, header: &Header) -> bool {
        header.magic == 2
            && header.base_offset >= self.start_offset
            && is_before(header.last_offset(), self.end_offset)
    }

    fn push(&self, row: Row<'_>, columns: &mut Columns) -> Result<()> {
        let is_wanted = row.offset >= self.start_offset && is_before(row.offset, self.end_offset);
        if is_wanted { columns.push(row) } else { Ok(()) }
    }
}

/// Below an exclusive end. The greatest number stands for no end, and so is before it: an offset may be it.
#[inline]
pub(crate) fn is_before(value: i64, end: i64) -> bool {
    value < end || end == i64::MAX
}

/// Records of one batch that are appended at once: no producer's batch has as many, but a hostile one takes 300 bytes of
/// memory for each of them.
const PART_ROWS: usize = 1 << 18;

/// How much of a batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All: go on behind it.
    All,
    /// So many of its records, counted from its first: take what is there, and come again.
    Part(usize),
    /// Nothing, since what is there already left no room: take that, and come again.
    NoRoom,
}

impl Taken {
    fn of(done: usize, count: usize) -> Self {
        if done < count {
            Self::Part(done)
        } else {
            Self::All
        }
    }
}

/// A consumer: what it wants, and its scratch memory.
pub struct Fetch {
    selection: Selection,
    check_crcs: bool,
    decompressor: Decompressor,
}

impl Fetch {
    /// `max_batch_bytes` is the most that one batch may decompress to; never more than 1 GiB, since columns end at 2.
    pub fn new(selection: Selection, check_crcs: bool, max_batch_bytes: usize) -> Self {
        let decompressor = Decompressor::new(max_batch_bytes.min(1 << 30));
        Self {
            selection,
            check_crcs,
            decompressor,
        }
    }

    /// Appends the wanted rows of the entry that `bytes` start with, but for the `skip` records taken before: all of them,
    /// or an error and none. Only of a batch with very many records are there several parts, and then the error comes
    /// with the first.
    pub fn batch(
        &mut self,
        header: &Header,
        bytes: &[u8],
        skip: usize,
        columns: &mut Columns,
    ) -> Result<Taken> {
        if self.selection.is_elsewhere(header) {
            return Ok(Taken::All);
        }
        self.checked_batch(header, bytes, skip, columns)
            .map_err(|error| {
                columns.rollback();
                error.at_batch(header)
            })
    }

    fn checked_batch(
        &mut self,
        header: &Header,
        bytes: &[u8],
        skip: usize,
        columns: &mut Columns,
    ) -> Result<Taken> {
        let entry = bytes.get(..header.size()).unwrap_or(bytes);
        if self.check_crcs {
            header.check_crc(entry)?;
        }
        if self.selection.is_unwanted(header) {
            Ok(Taken::All)
        } else if header.magic == 2 {
            self.records(header, bytes, skip, columns)
        } else {
            self.messages(header, entry, skip, columns)
        }
    }

    fn records(
        &mut self,
        header: &Header,
        bytes: &[u8],
        skip: usize,
        columns: &mut Columns,
    ) -> Result<Taken> {
        let (room, length) = match header.compression()? {
            Compression::None => (
                bytes.get(BATCH_OVERHEAD..).unwrap_or_default(),
                header.size() - BATCH_OVERHEAD,
            ),
            codec => {
                let stored = bytes.get(BATCH_OVERHEAD..header.size()).unwrap_or_default();
                let length = self.decompressor.decompress(codec, stored, false)?.len();
                (self.decompressor.room(), length)
            }
        };
        let payload = room.get(..length).unwrap_or_default();
        let records_count = header.records_count.unwrap_or(0);
        let count = record::check_count(records_count)?;
        let end = count.min(skip + PART_ROWS);
        if end < count && skip == 0 {
            // All of the batch or an error: the parts to come must not fail.
            record::for_each(payload, records_count, |record| {
                record.headers.for_each(|_, _| Ok(()))
            })?;
        }
        if !columns.begin(end - skip, payload.len()) {
            return Ok(Taken::NoRoom);
        }
        let base = match header.log_append_time() {
            Some(timestamp) => Base {
                offset: header.base_offset,
                timestamp,
                timestamp_factor: 0,
            },
            None => Base {
                offset: header.base_offset,
                timestamp: header.base_timestamp,
                timestamp_factor: 1,
            },
        };
        let is_plain = columns.sequences.is_none() && self.selection.is_all_wanted(header);
        let mut at = 0;
        for _ in 0..skip {
            record::parse(payload, &mut at)?;
        }
        let mut done = skip;
        while done < end {
            if is_plain {
                let payload = Payload {
                    bytes: room,
                    length,
                };
                let (next, taken) = kernel::append(payload, at, end - done, base, columns);
                at = next;
                done += taken;
                if done == end {
                    break;
                }
            }
            record::parse(payload, &mut at)
                .and_then(|record| {
                    let (timestamp, offset) = header.place(&record);
                    let sequence = header.sequence(record.offset_delta);
                    let Record {
                        key,
                        value,
                        headers,
                        ..
                    } = record;
                    let row = Row {
                        offset,
                        timestamp,
                        sequence,
                        key,
                        value,
                        headers,
                    };
                    self.selection.push(row, columns)
                })
                .map_err(|error| record::numbered(error, done, records_count))?;
            done += 1;
        }
        if done == count {
            record::check_end(payload, at, records_count)?;
        }
        columns.end(header, header.base_offset);
        Ok(Taken::of(done, count))
    }

    fn messages(
        &mut self,
        header: &Header,
        entry: &[u8],
        skip: usize,
        columns: &mut Columns,
    ) -> Result<Taken> {
        let Self {
            selection,
            check_crcs,
            decompressor,
        } = self;
        let set = message::open(header, entry, decompressor)?;
        let mut count = 0;
        if skip == 0 && set.payload().len() / message::MIN_SIZE > PART_ROWS {
            // All of the wrapper or an error: the parts to come must not fail.
            set.for_each(*check_crcs, |_| Ok(()))?;
        }
        if !columns.begin(PART_ROWS, set.payload().len()) {
            return Ok(Taken::NoRoom);
        }
        set.for_each(*check_crcs && skip == 0, |message| {
            count += 1;
            if count <= skip || count > skip + PART_ROWS {
                return Ok(());
            }
            let Message {
                offset,
                timestamp,
                key,
                value,
                ..
            } = message;
            let row = Row {
                offset,
                timestamp,
                sequence: -1,
                key,
                value,
                headers: Headers::NONE,
            };
            selection.push(row, columns)
        })?;
        columns.end(header, set.first_offset());
        Ok(Taken::of(count.min(skip + PART_ROWS), count))
    }
}

/// The records of a magic 2 batch, decompressed.
pub fn payload<'a>(
    header: &Header,
    entry: &'a [u8],
    decompressor: &'a mut Decompressor,
) -> Result<&'a [u8]> {
    let stored = entry.get(BATCH_OVERHEAD..).unwrap_or_default();
    match header.compression()? {
        Compression::None => Ok(stored),
        codec => decompressor.decompress(codec, stored, false),
    }
}
