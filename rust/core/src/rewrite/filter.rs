//! Removes records from one batch (`MemoryRecords.filterTo`).
//!
//! Offsets, sequences and the producer's fields do not depend on the remaining records: a rebuilt batch of magic 2
//! covers the same offsets as before. A batch that lost all records may stay as a header. Rebuilt batches are of magic
//! 2, as on brokers since 4.0, and have the same codec at its default level. Headers are copied byte for byte. Kafka
//! converts header keys to strings, which changes those that are not UTF-8.

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, TimestampType, attributes};
use crate::format::compression::{Codec, Compression, Decompressor};
use crate::format::message::MessageSet;
use crate::format::record::{self, Headers};
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};

/// The verdict on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The record stays.
    Keep,
    /// The record stays with an empty value. A tombstone's null value stays null.
    Blank,
    /// The record is dropped.
    Drop,
}

/// The further effects of a filter on a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Keep the header if no record stays. Only magic 2 supports this.
    pub retain_empty: bool,
    /// The delete horizon, ms, for a batch that keeps records and has none (KIP-534).
    pub delete_horizon_ms: Option<i64>,
}

/// A filtered batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filtered<'a> {
    /// The batch; nothing if it is dropped. An uncompressed message of magic 0 or 1 becomes a batch of one record.
    pub batch: &'a [u8],
    /// The number of records in it.
    pub kept: usize,
}

/// Filters one batch after another in the same memory.
#[derive(Debug)]
pub struct BatchFilter {
    decompressor: Decompressor,
    builder: BatchBuilder,
    rebuilt: Vec<u8>,
}

impl BatchFilter {
    /// `max_batch_bytes` caps the decompressed size of one batch.
    pub fn new(max_batch_bytes: usize) -> Self {
        Self {
            decompressor: Decompressor::new(max_batch_bytes),
            builder: BatchBuilder::new(),
            rebuilt: Vec::new(),
        }
    }

    /// Returns the remaining part of `entry`, the whole entry of `header`. `verdict` is called for each record with its
    /// number, from 0. If all records of a batch of magic 2 stay, returns `entry` itself.
    ///
    /// The caller verifies the checksum, as with Kafka's cleaner.
    pub fn filter<'a>(
        &'a mut self,
        header: &Header,
        entry: &'a [u8],
        retention: Retention,
        verdict: impl FnMut(usize) -> Verdict,
    ) -> Result<Filtered<'a>> {
        let filtered = if header.magic == 2 {
            self.batch(header, entry, retention, verdict)
        } else {
            self.messages(header, entry, retention, verdict)
        };
        let kept = match filtered {
            Err(error) => {
                self.builder.clear();
                return Err(header.locate(error));
            }
            Ok(Kept::All(kept)) => return Ok(Filtered { batch: entry, kept }),
            Ok(Kept::Rebuilt(kept)) => kept,
        };
        Ok(Filtered {
            batch: &self.rebuilt,
            kept,
        })
    }

    /// Returns the remaining header of a batch of magic 2 without records (`DefaultRecordBatch.writeEmptyHeader`).
    pub fn emptied(header: &Header) -> [u8; BATCH_OVERHEAD] {
        let left = Header {
            attributes: attributes(
                Compression::None,
                timestamp_type(header),
                header.is_transactional(),
                header.is_control(),
                false,
            ),
            base_timestamp: -1,
            ..*header
        };
        left.without_records()
    }

    fn batch(
        &mut self,
        header: &Header,
        entry: &[u8],
        retention: Retention,
        mut verdict: impl FnMut(usize) -> Verdict,
    ) -> Result<Kept> {
        let existing = header.delete_horizon_ms();
        let options = BatchOptions {
            base_offset: header.base_offset,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            is_transactional: header.is_transactional(),
            is_control: header.is_control(),
            ..options(header, existing.or(retention.delete_horizon_ms))?
        };
        let payload = record::payload(header, entry, &mut self.decompressor)?;
        self.builder.begin(options)?;
        let mut is_changed = existing.is_none() && retention.delete_horizon_ms.is_some();
        let (mut number, mut kept) = (0, 0);
        record::for_each(payload, header.records_count.unwrap_or(0), |record| {
            let verdict = verdict(number);
            number += 1;
            is_changed |= verdict != Verdict::Keep;
            if verdict == Verdict::Drop {
                return Ok(());
            }
            kept += 1;
            let (timestamp, offset) = record.timestamp_and_offset(header);
            self.builder.append(&NewRecord {
                offset,
                timestamp,
                key: record.key,
                value: kept_value(record.value, verdict),
                headers: record.headers,
            })
        })?;
        self.rebuilt.clear();
        if kept > 0 && !is_changed {
            self.builder.clear();
            return Ok(Kept::All(kept));
        }
        if kept > 0 {
            self.builder.override_last_offset(header.last_offset())?;
            self.builder.finish(&mut self.rebuilt)?;
        } else {
            self.builder.clear();
            if retention.retain_empty {
                self.rebuilt.extend(Self::emptied(header));
            }
        }
        Ok(Kept::Rebuilt(kept))
    }

    fn messages(
        &mut self,
        header: &Header,
        entry: &[u8],
        retention: Retention,
        mut verdict: impl FnMut(usize) -> Verdict,
    ) -> Result<Kept> {
        let set = MessageSet::open(header, entry, &mut self.decompressor)?;
        let options = options(header, retention.delete_horizon_ms)?;
        let (mut number, mut kept) = (0, 0);
        set.for_each(false, |message| {
            let verdict = verdict(number);
            number += 1;
            if verdict == Verdict::Drop {
                return Ok(());
            }
            if kept == 0 {
                self.builder.begin(BatchOptions {
                    base_offset: message.offset,
                    ..options
                })?;
            }
            kept += 1;
            self.builder.append(&NewRecord {
                offset: message.offset,
                timestamp: message.timestamp,
                key: message.key,
                value: kept_value(message.value, verdict),
                headers: Headers::NONE,
            })
        })?;
        self.rebuilt.clear();
        if kept > 0 {
            self.builder.finish(&mut self.rebuilt)?;
        } else if retention.retain_empty {
            return Err(Error::unsupported(format!(
                "a message of magic {} cannot stay without its record, and Kafka's cleaner fails here, too: \
                 convert the log to magic 2 first",
                header.magic
            )));
        }
        Ok(Kept::Rebuilt(kept))
    }
}

/// The records that stay.
enum Kept {
    /// All records, in the unchanged batch.
    All(usize),
    /// Some records, in a new batch; or no record.
    Rebuilt(usize),
}

fn kept_value(value: Option<&[u8]>, verdict: Verdict) -> Option<&[u8]> {
    match verdict {
        Verdict::Blank => value.map(|_| &[][..]),
        Verdict::Keep | Verdict::Drop => value,
    }
}

/// The options of a rebuilt batch that do not depend on its magic.
fn options(header: &Header, delete_horizon_ms: Option<i64>) -> Result<BatchOptions> {
    Ok(BatchOptions {
        partition_leader_epoch: header.partition_leader_epoch,
        codec: Codec {
            compression: header.compression()?,
            level: None,
        },
        timestamp_type: timestamp_type(header),
        log_append_time: header.max_timestamp,
        delete_horizon_ms: delete_horizon_ms.unwrap_or(-1),
        ..BatchOptions::default()
    })
}

/// Magic 0 has no timestamps. In magic 2, they are create times of -1.
fn timestamp_type(header: &Header) -> TimestampType {
    match header.log_append_time() {
        Some(_) => TimestampType::LogAppendTime,
        None => TimestampType::CreateTime,
    }
}
