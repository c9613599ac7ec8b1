//! The partitions that clients have requested, and their open segments.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;

use crate::base::directory::{Aborted, Directory, Partition, Refusal};
use crate::base::memory::Memory;
use crate::base::options::RecordView;
use crate::base::sync::lock;
use crate::log::file_stamps::{Dependencies, SharedFileSets};
use crate::log::segment::Segment;

/// A partition is checked again after this time, because a broker may write to it.
const FRESH: Duration = Duration::from_millis(100);
/// The maximum number of segments that stay open. Each segment needs two file descriptors.
const MOST_OPEN: usize = 256;

/// A cache of a directory's partitions. All calls may block.
pub(crate) struct Partitions {
    directory: Arc<dyn Directory>,
    pub(crate) cluster_id: String,
    /// The form in which records are shown.
    pub(crate) view: RecordView,
    /// Memory for records that pass through this process.
    pub(crate) memory: Arc<Memory>,
    known: Mutex<HashMap<(String, i32), CachedPartition>>,
    open: Mutex<Vec<OpenSegment>>,
    shared_files: SharedFileSets,
}

#[derive(Clone)]
struct CachedPartition {
    /// The time of the last query to the directory.
    asked: Instant,
    partition: Arc<Partition>,
    dependencies: Arc<Dependencies>,
    at: Instant,
}

struct OpenSegment {
    partition: Arc<Partition>,
    segment: Arc<Segment>,
}

impl Partitions {
    pub(crate) fn new(
        directory: Arc<dyn Directory>,
        view: RecordView,
        memory: Arc<Memory>,
    ) -> Self {
        Self {
            cluster_id: directory.cluster_id(),
            directory,
            view,
            memory,
            known: Mutex::default(),
            open: Mutex::default(),
            shared_files: SharedFileSets::default(),
        }
    }

    pub(crate) fn directory(&self) -> &dyn Directory {
        &*self.directory
    }

    /// Reports a defect of the directory if it is the reason why a client is refused. Forgets the partition, so that
    /// the next client reads its current state.
    pub(crate) fn tell(&self, topic: &str, partition: i32, refusal: &Refusal) {
        if matches!(
            refusal.error,
            ResponseError::CorruptMessage
                | ResponseError::KafkaStorageError
                | ResponseError::UnknownServerError
        ) {
            match &refusal.damage {
                Some(damage) => self.directory.damaged(damage),
                None if refusal.is_reported => {}
                None => {
                    let text = format!("{topic}-{partition}: {}", refusal.message);
                    self.directory.problem(&text);
                }
            }
            let known = lock(&self.known).remove(&(topic.to_owned(), partition));
            if let Some(known) = known {
                lock(&self.open).retain(|one| !Arc::ptr_eq(&one.partition, &known.partition));
            }
        }
    }

    /// Returns a partition of an existing topic. Its state is at most [`FRESH`] old.
    pub(crate) fn get(&self, topic: &str, number: i32) -> Result<Arc<Partition>, Refusal> {
        let key = (topic.to_owned(), number);
        let known = lock(&self.known).get(&key).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            return Ok(Arc::clone(&known.partition));
        }
        // Outside the lock, because this reads files.
        let found = match known {
            Some(known)
                if known.asked.elapsed() < known.dependencies.trusted()
                    && known.dependencies.are_same(FRESH) =>
            {
                CachedPartition {
                    at: Instant::now(),
                    ..known
                }
            }
            known => {
                let state = known.as_ref().map(|known| known.partition.state);
                let lookup = self.directory.partition(topic, number, state)?;
                let partition = lookup.partition.map(Arc::new);
                let partition = partition.or_else(|| known.map(|known| known.partition));
                CachedPartition {
                    partition: partition.ok_or_else(|| {
                        let text = "no state of a partition";
                        Refusal::new(ResponseError::UnknownServerError, text)
                    })?,
                    dependencies: Arc::new(Dependencies {
                        own: lookup.own,
                        shared: self.shared_files.of(lookup.shared),
                    }),
                    asked: Instant::now(),
                    at: Instant::now(),
                }
            }
        };
        let partition = Arc::clone(&found.partition);
        lock(&self.known).insert(key, found);
        Ok(partition)
    }

    /// Returns the segment of a partition with an offset, or the first one after it; None if there is no such segment.
    pub(crate) fn segment(
        &self,
        partition: &Arc<Partition>,
        offset: i64,
    ) -> Result<Option<Arc<Segment>>, Refusal> {
        let place = partition
            .base_offsets
            .partition_point(|base| *base <= offset)
            .saturating_sub(1);
        let Some(&base_offset) = partition.base_offsets.get(place) else {
            return Ok(None);
        };
        let mut open = lock(&self.open);
        let known = open.iter().position(|one| {
            Arc::ptr_eq(&one.partition, partition) && one.segment.base_offset == base_offset
        });
        if let Some(at) = known {
            // The last one is the most recently used.
            let one = open.remove(at);
            let segment = Arc::clone(&one.segment);
            open.push(one);
            return Ok(Some(segment));
        }
        drop(open);
        let is_last = place + 1 == partition.base_offsets.len();
        let end = is_last.then_some(partition.end_position);
        let segment = Segment::open(&self.directory, partition, base_offset, end);
        let segment = Arc::new(segment?);
        let mut open = lock(&self.open);
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push(OpenSegment {
            partition: Arc::clone(partition),
            segment: Arc::clone(&segment),
        });
        Ok(Some(segment))
    }
}

impl Partition {
    /// The leader epoch; -1 if unknown.
    pub(crate) fn leader_epoch(&self) -> i32 {
        self.epochs.last().map_or(-1, |(epoch, _)| *epoch)
    }

    /// Returns the base offset of the segment after the given one.
    pub(crate) fn next_base(&self, base_offset: i64) -> Option<i64> {
        let place = self
            .base_offsets
            .partition_point(|base| *base <= base_offset);
        self.base_offsets.get(place).copied()
    }

    /// Returns the offset after the last record that a client may see.
    pub(crate) fn visible_end(&self, is_committed: bool) -> i64 {
        match is_committed {
            true => self.last_stable_offset.min(self.high_watermark),
            false => self.high_watermark,
        }
    }

    /// Refuses a client whose leader epoch differs from the partition's (KIP-320). `of_client` is -1 if the client
    /// sends no leader epoch.
    ///
    /// After a client has been fenced, metadata responses must contain the leader epoch, because librdkafka sends 0 if
    /// they contain none.
    pub(crate) fn check_epoch(&self, of_client: i32) -> Result<(), Refusal> {
        let epoch = self.leader_epoch();
        if of_client < 0 || epoch < 0 || of_client == epoch {
            return Ok(());
        }
        let error = match of_client < epoch {
            true => ResponseError::FencedLeaderEpoch,
            false => ResponseError::UnknownLeaderEpoch,
        };
        Err(Refusal::new(error, "another leader epoch"))
    }

    /// Returns the largest leader epoch that is not above `epoch`, and its end offset; (-1, -1) without such an epoch.
    ///
    /// The result is the same as from `LeaderEpochFileCache.endOffsetFor`.
    pub(crate) fn end_of_epoch(&self, epoch: i32) -> (i32, i64) {
        if epoch < 0 || self.epochs.is_empty() {
            return (-1, -1);
        }
        let place = self.epochs.partition_point(|(known, _)| *known <= epoch);
        match (
            place
                .checked_sub(1)
                .and_then(|before| self.epochs.get(before)),
            self.epochs.get(place),
        ) {
            (Some((known, _)), None) if *known == epoch => (epoch, self.high_watermark),
            // An epoch later than all known ones.
            (_, None) => (-1, -1),
            (Some((known, _)), Some((_, start))) => (*known, *start),
            // An epoch before the first one ends where the log begins.
            (None, Some((_, start))) => (epoch, *start),
        }
    }

    /// Returns the aborted transactions with records in a range of offsets.
    pub(crate) fn aborted_in(&self, start: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        let from = self.aborted.partition_point(|one| one.last_offset < start);
        self.aborted
            .iter()
            .skip(from)
            .filter(move |one| one.first_offset < end)
    }
}
