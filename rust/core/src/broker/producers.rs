//! The producer state of a log: sequences, producer epochs and open transactions (`ProducerStateManager`).
//!
//! An append first works on a [`ProducersUpdate`], a copy of the producers that it concerns. Only an accepted append
//! applies the update, so a refused append leaves no trace. Kafka's transaction verification is off, as on a broker
//! that does not verify.

mod producer;
mod sequences;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::error::Result;
use crate::broker::index_builder::{IndexError, TransactionIndexEnd};
use crate::broker::refusal::Refused;
use crate::format::batch::Header;
use crate::format::index::AbortedTxn;
use crate::format::snapshot::{ProducerState, producer_snapshot, write_producer_snapshot};
use crate::format::walk::for_each;
use producer::{BatchMetadata, CompletedTxn, Producer, RecentBatches, is_expired, marker};

/// Who appends, which determines the checks (Kafka's `AppendOrigin`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer.
    Client,
    /// A group or transaction coordinator, with its markers.
    Coordinator,
    /// The leader of a metadata log, which assigns offsets itself.
    RaftLeader,
    /// An append that keeps given offsets: by a follower, a restore or a recovery.
    Replication,
}

impl AppendOrigin {
    /// Returns true if the log assigns the offsets. With the other origins, batches keep their own offsets.
    pub(crate) fn log_assigns_offsets(self) -> bool {
        matches!(self, Self::Client | Self::Coordinator)
    }

    /// Parses an origin from its lower-case name; None for any other name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "client" => Some(Self::Client),
            "coordinator" => Some(Self::Coordinator),
            "raft_leader" => Some(Self::RaftLeader),
            "replication" => Some(Self::Replication),
            _ => None,
        }
    }
}

/// The lower bound of the producer ids that brokerless assigns. A cluster assigns ids from 0 and never gets this far.
pub const FIRST_OWN_PRODUCER_ID: i64 = 1 << 62;

/// Returns the highest producer id in whole batches, without the ids that only brokerless assigns. Bytes that are not a
/// batch end the search.
pub fn highest_cluster_producer_id(batches: &[u8]) -> Option<i64> {
    let mut highest = None;
    let note = |header: &Header, _: &[u8]| {
        highest = highest.max(cluster_id(header.producer_id));
        Ok(())
    };
    // Damage is reported by the append of these batches.
    let _ = for_each(batches, 0, note);
    highest
}

fn cluster_id(producer_id: i64) -> Option<i64> {
    (0..FIRST_OWN_PRODUCER_ID)
        .contains(&producer_id)
        .then_some(producer_id)
}

/// A batch that is in the log already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateBatch {
    /// Its stored first offset.
    pub first_offset: i64,
    /// Its stored last offset.
    pub last_offset: i64,
    /// Its max timestamp.
    pub timestamp: i64,
}

/// The effects of an undecided append on the producers.
#[derive(Debug, Default)]
pub struct ProducersUpdate {
    /// The producers concerned, with the batches of this append only.
    touched: HashMap<i64, Producer>,
    /// First offset and producer id of the transactions that begin.
    begun: Vec<(i64, i64)>,
    completed: Vec<CompletedTxn>,
}

impl ProducersUpdate {
    /// Removes all effects.
    pub fn clear(&mut self) {
        self.touched.clear();
        self.begun.clear();
        self.completed.clear();
    }

    /// Checks that the transaction index can take the aborted transactions.
    pub(crate) fn check(&self, index: &TransactionIndexEnd) -> std::result::Result<(), IndexError> {
        let mut index = *index;
        for txn in self.completed.iter().filter(|txn| txn.is_aborted) {
            index.check(txn.last_offset)?;
            index.last_offset = Some(txn.last_offset);
        }
        Ok(())
    }
}

/// The producer state of one log.
#[derive(Debug, Clone, Default)]
pub struct Producers {
    producers: HashMap<i64, Producer>,
    /// First offset and producer id of the open transactions.
    ongoing: BTreeSet<(i64, i64)>,
    /// Ended transactions by the offset of their marker, which the high watermark has not passed.
    unreplicated: BTreeMap<(i64, i64), i64>,
    end_offset: i64,
    snapshot_offset: Option<i64>,
}

impl Producers {
    /// Creates the state without producers at `end_offset`.
    pub fn new(end_offset: i64) -> Self {
        Self {
            end_offset,
            ..Self::default()
        }
    }

    /// Restores the state from a `.snapshot` file, named by `offset`. Producers that are idle for `expiration_ms` at
    /// `now` and have no open transaction are left out.
    pub fn from_snapshot(data: &[u8], offset: i64, now: i64, expiration_ms: i64) -> Result<Self> {
        let mut state = Self::new(offset);
        state.snapshot_offset = Some(offset);
        for entry in producer_snapshot(data)? {
            let mut producer = Producer {
                epoch: entry.producer_epoch,
                coordinator_epoch: entry.coordinator_epoch,
                timestamp: entry.timestamp,
                txn_first_offset: Some(entry.current_txn_first_offset).filter(|&first| first >= 0),
                recent: RecentBatches::default(),
            };
            if entry.last_offset >= 0 {
                producer.recent.push(BatchMetadata {
                    last_sequence: entry.last_sequence,
                    last_offset: entry.last_offset,
                    offset_delta: entry.offset_delta,
                    timestamp: entry.timestamp,
                });
            }
            if is_expired(&producer, now, expiration_ms) {
                continue;
            }
            if let Some(first) = producer.txn_first_offset {
                state.ongoing.insert((first, entry.producer_id));
            }
            state.producers.insert(entry.producer_id, producer);
        }
        Ok(state)
    }

    /// Returns true if no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// The highest known producer id that a cluster may also assign.
    pub fn highest_cluster_id(&self) -> Option<i64> {
        self.producers.keys().copied().filter_map(cluster_id).max()
    }

    /// The states of all producers, by id.
    pub fn entries(&self) -> Vec<ProducerState> {
        let mut entries: Vec<_> = self
            .producers
            .iter()
            .map(|(&producer_id, producer)| producer.state(producer_id))
            .collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// Returns the content of a `.snapshot` file, which is named by the end offset.
    pub fn snapshot(&self) -> Vec<u8> {
        write_producer_snapshot(&self.entries())
    }

    /// Returns a snapshot, unless one of this end offset or a later one was taken.
    pub fn take_snapshot(&mut self) -> Option<Vec<u8>> {
        if self.snapshot_offset.is_some_and(|at| at >= self.end_offset) {
            return None;
        }
        self.snapshot_offset = Some(self.end_offset);
        Some(self.snapshot())
    }

    /// The offset up to which the log is in this state; exclusive.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Moves the end offset past records that have no producer.
    pub fn set_end_offset(&mut self, offset: i64) {
        self.end_offset = offset;
    }

    /// Sets the offset of the newest snapshot, for example after one was deleted.
    pub fn set_snapshot_offset(&mut self, offset: Option<i64>) {
        self.snapshot_offset = offset;
    }

    /// The first offset that may be undecided for consumers: the start of the first transaction that is open, or whose
    /// marker is not below the high watermark.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        let first = |keys: Option<&(i64, i64)>| keys.map(|&(first, _)| first);
        let ongoing = first(self.ongoing.first());
        let unreplicated = first(self.unreplicated.keys().next());
        ongoing.into_iter().chain(unreplicated).min()
    }

    /// Forgets the ended transactions with a marker below `offset`, which is the high watermark or a new log start
    /// offset.
    pub fn forget_ended(&mut self, offset: i64) {
        if !self.unreplicated.is_empty() {
            self.unreplicated.retain(|_, &mut marker| marker >= offset);
        }
    }

    /// Removes producers without an open transaction whose last record is at least `expiration_ms` old; returns their
    /// ids.
    pub fn remove_expired(&mut self, now: i64, expiration_ms: i64) -> Vec<i64> {
        let mut removed = Vec::new();
        self.producers.retain(|&id, producer| {
            let stays = !is_expired(producer, now, expiration_ms);
            if !stays {
                removed.push(id);
            }
            stays
        });
        removed.sort_unstable();
        removed
    }

    /// Checks the next batch of an append and adds its effects to `update`. `entry` is the whole batch; it is read for
    /// markers only. A batch without a producer has no effect. `transaction_version` is the version of markers.
    pub fn prepare(
        &self,
        update: &mut ProducersUpdate,
        header: &Header,
        entry: &[u8],
        origin: AppendOrigin,
        transaction_version: i8,
    ) -> std::result::Result<(), Refused> {
        if header.producer_id < 0 {
            return Ok(());
        }
        let ProducersUpdate {
            touched,
            begun,
            completed,
        } = update;
        let stored = self.producers.get(&header.producer_id);
        let stored = stored.copied().unwrap_or(Producer::UNKNOWN);
        let recent = RecentBatches::default();
        let working = touched
            .entry(header.producer_id)
            .or_insert(Producer { recent, ..stored });
        let refused = if header.is_control() {
            match marker(header, entry)? {
                Some(marker) => working
                    .end(header, &marker, origin, transaction_version)
                    .map(|ended| {
                        completed.extend(ended);
                    }),
                None => Ok(()),
            }
        } else {
            working.data(&stored, header, origin).map(|first_offset| {
                begun.extend(first_offset.map(|first| (first, header.producer_id)));
            })
        };
        refused.map_err(|refused| refused.at(header.position, header.base_offset))
    }

    /// Applies `update` and empties it. Returns the transaction index entries of the transactions that it aborts, in
    /// the order of their markers.
    pub fn apply(&mut self, update: &mut ProducersUpdate) -> Vec<AbortedTxn> {
        let mut aborted = Vec::new();
        for (producer_id, next) in update.touched.drain() {
            let producer = self
                .producers
                .entry(producer_id)
                .or_insert(Producer::UNKNOWN);
            producer.set_epoch(next.epoch);
            next.recent
                .iter()
                .for_each(|&batch| producer.recent.push(batch));
            producer.coordinator_epoch = next.coordinator_epoch;
            producer.timestamp = next.timestamp;
            producer.txn_first_offset = next.txn_first_offset;
        }
        for key in update.begun.drain(..) {
            self.ongoing.insert(key);
        }
        for txn in update.completed.drain(..) {
            if txn.is_aborted {
                // The last stable offset cannot pass another producer's open transaction.
                let others = |&&(_, producer_id): &&(i64, i64)| producer_id != txn.producer_id;
                let next = self.ongoing.iter().find(others);
                aborted.push(AbortedTxn {
                    version: 0,
                    producer_id: txn.producer_id,
                    first_offset: txn.first_offset,
                    last_offset: txn.last_offset,
                    last_stable_offset: next
                        .map_or(txn.last_offset.wrapping_add(1), |&(first, _)| first),
                });
            }
            let key = (txn.first_offset, txn.producer_id);
            self.ongoing.remove(&key);
            self.unreplicated.insert(key, txn.last_offset);
        }
        aborted
    }
}
