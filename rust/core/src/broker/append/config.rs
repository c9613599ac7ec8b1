//! The inputs and outputs of an append: configuration, requests, results, and the bytes to be written.

use crate::broker::index_builder::{SegmentIndexes, TransactionIndexEnd};
use crate::broker::producers::{AppendOrigin, DuplicateBatch};
use crate::broker::refusal::Refused;
use crate::broker::validate::ValidationRules;

/// A log's configuration, under Kafka's names.
#[derive(Debug, Clone, Copy)]
pub struct LogConfig {
    /// The rules for the batches of requests.
    pub rules: ValidationRules,
    /// `segment.bytes`.
    pub segment_bytes: i64,
    /// `segment.ms`; for a compacted topic at most `max.compaction.lag.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// A seed. The seed and a segment's base offset determine that segment's jitter.
    pub jitter_seed: u64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: usize,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i64,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// The cap on the decompressed size of one batch.
    pub max_batch_bytes: usize,
}

/// The segment to which batches are appended.
#[derive(Debug, Clone, Copy)]
pub struct ActiveSegment {
    /// The base offset in its name.
    pub base_offset: i64,
    /// Size of the `.log`.
    pub size: u64,
    /// The time at which it was created or opened, ms.
    pub created_ms: i64,
    /// Max timestamp of its first batch.
    pub first_timestamp: Option<i64>,
    /// The ends of its offset and time index.
    pub indexes: SegmentIndexes,
    /// The end of its transaction index.
    pub transactions: TransactionIndexEnd,
}

/// Bytes to append to the files of one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentWrite {
    /// Base offset of the segment.
    pub base_offset: i64,
    /// True if a roll comes first: the caller closes the previous segment and creates the files of this one. Existing
    /// files with these names are stale or empty, and may be overwritten.
    pub is_new: bool,
    /// At a roll: the producer snapshot to write, named by `base_offset`; None if it exists.
    pub snapshot: Option<Vec<u8>>,
    /// At a roll: the last bytes of the previous segment's time index.
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

/// The changes that appends require, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The writes to segments.
    pub writes: Vec<SegmentWrite>,
    /// True if the leader epochs have changed.
    pub has_new_epochs: bool,
    /// The number of bytes that will follow. Memory for all of them is reserved in one step.
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

/// The highest possible leader epoch, for an append to a copy of a log, which has no leader. In such an append, a batch
/// without a leader epoch gets the leader epoch of the previous batch.
pub(super) const ANY_EPOCH: i32 = i32::MAX;

/// Who appends, and when.
#[derive(Debug, Clone, Copy)]
pub struct AppendRequest {
    /// Who appends.
    pub origin: AppendOrigin,
    /// The leader epoch: a leader stores its batches with it, and replication leaves out batches of a later leader
    /// epoch. A copy of a log has no leader, and uses [`ANY_EPOCH`].
    pub leader_epoch: i32,
    /// The current time on the broker, ms.
    pub now: i64,
    /// True if brokerless's encoder made the batches, so that their headers describe their records correctly.
    pub is_encoded_here: bool,
    /// The version of a coordinator's markers (`transaction.version`), which no batch stores.
    pub transaction_version: i8,
}

/// The result of an accepted request (Kafka's `LogAppendInfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of its first record. -1 if there was no batch, and for given offsets in magic 0 and 1, because their
    /// headers do not contain the first offset.
    pub first_offset: i64,
    /// Offset of its last record; -1 if there was no batch.
    pub last_offset: i64,
    /// The timestamp that the broker gave the records, or -1. For a duplicate: the max timestamp of the stored batch.
    pub log_append_time: i64,
    /// The largest timestamp of its records.
    pub max_timestamp: i64,
    /// True if the request was stored before. The offsets are then those of the stored batch, and the log is unchanged.
    pub is_duplicate: bool,
}

impl AppendInfo {
    /// The result of a request without a batch.
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

/// The results of successive requests, combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendInfos {
    /// Accepted requests, including duplicates.
    pub count: u64,
    /// The number of duplicates among the accepted requests.
    pub duplicates: u64,
    /// First offset of the first request, and all other fields of the last request.
    pub last: AppendInfo,
    /// Bytes of the accepted requests.
    pub consumed: usize,
    /// The reason why the next request was refused. The requests before it were accepted.
    pub refused: Option<Refused>,
}
