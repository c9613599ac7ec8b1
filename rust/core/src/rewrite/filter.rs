//! One batch without some of its records (`MemoryRecords.filterTo`).
//!
//! Offsets, sequences and the producer's fields outlive the records: a rebuilt batch of magic 2 spans the offsets that it
//! spanned before, and a batch that lost all may stay as a header alone. What is rebuilt becomes magic 2, as brokers since
//! 4.0 have it, in the same codec at its default level. Headers are copied as they are, key bytes that are no UTF-8
//! included, where Kafka's detour by strings would change them.

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, TimestampType, attributes};
use crate::format::compression::{Codec, Compression, Decompressor};
use crate::format::message::MessageSet;
use crate::format::record::{self, Headers};
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It stays with a value of no bytes; a null value, which is a tombstone, stays null.
    Blank,
    /// It goes.
    Drop,
}

/// What becomes of a batch besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Without any record its header stays, which only magic 2 can.
    pub retain_empty: bool,
    /// The delete horizon that it gets if a record stays and it has none, ms (KIP-534).
    pub delete_horizon_ms: Option<i64>,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filtered<'a> {
    /// The batch, of uncompressed magic 0 and 1 the batch of that one record; nothing if it goes.
    pub batch: &'a [u8],
    /// Records in it.
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
    /// `max_batch_bytes` is the most that one batch may decompress to.
    pub fn new(max_batch_bytes: usize) -> Self {
        Self {
            decompressor: Decompressor::new(max_batch_bytes),
            builder: BatchBuilder::new(),
            rebuilt: Vec::new(),
        }
    }

    /// What is left of `entry`, the whole entry of `header`, once `verdict` was asked about each of its records by number,
    /// from 0. A batch of magic 2 of which everything stays is `entry` itself.
    ///
    /// The checksum is not looked at: as with Kafka's cleaner, that is the caller's.
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

    /// The header that a batch of magic 2 leaves without its records (`DefaultRecordBatch.writeEmptyHeader`).
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
            record.headers.for_each(|_, _| Ok(()))?;
            kept += 1;
            let (timestamp, offset) = header.timestamp_and_offset(&record);
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
                "the message is to stay without a record, which magic {} cannot; Kafka's cleaner fails here, too: \
                 convert the log to magic 2 first",
                header.magic
            )));
        }
        Ok(Kept::Rebuilt(kept))
    }
}

/// How many records stay, and in which bytes.
enum Kept {
    /// The batch as it was.
    All(usize),
    /// A new one, or none.
    Rebuilt(usize),
}

fn kept_value(value: Option<&[u8]>, verdict: Verdict) -> Option<&[u8]> {
    match verdict {
        Verdict::Blank => value.map(|_| &[][..]),
        Verdict::Keep | Verdict::Drop => value,
    }
}

/// What a rebuilt batch takes over, whatever its magic was.
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

/// Magic 0 knows no timestamps: in magic 2 these are create times of -1.
fn timestamp_type(header: &Header) -> TimestampType {
    match header.log_append_time() {
        Some(_) => TimestampType::LogAppendTime,
        None => TimestampType::CreateTime,
    }
}
