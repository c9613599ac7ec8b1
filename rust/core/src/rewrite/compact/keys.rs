//! Hashes the keys of one batch at a time: the part of a scan that needs no other batch.

use siphasher::sip128::SipHasher13;

use super::key_map::HashedKey;
use super::packed_record::{PackedRecord, ValueKind};
use crate::base::error::{Error, Result};
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::message::MessageSet;
use crate::format::record;

/// The number of keys that are passed on together. A hostile batch may hold far more.
const MAX_KEYS: usize = 1 << 16;

/// A batch whose records must be hashed.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTask {
    /// Its header.
    pub(super) header: Header,
    /// Its position in the bytes that were fed.
    pub(super) at: usize,
    pub(super) fate: BatchFate,
}

impl BatchTask {
    /// The records count of its header; None for magic 0 and 1, which have none.
    pub(super) fn records_count(&self) -> Option<u64> {
        self.header.records_count.map(|count| count.max(0) as u64)
    }

    fn entry<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let rest = data.get(self.at..).unwrap_or_default();
        rest.get(..self.header.size()).unwrap_or(rest)
    }
}

/// The treatment of a batch's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchFate {
    /// The records belong to an aborted transaction and are dropped.
    Aborted,
    /// The records are control records. The flags say whether they stay, and whether the batch then gets a delete
    /// horizon.
    Control { is_kept: bool, is_stamped: bool },
    /// The keys decide which records stay.
    Keyed,
}

/// Counts of records. A compaction counts each record once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCounts {
    /// All records.
    pub records: u64,
    /// Records of aborted transactions.
    pub aborted: u64,
    /// Control records that stay.
    pub control: u64,
    /// Control records that are dropped.
    pub discarded: u64,
    /// Records without a key, which are dropped. Aborted and control records are not among them.
    pub unkeyed: u64,
    /// Offset of the first record without a key.
    pub first_unkeyed: Option<i64>,
    /// Records with a key and a null value. Aborted records are not among them.
    pub tombstones: u64,
}

/// The selection of the records to hash, and the treatment of tombstones.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashingOptions {
    /// If `is_dirty`, records from this offset on are hashed; else records below it.
    pub(super) first_dirty_offset: i64,
    pub(super) is_dirty: bool,
    /// True if tombstones of magic 0 and 1, which have no delete horizon, are kept.
    pub(super) keeps_legacy_tombstones: bool,
    /// The current time, ms.
    pub(super) now: i64,
}

impl HashingOptions {
    fn includes(&self, offset: i64) -> bool {
        (offset >= self.first_dirty_offset) == self.is_dirty
    }
}

/// Receives the results batch by batch. Record numbers start at 0 with the first record of the batches that are hashed
/// together.
pub(super) trait KeySink {
    /// Receives keys, in order.
    fn keys(&mut self, keys: &[HashedKey]);
    /// Receives a control record that stays.
    fn control(&mut self, number: u64, is_stamped: bool);
}

/// The results for some batches.
#[derive(Debug, Default)]
pub(super) struct HashedBatches {
    pub(super) keys: Vec<HashedKey>,
    /// Control records that stay, and whether each needs a delete horizon.
    pub(super) control: Vec<(u64, bool)>,
    pub(super) records: u64,
    pub(super) counts: RecordCounts,
}

impl KeySink for HashedBatches {
    fn keys(&mut self, keys: &[HashedKey]) {
        self.keys.extend_from_slice(keys);
    }

    fn control(&mut self, number: u64, is_stamped: bool) {
        self.control.push((number, is_stamped));
    }
}

/// Hashes the keys of batches, in memory that is reused. It needs no other state, so several threads can hash.
#[derive(Debug)]
pub(super) struct KeyHasher {
    hasher: SipHasher13,
    decompressor: Decompressor,
    keys: Vec<HashedKey>,
    number: u64,
    counts: RecordCounts,
}

impl KeyHasher {
    pub(super) fn new(key: [u64; 2], max_batch_bytes: usize) -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(key[0], key[1]),
            decompressor: Decompressor::new(max_batch_bytes),
            keys: Vec::new(),
            number: 0,
            counts: RecordCounts::default(),
        }
    }

    /// Hashes the batches of `data`; returns all results.
    pub(super) fn hash(
        &mut self,
        data: &[u8],
        tasks: &[BatchTask],
        options: &HashingOptions,
    ) -> Result<HashedBatches> {
        let mut hashed = HashedBatches::default();
        (hashed.records, hashed.counts) = self.hash_into(data, tasks, options, &mut hashed)?;
        Ok(hashed)
    }

    /// Hashes the batches of `data`, and passes the results to `found`. Returns the number of records and their counts.
    pub(super) fn hash_into(
        &mut self,
        data: &[u8],
        tasks: &[BatchTask],
        options: &HashingOptions,
        found: &mut impl KeySink,
    ) -> Result<(u64, RecordCounts)> {
        self.number = 0;
        self.counts = RecordCounts::default();
        self.keys.clear();
        for task in tasks {
            let (header, entry) = (&task.header, task.entry(data));
            header
                .check_crc(entry)
                .and_then(|()| {
                    if header.magic == 2 {
                        self.records(header, entry, task.fate, options, found)
                    } else {
                        self.messages(header, entry, options, found)
                    }
                })
                .map_err(|error| header.locate(error))?;
        }
        found.keys(&self.keys);
        Ok((self.number, self.counts))
    }

    fn records(
        &mut self,
        header: &Header,
        entry: &[u8],
        fate: BatchFate,
        options: &HashingOptions,
        found: &mut impl KeySink,
    ) -> Result<()> {
        let records_count = header.records_count.unwrap_or(0);
        let count = record::check_count(records_count)?;
        let payload = record::payload(header, entry, &mut self.decompressor)?;
        // Otherwise the count of a batch whose records are not read could claim bits for 2^31 records.
        if count > payload.len() / record::MIN_BYTES {
            return Err(Error::corrupt(format!(
                "records count is {count}, but the batch has only {} bytes of records",
                payload.len()
            )));
        }
        if options.includes(header.last_offset()) {
            self.counts.add_batch(fate, count as u64);
        }
        match fate {
            BatchFate::Aborted | BatchFate::Control { is_kept: false, .. } => {
                self.number += count as u64;
                Ok(())
            }
            BatchFate::Control { is_stamped, .. } => {
                record::for_each(payload, records_count, |record| {
                    found.control(self.number, is_stamped || record.value.is_none());
                    self.number += 1;
                    Ok(())
                })
            }
            BatchFate::Keyed => {
                let Self {
                    hasher,
                    keys,
                    number,
                    counts,
                    ..
                } = self;
                let tombstone = match header.delete_horizon_ms() {
                    Some(horizon) if horizon <= options.now => ValueKind::Expired,
                    _ => ValueKind::Tombstone,
                };
                record::for_each_outline(payload, records_count, |record| {
                    let offset = header
                        .base_offset
                        .wrapping_add(i64::from(record.offset_delta));
                    if options.includes(offset) {
                        let value = match record.has_value {
                            true => ValueKind::Present,
                            false => tombstone,
                        };
                        counts.add_keyed(offset, record.key, value);
                        if let Some(key) = record.key {
                            push(keys, hasher, key, PackedRecord::new(*number, value), found);
                        }
                    }
                    *number += 1;
                })
            }
        }
    }

    fn messages(
        &mut self,
        header: &Header,
        entry: &[u8],
        options: &HashingOptions,
        found: &mut impl KeySink,
    ) -> Result<()> {
        let Self {
            hasher,
            decompressor,
            keys,
            number,
            counts,
        } = self;
        let tombstone = match options.keeps_legacy_tombstones {
            true => ValueKind::Tombstone,
            false => ValueKind::Expired,
        };
        MessageSet::open(header, entry, decompressor)?.for_each(false, |message| {
            if options.includes(message.offset) {
                let value = message.value.map_or(tombstone, |_| ValueKind::Present);
                counts.add_keyed(message.offset, message.key, value);
                if let Some(key) = message.key {
                    push(keys, hasher, key, PackedRecord::new(*number, value), found);
                }
            }
            *number += 1;
            Ok(())
        })
    }
}

impl RecordCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.aborted += other.aborted;
        self.control += other.control;
        self.discarded += other.discarded;
        self.unkeyed += other.unkeyed;
        self.first_unkeyed = self.first_unkeyed.or(other.first_unkeyed);
        self.tombstones += other.tombstones;
    }

    /// Counts the records of a batch whose keys do not matter.
    fn add_batch(&mut self, fate: BatchFate, records: u64) {
        let count = match fate {
            BatchFate::Keyed => return,
            BatchFate::Aborted => &mut self.aborted,
            BatchFate::Control { is_kept: false, .. } => &mut self.discarded,
            BatchFate::Control { is_kept: true, .. } => &mut self.control,
        };
        *count += records;
        self.records += records;
    }

    fn add_keyed(&mut self, offset: i64, key: Option<&[u8]>, value: ValueKind) {
        self.records += 1;
        if key.is_none() {
            self.unkeyed += 1;
            self.first_unkeyed.get_or_insert(offset);
        } else if value != ValueKind::Present {
            self.tombstones += 1;
        }
    }
}

#[inline]
fn push(
    keys: &mut Vec<HashedKey>,
    hasher: &SipHasher13,
    key: &[u8],
    record: PackedRecord,
    found: &mut impl KeySink,
) {
    let hash = hasher.hash(key);
    keys.push(HashedKey {
        hash: [hash.h1, hash.h2],
        record,
    });
    if keys.len() >= MAX_KEYS {
        found.keys(keys);
        keys.clear();
    }
}
