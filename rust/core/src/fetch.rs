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
use crate::record::Headers;
use crate::{message, record};

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

/// Which rows a consumer wants.
#[derive(Debug)]
pub struct Selection {
    /// First offset wanted.
    pub start_offset: i64,
    /// First offset not wanted.
    pub end_offset: i64,
    /// Lowest timestamp wanted, ms.
    pub start_timestamp: i64,
    /// Lowest timestamp too high, ms.
    pub end_timestamp: i64,
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
            start_timestamp: i64::MIN,
            end_timestamp: i64::MAX,
            aborted: by_producer,
        }
    }

    /// No row of the batch: can be told from the header alone.
    fn is_unwanted(&self, header: &Header) -> bool {
        header.is_control()
            || header.records_count == Some(0)
            || header.last_offset() < self.start_offset && header.last_offset_delta >= 0
            || header.magic == 2 && !is_before(header.base_offset, self.end_offset)
            || header.max_timestamp < self.start_timestamp
            || self.is_aborted(header)
    }

    /// A transaction's batches lie between its first offset and its marker. The batch's *last* offset counts:
    /// compaction keeps base offsets, so the first batch may start below.
    fn is_aborted(&self, header: &Header) -> bool {
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
            && self.start_timestamp == i64::MIN
            && self.end_timestamp == i64::MAX
    }

    #[inline]
    fn is_wanted(&self, row: &Row<'_>) -> bool {
        row.offset >= self.start_offset
            && is_before(row.offset, self.end_offset)
            && row.timestamp >= self.start_timestamp
            && is_before(row.timestamp, self.end_timestamp)
    }
}

/// Below an exclusive end. The greatest number stands for no end, and so is before it: offsets and timestamps may be it.
#[inline]
fn is_before(value: i64, end: i64) -> bool {
    value < end || end == i64::MAX
}

/// A consumer: what it wants, and its scratch memory.
pub struct Fetch {
    selection: Selection,
    check_crcs: bool,
    decompressor: Decompressor,
}

impl Fetch {
    /// `max_batch_bytes` is the most that one batch may decompress to.
    pub fn new(selection: Selection, check_crcs: bool, max_batch_bytes: usize) -> Self {
        Self {
            selection,
            check_crcs,
            decompressor: Decompressor::new(max_batch_bytes),
        }
    }

    /// Appends the wanted rows of the entry that `bytes` start with: all of them, or none and an error. False: there was
    /// no room.
    pub fn batch(&mut self, header: &Header, bytes: &[u8], columns: &mut Columns) -> Result<bool> {
        if self.selection.is_unwanted(header) {
            return Ok(true);
        }
        let entry = bytes.get(..header.size()).unwrap_or(bytes);
        let result = if self.check_crcs {
            header.check_crc(entry)
        } else {
            Ok(())
        };
        let result = result.and_then(|()| match header.magic {
            2 => self.records(header, bytes, columns),
            _ => self.messages(header, entry, columns),
        });
        result.map_err(|error| {
            columns.rollback();
            error.at(header.position, Some(header.base_offset))
        })
    }

    fn records(&mut self, header: &Header, bytes: &[u8], columns: &mut Columns) -> Result<bool> {
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
        if !columns.begin(records_count, payload.len()) {
            return Ok(false);
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
        let mut done = 0;
        while done < count {
            if is_plain {
                let (next, taken) = kernel::append(
                    Payload {
                        bytes: room,
                        length,
                    },
                    at,
                    count - done,
                    base,
                    columns,
                );
                at = next;
                done += taken;
                if done == count {
                    break;
                }
            }
            record::parse(payload, &mut at)
                .and_then(|record| {
                    let (timestamp, offset) = header.place(&record);
                    let sequence = header.sequence(record.offset_delta);
                    let record::Record {
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
                    if self.selection.is_wanted(&row) {
                        columns.push(row)
                    } else {
                        Ok(())
                    }
                })
                .map_err(|error| record::numbered(error, done, records_count))?;
            done += 1;
        }
        record::check_end(payload, at, records_count)?;
        columns.end(header, header.base_offset);
        Ok(true)
    }

    fn messages(&mut self, header: &Header, entry: &[u8], columns: &mut Columns) -> Result<bool> {
        let set = message::open(header, entry, &mut self.decompressor)?;
        if !columns.begin(1, set.payload().len()) {
            return Ok(false);
        }
        set.for_each(self.check_crcs, |message| {
            let message::Message {
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
            if self.selection.is_wanted(&row) {
                columns.push(row)
            } else {
                Ok(())
            }
        })?;
        columns.end(header, set.first_offset());
        Ok(true)
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
