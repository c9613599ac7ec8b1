//! Offset commits: the most frequent records of `__consumer_offsets`.

use std::borrow::Cow;

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::base::utf8::java_utf8;
use crate::state::internal_topic::of_version;
use crate::state::json::uuid_text;
use crate::state::messages;
use crate::state::schema::Field;
use crate::state::walk::{Value, Visitor, walk};

/// A group's commit for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommit<'a> {
    /// The group.
    pub group: Cow<'a, str>,
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: i32,
    /// The committed offset; None if the offset expired or was deleted.
    pub committed: Option<Committed<'a>>,
}

/// The value of an [`OffsetCommit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<'a> {
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record that was read; -1 if unknown.
    pub leader_epoch: i32,
    /// The metadata of the consumer.
    pub metadata: Cow<'a, str>,
    /// The time of the commit, in ms since 1970.
    pub commit_timestamp: i64,
    /// The time at which it expires, if the client set one.
    pub expire_timestamp: Option<i64>,
    /// The id of the topic as Kafka prints it, if the broker stored it.
    pub topic_id: Option<String>,
}

impl<'a> OffsetCommit<'a> {
    /// Decodes a record of `__consumer_offsets`; None if it is not an offset commit.
    ///
    /// Fails if it is a damaged offset commit, or has an unknown version.
    pub fn decode(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Result<Option<Self>> {
        let mut reader = Reader::new(key.unwrap_or_default());
        let kind = reader.i16().ok();
        // The first types; `InternalTopic::decode` says what the others are.
        let Some(known) = messages::CONSUMER_OFFSETS
            .iter()
            .take_while(|known| known.key.name.ends_with("OffsetCommitKey"))
            .find(|known| kind == Some(known.kind))
        else {
            return Ok(None);
        };
        let mut fields = Fields::default();
        walk(known.key, known.key_version(), &mut reader, &mut fields)?;
        let committed = match value {
            None => None,
            Some(value) => {
                let mut reader = Reader::new(value);
                let version = reader.i16()?;
                walk(
                    of_version(known.values, version)?,
                    version,
                    &mut reader,
                    &mut fields,
                )?;
                Some(Committed {
                    offset: fields.offset,
                    leader_epoch: fields.leader_epoch.unwrap_or(-1),
                    metadata: java_utf8(fields.metadata),
                    commit_timestamp: fields.commit_timestamp,
                    expire_timestamp: fields.expire_timestamp.filter(|&expire| expire != -1),
                    topic_id: fields
                        .topic_id
                        .filter(|id| id.iter().any(|&byte| byte != 0))
                        .map(uuid_text),
                })
            }
        };
        Ok(Some(Self {
            group: java_utf8(fields.group),
            topic: java_utf8(fields.topic),
            partition: i32::try_from(fields.partition)
                .map_err(|_| Error::corrupt("partition: not an int32"))?,
            committed,
        }))
    }
}

/// The fields that have been decoded so far.
#[derive(Default)]
struct Fields<'a> {
    name: &'static str,
    group: &'a [u8],
    topic: &'a [u8],
    partition: i64,
    offset: i64,
    leader_epoch: Option<i32>,
    metadata: &'a [u8],
    commit_timestamp: i64,
    expire_timestamp: Option<i64>,
    topic_id: Option<&'a [u8]>,
}

impl<'a> Visitor<'a> for Fields<'a> {
    fn begin_field(&mut self, field: &'static Field, _: &'a [u8]) {
        self.name = field.name;
    }

    fn value(&mut self, value: Value<'a>) {
        match (self.name, value) {
            ("group", Value::Text(text)) => self.group = text,
            ("topic", Value::Text(text)) => self.topic = text,
            ("partition", Value::Int(number)) => self.partition = number,
            ("offset", Value::Int(number)) => self.offset = number,
            ("leaderEpoch", Value::Int(number)) => self.leader_epoch = i32::try_from(number).ok(),
            ("metadata", Value::Text(text)) => self.metadata = text,
            ("commitTimestamp", Value::Int(number)) => self.commit_timestamp = number,
            ("expireTimestamp", Value::Int(number)) => self.expire_timestamp = Some(number),
            ("topicId", Value::Uuid(id)) => self.topic_id = Some(id),
            _ => {}
        }
    }
}
