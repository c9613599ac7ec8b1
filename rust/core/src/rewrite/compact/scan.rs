//! The first half of compaction: a scan over a log that decides which records stay.
//!
//! The dirty part of a log was appended after the last compaction. The last record of each of its keys stays. A record
//! of the clean part stays unless its key occurs in the dirty part. So the dirty segments are scanned before the clean
//! ones. A transaction may reach from the clean into the dirty part, so the transactions of the clean segments are read
//! first.
//!
//! Decompressing and hashing concern one batch at a time, so several threads do that. Their results enter the key map
//! in the order of the batches: this thread inserts them while the other threads hash the next bytes.

use super::key_map::{HashRange, HashedKey, KeyMap};
use super::keys::{
    BatchFate, BatchTask, HashedBatches, HashingOptions, KeyHasher, KeySink, RecordCounts,
};
use super::packed_record::ValueKind;
use super::transactions::CleanedTransactions;
use crate::base::bits::Bits;
use crate::base::error::{Error, Result};
use crate::base::parallel::{in_parallel, workers};
use crate::broker::index_builder::TransactionIndexEnd;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::control::{self, ControlType};
use crate::format::index::TransactionIndex;
use crate::format::record;
use crate::format::walk;

/// The number of keys that are sorted together: a few hundred for each table of the map.
const SORTED_KEYS: usize = 1 << 16;

/// The number of batches that a thread hashes at a time.
const PART_BATCHES: usize = 16;

/// Above this number of records, this thread alone hashes keys and puts them into the map immediately, because a
/// hostile batch may have more keys than memory allows.
const MAX_WAITING_RECORDS: u64 = 1 << 20;

/// The options of a scan.
#[derive(Debug, Clone, Copy)]
pub struct ScanOptions {
    /// Transactions that were aborted below this offset are ignored (`UnifiedLog.collectAbortedTransactions`).
    pub log_start_offset: i64,
    /// The start of the dirty part.
    pub first_dirty_offset: i64,
    /// The current time, ms. Tombstones and markers whose delete horizon is not later are dropped.
    pub now: i64,
    /// The key of the hash, which only this run knows.
    pub hash_key: [u64; 2],
    /// The hashes of the keys to decide about. The range shrinks if these keys need more than `max_bytes`.
    pub range: HashRange,
    /// The maximum memory for keys.
    pub max_bytes: usize,
    /// The cap on the decompressed size of one batch.
    pub max_batch_bytes: usize,
    /// The number of threads that decompress and hash.
    pub threads: usize,
}

/// The purpose of scanning a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// For its transactions only: the clean segments, before the dirty ones.
    Follow,
    /// For its dirty records: their keys enter the map.
    Dirty,
    /// For its clean records, after all dirty records are in the map. The first segment of this phase restarts the
    /// transactions.
    Clean,
}

/// The verdicts on a segment, without those of the key map.
#[derive(Debug, Default)]
pub struct SegmentVerdicts {
    /// Records in the segment, including those that the phase ignores.
    pub records: u64,
    /// Number of its first record among the records of all dirty segments: a multiple of 8, so that the bits of a
    /// segment start with a byte.
    pub first_number: u64,
    /// A bit for each record that stays.
    pub keep: Vec<u8>,
    /// A bit for each record that stays and needs a delete horizon.
    pub stamp: Vec<u8>,
    /// Transaction index entries of aborts that are still needed.
    pub txnindex: Vec<u8>,
    /// Counts of the records of this phase.
    pub counts: RecordCounts,
    /// Tombstones of the clean part that are dropped although no newer record has their key.
    pub expired: u64,
}

/// The dirty records that are the last ones with their key, as bits.
#[derive(Debug)]
pub struct NewestRecords {
    /// Records that stay.
    pub keep: Vec<u8>,
    /// Records that stay and need a delete horizon.
    pub stamp: Vec<u8>,
    /// Tombstones that are dropped.
    pub expired: Vec<u8>,
}

/// Scans a log. After all dirty segments, [`CompactionScan::newest`] returns the verdicts on their records.
#[derive(Debug)]
pub struct CompactionScan {
    options: ScanOptions,
    keeps_legacy_tombstones: bool,
    transactions: CleanedTransactions,
    aborted: Vec<TransactionIndex>,
    decompressor: Decompressor,
    hasher: KeyHasher,
    /// One worker for each thread; none for a single thread.
    workers: Vec<KeyHasher>,
    /// The batches that the workers hashed in the last call: not in the map yet.
    waiting: Vec<HashedBatches>,
    decided: ScanState,
    txnindex: (TransactionIndexEnd, Vec<u8>),
    /// The size in bytes of the batch after the consumed bytes; 0 if unknown.
    pub needed: usize,
}

/// The decisions so far.
#[derive(Debug)]
struct ScanState {
    map: KeyMap,
    /// The phase of the current segment.
    phase: Phase,
    first_number: u64,
    /// Number of its next record.
    number: u64,
    counts: RecordCounts,
    keep: Bits,
    stamp: Bits,
    expired: u64,
}

impl CompactionScan {
    /// Creates a scan. `aborted` are the transaction indexes of all segments of the log.
    pub fn new(options: ScanOptions, aborted: Vec<TransactionIndex>) -> Result<Self> {
        let mut scan = Self {
            keeps_legacy_tombstones: true,
            transactions: CleanedTransactions::default(),
            aborted,
            decompressor: Decompressor::new(options.max_batch_bytes),
            hasher: KeyHasher::new(options.hash_key, options.max_batch_bytes),
            workers: workers(options.threads, || {
                Ok(KeyHasher::new(options.hash_key, options.max_batch_bytes))
            })?,
            waiting: Vec::new(),
            decided: ScanState {
                map: KeyMap::new(options.range, options.max_bytes),
                phase: Phase::Follow,
                first_number: 0,
                number: 0,
                counts: RecordCounts::default(),
                keep: Bits::default(),
                stamp: Bits::default(),
                expired: 0,
            },
            txnindex: Default::default(),
            needed: 0,
            options,
        };
        scan.announce()?;
        Ok(scan)
    }

    /// The hashes that the scan covers: the whole range, unless its keys needed too much memory.
    pub fn range(&self) -> HashRange {
        self.decided.map.range()
    }

    /// The number of keys of the dirty part, in this range.
    pub fn keys(&self) -> usize {
        self.decided.map.len()
    }

    /// Starts the next segment, after the previous one is finished. `keeps_legacy_tombstones`: tombstones of magic 0
    /// and 1, which have no delete horizon, stay.
    pub fn begin(&mut self, phase: Phase, keeps_legacy_tombstones: bool) -> Result<()> {
        self.take_waiting();
        if phase == Phase::Clean && self.decided.phase != Phase::Clean {
            self.transactions = CleanedTransactions::default();
            self.announce()?;
        }
        self.decided.phase = phase;
        self.keeps_legacy_tombstones = keeps_legacy_tombstones;
        Ok(())
    }

    /// Scans the whole batches at the start of `data`, which starts at `position` of the segment's file; returns their
    /// size in bytes.
    pub fn feed(&mut self, data: &[u8], position: u64) -> Result<usize> {
        let (tasks, consumed) = self.walk(data, position);
        let records = tasks
            .iter()
            .map(BatchTask::records_count)
            .sum::<Option<u64>>();
        if !self.workers.is_empty() && records.is_some_and(|count| count <= MAX_WAITING_RECORDS) {
            self.hash_in_parallel(data, &tasks)?;
        } else {
            self.hash_here(data, &tasks)?;
        }
        // Checked only now, because damage in an earlier batch is reported first.
        consumed
    }

    /// Follows the transactions. Returns the batches whose records must be hashed, and the bytes of all, or the error
    /// of the batch after them.
    fn walk(&mut self, data: &[u8], position: u64) -> (Vec<BatchTask>, Result<usize>) {
        let mut tasks = Vec::new();
        let walked = walk::for_each(data, position, |header, entry| {
            let fate = self.fate(header, entry)?;
            if self.decided.phase != Phase::Follow {
                tasks.push(BatchTask {
                    header: *header,
                    at: (header.position - position) as usize,
                    fate,
                });
            }
            Ok(())
        });
        let consumed = walked.map(|(consumed, needed)| {
            self.needed = needed;
            consumed
        });
        (tasks, consumed)
    }

    /// Puts the keys of the last call into the map.
    fn take_waiting(&mut self) {
        self.decided.take(&self.waiting);
        self.waiting.clear();
    }

    /// Hashes the batches in this thread, and puts their keys into the map immediately.
    fn hash_here(&mut self, data: &[u8], tasks: &[BatchTask]) -> Result<()> {
        let options = self.hashing_options();
        self.take_waiting();
        let decided = &mut self.decided;
        let (records, counts) = self.hasher.hash_into(data, tasks, &options, decided)?;
        decided.number += records;
        decided.counts.add(&counts);
        Ok(())
    }

    /// Hashes the batches in all threads. Meanwhile, this thread puts the keys of the last call into the map; the new
    /// keys wait.
    fn hash_in_parallel(&mut self, data: &[u8], tasks: &[BatchTask]) -> Result<()> {
        let options = self.hashing_options();
        let parts: Vec<_> = tasks.chunks(PART_BATCHES).collect();
        let take_waiting = || self.decided.take(&self.waiting);
        let hashed = in_parallel(&mut self.workers, &parts, take_waiting, |hasher, tasks| {
            hasher.hash(data, tasks, &options)
        });
        self.waiting.clear();
        self.waiting = hashed.into_iter().collect::<Result<_>>()?;
        Ok(())
    }

    fn hashing_options(&self) -> HashingOptions {
        HashingOptions {
            first_dirty_offset: self.options.first_dirty_offset,
            is_dirty: self.decided.phase != Phase::Clean,
            keeps_legacy_tombstones: self.keeps_legacy_tombstones,
            now: self.options.now,
        }
    }

    /// Ends the segment, and returns the verdicts on it.
    pub fn finish(&mut self) -> SegmentVerdicts {
        self.take_waiting();
        let decided = &mut self.decided;
        let records = std::mem::take(&mut decided.number);
        let verdicts = SegmentVerdicts {
            records,
            first_number: decided.first_number,
            keep: std::mem::take(&mut decided.keep).into_bytes(),
            stamp: std::mem::take(&mut decided.stamp).into_bytes(),
            txnindex: std::mem::take(&mut self.txnindex).1,
            counts: std::mem::take(&mut decided.counts),
            expired: std::mem::take(&mut decided.expired),
        };
        if decided.phase == Phase::Dirty {
            decided.first_number += records.next_multiple_of(8);
        }
        verdicts
    }

    /// Returns the dirty records numbered from `first` to below `end` that are the last ones with their key.
    pub fn newest(&self, first: u64, end: u64) -> NewestRecords {
        let (mut keep, mut stamp, mut expired) = <(Bits, Bits, Bits)>::default();
        for record in self.decided.map.records() {
            let number = record.number();
            if !(first..end).contains(&number) {
                continue;
            }
            let bits = match record.value() {
                ValueKind::Present => &mut keep,
                ValueKind::Tombstone => {
                    stamp.set(number - first);
                    &mut keep
                }
                ValueKind::Expired => &mut expired,
            };
            bits.set(number - first);
        }
        NewestRecords {
            keep: keep.into_bytes(),
            stamp: stamp.into_bytes(),
            expired: expired.into_bytes(),
        }
    }

    /// Announces all aborted transactions of the log, before its first batch.
    fn announce(&mut self) -> Result<()> {
        for index in &self.aborted {
            for entry in index.entries() {
                let entry = entry?;
                if entry.last_offset >= self.options.log_start_offset {
                    self.transactions.add(&entry);
                }
            }
        }
        Ok(())
    }

    fn fate(&mut self, header: &Header, entry: &[u8]) -> Result<BatchFate> {
        if !header.is_control() {
            return Ok(match self.transactions.data(header) {
                true => BatchFate::Aborted,
                false => BatchFate::Keyed,
            });
        }
        let control_type = self.control_type(header, entry)?;
        let marked = self.transactions.control(header, control_type);
        if let (Phase::Dirty, Some(aborted)) | (Phase::Clean, Some(aborted)) =
            (self.decided.phase, marked.aborted)
        {
            // A segment with both clean and dirty records is scanned twice. The caller, who merges the entries, counts
            // each once.
            let (end, txnindex) = &mut self.txnindex;
            end.append(&aborted, txnindex)
                .map_err(|error| Error::corrupt(error.to_string()))?;
        }
        let is_expired = header
            .delete_horizon_ms()
            .is_some_and(|horizon| horizon <= self.options.now);
        Ok(BatchFate::Control {
            is_kept: !(marked.is_discardable && is_expired),
            is_stamped: marked.is_discardable,
        })
    }

    /// Returns the type of the batch's first record; None if it has no records.
    fn control_type(&mut self, header: &Header, entry: &[u8]) -> Result<Option<ControlType>> {
        if header.records_count.is_none_or(|count| count <= 0) {
            return Ok(None);
        }
        let payload = record::payload(header, entry, &mut self.decompressor)?;
        let first = record::first(payload)?;
        control::control_type(first.key.unwrap_or_default()).map(Some)
    }
}

impl ScanState {
    /// Adds the hashed batches, in their order.
    fn take(&mut self, hashed: &[HashedBatches]) {
        let is_clean = self.phase == Phase::Clean;
        if !is_clean {
            self.put_all(hashed);
        }
        for batches in hashed {
            if is_clean {
                self.look_up(&batches.keys);
            }
            for &(number, is_stamped) in &batches.control {
                self.control(number, is_stamped);
            }
            self.number += batches.records;
            self.counts.add(&batches.counts);
        }
    }

    fn put_all(&mut self, found: &[HashedBatches]) {
        let mut number = self.first_number + self.number;
        let (mut runs, mut count): (Vec<(&[HashedKey], u64)>, _) = (Vec::new(), 0);
        for hashed in found {
            runs.push((&hashed.keys, number));
            number += hashed.records;
            count += hashed.keys.len();
            if count >= SORTED_KEYS {
                self.map.put_all(&runs);
                runs.clear();
                count = 0;
            }
        }
        self.map.put_all(&runs);
    }

    fn look_up(&mut self, keys: &[HashedKey]) {
        let Self {
            map,
            number: first,
            keep,
            stamp,
            expired,
            ..
        } = self;
        map.look_up(keys, |key, is_superseded| {
            if is_superseded {
                return;
            }
            let number = *first + key.record.number();
            match key.record.value() {
                ValueKind::Present => keep.set(number),
                ValueKind::Tombstone => {
                    keep.set(number);
                    stamp.set(number);
                }
                ValueKind::Expired => *expired += 1,
            }
        });
    }
}

impl KeySink for ScanState {
    fn keys(&mut self, keys: &[HashedKey]) {
        match self.phase {
            Phase::Clean => self.look_up(keys),
            _ => self.map.put(keys, self.first_number + self.number),
        }
    }

    fn control(&mut self, number: u64, is_stamped: bool) {
        self.keep.set(self.number + number);
        if is_stamped {
            self.stamp.set(self.number + number);
        }
    }
}
