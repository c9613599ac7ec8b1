//! The partitions that clients have asked for, and their open segments.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;

use crate::directory::{Aborted, Directory, Partition, Refusal};
use crate::memory::Memory;
use crate::records::Shown;
use crate::segment::Segment;
use crate::watched::{Dependencies, Groups};

/// A partition is looked at again after this time: a broker may write to it.
const FRESH: Duration = Duration::from_millis(100);
/// So many segments stay open. Each needs two file descriptors.
const MOST_OPEN: usize = 256;

/// A cache in front of a directory. All calls may block.
pub(crate) struct Partitions {
    directory: Arc<dyn Directory>,
    pub(crate) cluster_id: String,
    /// How records are shown.
    pub(crate) shown: Shown,
    /// For records that go through this process.
    pub(crate) memory: Arc<Memory>,
    known: Mutex<HashMap<(String, i32), Known>>,
    open: Mutex<Vec<Opened>>,
    groups: Groups,
}

struct Known {
    /// When the directory was asked the last time.
    asked: Instant,
    partition: Arc<Partition>,
    dependencies: Arc<Dependencies>,
    at: Instant,
}

struct Opened {
    partition: Arc<Partition>,
    segment: Arc<Segment>,
}

impl Partitions {
    pub(crate) fn new(directory: Arc<dyn Directory>, shown: Shown, memory: Arc<Memory>) -> Self {
        Self {
            cluster_id: directory.cluster_id(),
            directory,
            shown,
            memory,
            known: Mutex::default(),
            open: Mutex::default(),
            groups: Groups::default(),
        }
    }

    pub(crate) fn directory(&self) -> &dyn Directory {
        &*self.directory
    }

    /// Tells what is wrong with the directory, if that is why a client is refused.
    pub(crate) fn tell(&self, topic: &str, partition: i32, refusal: &Refusal) {
        if matches!(
            refusal.error,
            ResponseError::CorruptMessage
                | ResponseError::KafkaStorageError
                | ResponseError::UnknownServerError
        ) {
            let text = format!("{topic}-{partition}: {}", refusal.message);
            self.directory.problem(&text);
        }
    }

    /// Returns a partition of a topic that exists, as it was at most [`FRESH`] ago.
    pub(crate) fn get(&self, topic: &str, number: i32) -> Result<Arc<Partition>, Refusal> {
        let key = (topic.to_owned(), number);
        let known = match lock(&self.known).get(&key) {
            Some(known) if known.at.elapsed() < FRESH => return Ok(Arc::clone(&known.partition)),
            known => known.map(|known| {
                (
                    Arc::clone(&known.partition),
                    Arc::clone(&known.dependencies),
                    known.asked,
                )
            }),
        };
        // Not under the lock: it reads files.
        let (partition, dependencies, asked) = match known {
            Some((partition, dependencies, asked))
                if asked.elapsed() < dependencies.trusted() && dependencies.are_same(FRESH) =>
            {
                (partition, dependencies, asked)
            }
            known => {
                let state = known.as_ref().map(|(partition, ..)| partition.state);
                let looked = self.directory.partition(topic, number, state)?;
                let dependencies = Dependencies {
                    own: looked.own,
                    group: self.groups.of(looked.shared),
                };
                match (looked.partition, known) {
                    (Some(found), _) => (Arc::new(found), Arc::new(dependencies), Instant::now()),
                    (None, Some((partition, ..))) => {
                        (partition, Arc::new(dependencies), Instant::now())
                    }
                    (None, None) => {
                        return Err(Refusal::new(
                            ResponseError::UnknownServerError,
                            "no state of a partition",
                        ));
                    }
                }
            }
        };
        let known = Known {
            asked,
            partition: Arc::clone(&partition),
            dependencies,
            at: Instant::now(),
        };
        lock(&self.known).insert(key, known);
        Ok(partition)
    }

    /// Returns the segment of a partition with an offset, or the first one behind it; None: there is none.
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
            // The last one is the one that was used last.
            let one = open.remove(at);
            let segment = Arc::clone(&one.segment);
            open.push(one);
            return Ok(Some(segment));
        }
        drop(open);
        let is_last = place + 1 == partition.base_offsets.len();
        let end = is_last.then_some(partition.end_position);
        let segment = Segment::open(&self.directory, partition, base_offset, end);
        let segment = Arc::new(segment.map_err(storage)?);
        let mut open = lock(&self.open);
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push(Opened {
            partition: Arc::clone(partition),
            segment: Arc::clone(&segment),
        });
        Ok(Some(segment))
    }
}

/// The refusal for a file that cannot be read.
pub(crate) fn storage(error: io::Error) -> Refusal {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData => ResponseError::CorruptMessage,
        _ => ResponseError::KafkaStorageError,
    };
    Refusal::new(kind, error.to_string())
}

/// Locks. What a thread that panicked left is still whole: nothing here is changed in two steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Partition {
    /// The epoch of the leader; -1: not known.
    pub(crate) fn leader_epoch(&self) -> i32 {
        self.epochs.last().map_or(-1, |(epoch, _)| *epoch)
    }

    /// The first offset of the segment behind one.
    pub(crate) fn next_base(&self, base_offset: i64) -> Option<i64> {
        let place = self
            .base_offsets
            .partition_point(|base| *base <= base_offset);
        self.base_offsets.get(place).copied()
    }

    /// The offset behind the last record that a client may see.
    pub(crate) fn visible_end(&self, is_committed: bool) -> i64 {
        match is_committed {
            true => self.last_stable_offset.min(self.high_watermark),
            false => self.high_watermark,
        }
    }

    /// Refuses a client whose leader epoch is another one (KIP-320). -1: the client does not say.
    ///
    /// Metadata tell the epoch, at the latest when a client has been fenced: librdkafka sends 0 where they tell none.
    pub(crate) fn check_epoch(&self, of_client: i32) -> Result<(), Refusal> {
        let epoch = self.leader_epoch();
        if of_client < 0 || epoch < 0 || of_client == epoch {
            return Ok(());
        }
        let error = match of_client < epoch {
            true => ResponseError::FencedLeaderEpoch,
            false => ResponseError::UnknownLeaderEpoch,
        };
        Err(Refusal::new(
            error,
            format!("leader epoch {of_client}, the directory has {epoch}"),
        ))
    }

    /// Returns the largest epoch that is not above one, and the offset where it ends; (-1, -1): there is none.
    ///
    /// As `LeaderEpochFileCache.endOffsetFor`.
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
            // A later epoch than any.
            (_, None) => (-1, -1),
            (Some((known, _)), Some((_, start))) => (*known, *start),
            // Before the first one: the epoch that was asked for ends where the log begins.
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
