//! What goes into an append and what comes out: settings, requests, answers, and what is to be written.

use crate::broker::index_builder::{SegmentIndexes, TransactionIndexEnd};
use crate::broker::producers::{AppendOrigin, DuplicateBatch};
use crate::broker::refusal::Refused;
use crate::broker::validate::ValidationRules;

/// A log's settings, under Kafka's names.
#[derive(Debug, Clone, Copy)]
pub struct LogConfig {
    /// What requests may hold, and what becomes of them.
    pub rules: ValidationRules,
    /// `segment.bytes`.
    pub segment_bytes: i64,
    /// `segment.ms`, or of a compacted topic `max.compaction.lag.ms` if that is less.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// Any number; with a segment's base offset it gives that segment's jitter.
    pub jitter_seed: u64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: usize,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i64,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// The most that one batch may decompress to.
    pub max_batch_bytes: usize,
}

/// The segment that is appended to.
#[derive(Debug, Clone, Copy)]
pub struct ActiveSegment {
    /// In its name.
    pub base_offset: i64,
    /// Of the `.log`.
    pub size: u64,
    /// When it was made or opened, ms.
    pub created_ms: i64,
    /// Max timestamp of its first batch.
    pub first_timestamp: Option<i64>,
    /// Its offset and time index.
    pub indexes: SegmentIndexes,
    /// Its transaction index.
    pub transactions: TransactionIndexEnd,
}

/// What is to be written to one segment, all of it at the ends of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentWrite {
    /// The segment.
    pub base_offset: i64,
    /// A roll comes first: close the segment before, and make this one's files; any of these names are old and empty.
    pub is_new: bool,
    /// At a roll: the producer snapshot to write, named by `base_offset`. None: that one exists.
    pub snapshot: Option<Vec<u8>>,
    /// At a roll: the last bytes of the time index of the segment before.
    pub final_time_entry: Vec<u8>,
    /// For `.log`.
    pub log: Vec<u8>,
    /// For `.index`.
    pub index: Vec<u8>,
    /// For `.timeindex`.
    pub timeindex: Vec<u8>,
    /// For `.txnindex`.
    pub txnindex: Vec<u8>,
}

/// What appends change outside: in order, and all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// In the segments.
    pub writes: Vec<SegmentWrite>,
    /// The leader epochs are others now.
    pub has_new_epochs: bool,
    /// Bytes that are still to come: room is made for them at once.
    pub(super) expected: usize,
}

impl Effects {
    pub(super) fn write_to(&mut self, base_offset: i64) -> Option<&mut SegmentWrite> {
        if self
            .writes
            .last()
            .is_none_or(|write| write.base_offset != base_offset)
        {
            self.writes.push(SegmentWrite {
                base_offset,
                ..SegmentWrite::default()
            });
        }
        self.writes.last_mut()
    }
}

/// No batch has a later one. Batches without an epoch then get the one before them.
pub(super) const ANY_EPOCH: i32 = i32::MAX;

/// Who appends, and when.
#[derive(Debug, Clone, Copy)]
pub struct AppendRequest {
    /// Who.
    pub origin: AppendOrigin,
    /// The leader's epoch, which its batches are stored with. Of replication: batches of a later one are left out, and
    /// [`ANY_EPOCH`] is that of a copy, which has no leader.
    pub leader_epoch: i32,
    /// The broker's clock, ms.
    pub now: i64,
    /// The batches are as our own encoder made them: what their headers say of their records is true.
    pub is_encoded_here: bool,
    /// Of a coordinator's markers (`transaction.version`); it stands in no batch.
    pub transaction_version: i8,
}

/// The answer to a request that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// Of its first record; -1 where there was no batch, and for given offsets in magic 0 and 1, which do not say.
    pub first_offset: i64,
    /// Of its last record; -1 where there was no batch.
    pub last_offset: i64,
    /// The time that the broker gave the records, or -1; of a duplicate, the max timestamp of the batch stored before.
    pub log_append_time: i64,
    /// The largest of its records.
    pub max_timestamp: i64,
    /// It was stored before: these are its offsets, and nothing changed.
    pub is_duplicate: bool,
}

impl AppendInfo {
    /// To a request without a batch.
    pub const EMPTY: Self = Self {
        first_offset: -1,
        last_offset: -1,
        log_append_time: -1,
        max_timestamp: -1,
        is_duplicate: false,
    };

    pub(super) fn of_duplicate(stored: DuplicateBatch) -> Self {
        Self {
            first_offset: stored.first_offset,
            last_offset: stored.last_offset,
            log_append_time: stored.timestamp,
            max_timestamp: stored.timestamp,
            is_duplicate: true,
        }
    }
}

/// The answers to many requests, in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendInfos {
    /// Requests taken, duplicates included.
    pub count: u64,
    /// Duplicates among them.
    pub duplicates: u64,
    /// First offset of the first, last offset of the last, and its other fields.
    pub last: AppendInfo,
    /// Bytes taken.
    pub consumed: usize,
    /// Why the next was not: those before it count.
    pub refused: Option<Refused>,
}
