//! The interface between a server and the directory that it serves.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// The interface of a directory. Each call may block, because it reads files.
pub trait Directory: Send + Sync + 'static {
    /// The cluster's id.
    fn cluster_id(&self) -> String;

    /// All topics, sorted by name.
    fn topics(&self) -> Result<Arc<Topics>, Refusal>;

    /// The current state of a partition.
    fn partition(
        &self,
        topic: &str,
        partition: i32,
        known: Option<u64>,
    ) -> Result<PartitionLookup, Refusal>;

    /// The first record at or after a timestamp in ms; None if no record below `end` matches.
    ///
    /// Negative timestamps request special offsets (`ListOffsetsRequest`).
    fn offset_for_time(
        &self,
        topic: &str,
        partition: i32,
        timestamp: i64,
        end: i64,
    ) -> Result<Option<TimedOffset>, Refusal>;

    /// The leader epoch of each partition of a topic, in the order of [`Topic::partitions`]; -1 if unknown.
    fn leader_epochs(&self, topic: &str) -> Result<Vec<i32>, Refusal>;

    /// Returns the groups in `__consumer_offsets`, with their known state.
    fn groups(&self) -> Result<Vec<KnownGroup>, Refusal>;

    /// Returns the commits of groups: group, topic, partition.
    fn commits(&self) -> Result<Vec<(String, String, i32, Commit)>, Refusal>;

    /// Returns the configs of a "topic", or of a "broker" by its id ("": for all brokers): names and values.
    fn configs(&self, kind: &str, name: &str) -> Result<Vec<(String, String)>, Refusal>;

    /// Reports content that cannot be read.
    fn problem(&self, _text: &str) {}

    /// Reports damage that a client has met.
    fn damaged(&self, _damage: &Damage) {}

    /// Reports that a client tried to produce to a topic; "" if its request names no topic.
    fn refused(&self, _topic: &str) {}

    /// The length of a file that is not on a local disk.
    fn size(&self, path: &str) -> Result<u64, Refusal>;

    /// Bytes of a file that is not on a local disk; fewer at its end.
    fn read(&self, path: &str, position: u64, length: usize) -> Result<Bytes, Refusal>;
}

/// The maximum size of a topic's name in bytes (`Topic.MAX_NAME_LENGTH`).
pub(crate) const MOST_OF_NAME: usize = 249;

/// The topics of a directory.
#[derive(Debug, Default)]
pub struct Topics {
    topics: Vec<Topic>,
    by_id: std::collections::HashMap<Uuid, usize>,
}

impl Topics {
    /// Sorts topics by name.
    pub fn new(mut topics: Vec<Topic>) -> Self {
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        let by_id = topics
            .iter()
            .enumerate()
            .filter(|(_, topic)| !topic.id.is_nil())
            .map(|(place, topic)| (topic.id, place))
            .collect();
        Self { topics, by_id }
    }

    /// All topics.
    pub fn all(&self) -> &[Topic] {
        &self.topics
    }

    /// The topic with a name.
    pub fn by_name(&self, name: &str) -> Option<&Topic> {
        let place = self
            .topics
            .binary_search_by(|topic| topic.name.as_str().cmp(name));
        self.topics.get(place.ok()?)
    }

    /// The topic with an id.
    pub fn by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(*self.by_id.get(&id)?)
    }

    /// Refuses a partition that does not exist.
    pub(crate) fn check(&self, topic: &str, partition: i32) -> Result<(), Refusal> {
        let exists = self
            .by_name(topic)
            .is_some_and(|topic| topic.partitions.binary_search(&partition).is_ok());
        match exists {
            true => Ok(()),
            false => Err(Refusal::new(
                ResponseError::UnknownTopicOrPartition,
                "no such partition",
            )),
        }
    }
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The name.
    pub name: String,
    /// The id; nil if unknown.
    pub id: Uuid,
    /// The numbers of its partitions, ascending.
    pub partitions: Vec<i32>,
    /// True if it is one of Kafka's internal topics.
    pub is_internal: bool,
}

/// The result of looking up a partition.
#[derive(Debug, Clone)]
pub struct PartitionLookup {
    /// The partition; None if its state is unchanged.
    pub partition: Option<Partition>,
    /// The partition's files that change with it. If both lists of files are empty, the partition never changes.
    pub own: Vec<FileStamp>,
    /// Files that change with this partition and with other partitions.
    pub shared: Vec<FileStamp>,
}

/// The state of a file or directory at the time when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// The path.
    pub path: String,
    /// The modification time in ns; -1 if there was no such file.
    pub modified: i64,
    /// The size; -1 if there was no such file.
    pub size: i64,
}

/// A partition at one time.
#[derive(Debug, Clone, Default)]
pub struct Partition {
    /// A number that changes when the partition changes.
    pub state: u64,
    /// The directory of its segments: a path, or a URL that only [`Directory::read`] understands.
    pub path: String,
    /// The first offset of each segment, ascending.
    pub base_offsets: Vec<i64>,
    /// The names of `.log` files that are not named by their first offset.
    pub other_names: Vec<(i64, String)>,
    /// The position at which the last sound batch of the last segment ends.
    pub end_position: u64,
    /// The first offset that a consumer may fetch.
    pub log_start_offset: i64,
    /// The offset after the last record for consumers.
    pub high_watermark: i64,
    /// The offset after the last record whose transaction has ended.
    pub last_stable_offset: i64,
    /// The leader epochs, each with its first offset, ascending.
    pub epochs: Vec<(i32, i64)>,
    /// Aborted transactions, in the order of their ends.
    pub aborted: Vec<Aborted>,
}

/// An aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted {
    /// The producer.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: i64,
    /// The offset of its marker.
    pub last_offset: i64,
}

/// An offset that was looked up by a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOffset {
    /// The offset.
    pub offset: i64,
    /// The timestamp of its record, in ms.
    pub timestamp: i64,
    /// The leader epoch of that record; -1 if unknown.
    pub leader_epoch: i32,
}

/// A group in `__consumer_offsets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownGroup {
    /// Its name.
    pub name: String,
    /// The type of its protocol; empty if it only committed offsets.
    pub protocol_type: String,
    /// Partitions whose offsets were sent in a transaction that has not ended.
    pub pending: Vec<(String, i32)>,
}

/// A group's committed offset for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The next offset to read; -1 if none is committed.
    pub offset: i64,
    /// The leader epoch of the record before this offset; -1 if unknown.
    pub leader_epoch: i32,
    /// The metadata that the client committed with the offset.
    pub metadata: StrBytes,
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            offset: -1,
            leader_epoch: -1,
            metadata: StrBytes::new(),
        }
    }
}

/// The reason why a directory gives no answer.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The protocol's error.
    pub error: ResponseError,
    /// The reason, for the log of the server. It contains no text from a client, because such a text may be long and
    /// repeated for each partition.
    pub message: Cow<'static, str>,
    /// The place of the damage that is the reason, if it is known.
    pub damage: Option<Box<Damage>>,
    /// True if the directory itself has reported the reason.
    pub is_reported: bool,
}

/// Damage at one place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: String,
    /// The defect, with its position.
    pub error: brokerless_core::Error,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.error)
    }
}

impl std::error::Error for Damage {}

impl From<io::Error> for Refusal {
    /// The refusal for a file that cannot be read.
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::InvalidData => ResponseError::CorruptMessage,
            _ => ResponseError::KafkaStorageError,
        };
        let mut refusal = Self::new(kind, error.to_string());
        let damage = error.into_inner().map(|inner| inner.downcast::<Damage>());
        refusal.damage = damage.and_then(Result::ok);
        refusal
    }
}

impl Refusal {
    /// Returns a refusal.
    pub fn new(error: ResponseError, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            error,
            message: message.into(),
            damage: None,
            is_reported: false,
        }
    }

    /// The refusal if there is no memory for the reply.
    pub(crate) fn no_memory() -> Self {
        Self::new(
            ResponseError::PolicyViolation,
            "requests and replies take all memory that they may take (--memory)",
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::base::sync::lock;

    /// A directory without topics, groups and files. It keeps the positions of reported damage.
    #[derive(Default)]
    pub(crate) struct Empty {
        pub(crate) damage: Mutex<Vec<u64>>,
    }

    impl Directory for Empty {
        fn cluster_id(&self) -> String {
            String::new()
        }
        fn topics(&self) -> Result<Arc<Topics>, Refusal> {
            Ok(Arc::default())
        }
        fn partition(&self, _: &str, _: i32, _: Option<u64>) -> Result<PartitionLookup, Refusal> {
            Err(Refusal::new(ResponseError::UnknownTopicOrPartition, ""))
        }
        fn offset_for_time(
            &self,
            _: &str,
            _: i32,
            _: i64,
            _: i64,
        ) -> Result<Option<TimedOffset>, Refusal> {
            Ok(None)
        }
        fn leader_epochs(&self, _: &str) -> Result<Vec<i32>, Refusal> {
            Ok(Vec::new())
        }
        fn groups(&self) -> Result<Vec<KnownGroup>, Refusal> {
            Ok(Vec::new())
        }
        fn commits(&self) -> Result<Vec<(String, String, i32, Commit)>, Refusal> {
            Ok(Vec::new())
        }
        fn configs(&self, _: &str, _: &str) -> Result<Vec<(String, String)>, Refusal> {
            Ok(Vec::new())
        }
        fn damaged(&self, damage: &Damage) {
            lock(&self.damage).push(damage.error.position);
        }
        fn size(&self, _: &str) -> Result<u64, Refusal> {
            Ok(0)
        }
        fn read(&self, _: &str, _: u64, _: usize) -> Result<bytes::Bytes, Refusal> {
            Ok(bytes::Bytes::new())
        }
    }
}
