//! The records of Kafka's internal topics: the message type and the content of each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::base::error::{Error, Result};
use crate::base::json::Json;
use crate::base::primitives::{Reader, push_unsigned_varint};
use crate::state::encode::encode_message;
use crate::state::json::{MAX_MESSAGE_MEMORY, bounded_json};
use crate::state::messages;
use crate::state::schema::{Keyed, Schema};

/// The frame of a record whose type is in its value (`AbstractApiMessageSerde`).
const FRAME: u32 = 1;
/// The frame of Kafka 2.8.
const FRAME_2_8: u32 = 0;
/// The memory that each byte of a record of an unknown type takes, because it becomes base64 text.
const MEMORY_OF_BYTE: u64 = 8;

/// An internal topic, in which Kafka keeps its own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalTopic {
    /// `__consumer_offsets`: groups of all types, and their commits.
    ConsumerOffsets,
    /// `__transaction_state`: transactional ids.
    TransactionState,
    /// `__share_group_state`: the acknowledgements of share groups.
    ShareGroupState,
    /// `__remote_log_metadata`: the segments in remote storage.
    RemoteLogMetadata,
    /// `__cluster_metadata`: brokers, topics, configs, users and ACLs; also in snapshots.
    ClusterMetadata,
}

/// The content of a record of an internal topic. The texts are reused for the next record.
#[derive(Debug, Default)]
pub struct StateRecord {
    /// The number of its type; None if the record has no type.
    pub kind: Option<i16>,
    /// The name of its type: the name of its value's definition, or the name of its key's definition without `Key`.
    /// Unknown types have no name.
    pub name: Option<&'static str>,
    /// The version of its value.
    pub version: Option<i16>,
    /// The key as JSON; empty without a key. Unknown bytes are a string of base64.
    pub key: Vec<u8>,
    /// The value as JSON. It is empty if the record removes its key, or if the type has no value.
    pub value: Vec<u8>,
    /// The reason why key or value are shown as bytes.
    pub unknown: Option<String>,
    /// The approximate memory of key and value once decoded, including Python objects and rows of tables.
    pub memory: u64,
    /// True if the value is left out, because it takes more memory than is allowed.
    pub is_too_large: bool,
}

impl InternalTopic {
    /// Returns the topic with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "__consumer_offsets" => Some(Self::ConsumerOffsets),
            "__transaction_state" => Some(Self::TransactionState),
            "__share_group_state" => Some(Self::ShareGroupState),
            "__remote_log_metadata" => Some(Self::RemoteLogMetadata),
            "__cluster_metadata" => Some(Self::ClusterMetadata),
            _ => None,
        }
    }

    /// Decodes a record. Unknown parts, and parts that break the schema of their type, become bytes.
    ///
    /// A key or value that takes more memory than `most` once it is decoded is left out; None for
    /// [`MAX_MESSAGE_MEMORY`].
    pub fn decode(
        self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        most: Option<u64>,
        record: &mut StateRecord,
    ) {
        record.key.clear();
        record.value.clear();
        (record.kind, record.name, record.version) = (None, None, None);
        (record.memory, record.is_too_large) = (0, false);
        let most = most.unwrap_or(MAX_MESSAGE_MEMORY);
        let decoded = match self {
            Self::ConsumerOffsets => keyed(messages::CONSUMER_OFFSETS, key, value, most, record),
            Self::TransactionState => keyed(messages::TRANSACTION_STATE, key, value, most, record),
            Self::ShareGroupState => keyed(messages::SHARE_GROUP_STATE, key, value, most, record),
            Self::RemoteLogMetadata => framed(
                |frame| (frame == FRAME).then_some(messages::REMOTE_LOG_METADATA),
                value,
                most,
                record,
            ),
            Self::ClusterMetadata => framed(
                |frame| match frame {
                    FRAME => Some(messages::CLUSTER_METADATA),
                    FRAME_2_8 => Some(messages::CLUSTER_METADATA_2_8),
                    _ => None,
                },
                value,
                most,
                record,
            ),
        };
        record.unknown = decoded.err().map(|error| error.message);
        if record.unknown.is_some() {
            let bytes = [key, value]
                .into_iter()
                .flatten()
                .map(<[u8]>::len)
                .sum::<usize>() as u64;
            record.memory = bytes * MEMORY_OF_BYTE;
            record.is_too_large = record.memory > most;
        }
        if record.is_too_large {
            record.key.clear();
            record.value.clear();
            return;
        }
        if record.key.is_empty() {
            base64(key, &mut record.key);
        }
        if record.value.is_empty() {
            base64(value, &mut record.value);
        }
    }
}

/// Decodes a record whose key begins with its type (`CoordinatorRecordSerde`). As in Kafka, bytes left over after the
/// fields of the key or of the value are ignored.
fn keyed(
    types: &'static [Keyed],
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    most: u64,
    record: &mut StateRecord,
) -> Result<()> {
    let key = key.ok_or_else(|| Error::corrupt("no key"))?;
    let mut reader = Reader::new(key);
    let kind = reader.i16().map_err(|error| in_part("key", &error))?;
    record.kind = Some(kind);
    let known = types
        .iter()
        .find(|known| known.kind == kind)
        .ok_or_else(|| Error::unsupported(format!("unknown type {kind}")))?;
    record.name = Some(known.key.name.strip_suffix("Key").unwrap_or(known.key.name));
    record.memory = bounded_json(
        known.key,
        known.key_version(),
        &mut reader,
        &mut Json::new(&mut record.key),
        most,
    )
    .map_err(|error| in_part("key", &error))?;
    let Some(value) = value else {
        return Ok(());
    };
    let mut reader = Reader::new(value);
    let version = reader.i16().map_err(|error| in_part("value", &error))?;
    record.version = Some(version);
    record.memory += bounded_json(
        of_version(known.values, version)?,
        version,
        &mut reader,
        &mut Json::new(&mut record.value),
        most,
    )
    .map_err(|error| in_part("value", &error))?;
    record.is_too_large = record.memory > most;
    Ok(())
}

/// A record whose type and version are in front of its value (`AbstractApiMessageSerde`).
fn framed(
    types_of: impl Fn(u32) -> Option<&'static [(u32, &'static [&'static Schema])]>,
    value: Option<&[u8]>,
    most: u64,
    record: &mut StateRecord,
) -> Result<()> {
    let mut reader = Reader::new(value.ok_or_else(|| Error::corrupt("no value"))?);
    let frame = reader.unsigned_varint()?;
    let types =
        types_of(frame).ok_or_else(|| Error::unsupported(format!("unknown frame {frame}")))?;
    let kind = reader.unsigned_varint()?;
    record.kind = i16::try_from(kind).ok();
    let version = reader.unsigned_varint()?;
    record.version = i16::try_from(version).ok();
    let (_, schemas) = types
        .iter()
        .find(|(known, _)| *known == kind)
        .ok_or_else(|| Error::unsupported(format!("unknown type {kind}")))?;
    let version = record
        .version
        .ok_or_else(|| Error::unsupported(format!("unknown version {version}")))?;
    record.name = schemas.first().map(|schema| schema.name);
    record.memory = bounded_json(
        of_version(schemas, version)?,
        version,
        &mut reader,
        &mut Json::new(&mut record.value),
        most,
    )
    .and_then(|memory| match reader.remaining() {
        0 => Ok(memory),
        behind => Err(Error::corrupt(format!("{behind} bytes behind it"))),
    })
    .map_err(|error| {
        record.value.clear();
        in_part("value", &error)
    })?;
    record.is_too_large = record.memory > most;
    Ok(())
}

pub(crate) fn of_version(
    schemas: &'static [&'static Schema],
    version: i16,
) -> Result<&'static Schema> {
    let newest = schemas.last().map_or("", |schema| schema.name);
    schemas
        .iter()
        .find(|schema| schema.versions.contains(version))
        .copied()
        .ok_or_else(|| Error::unsupported(format!("unknown version {version} of {newest}")))
}

/// Returns a record of `__cluster_metadata`: type and version, and then the message, given as JSON.
///
/// Args: `name` is the name of the message's definition. The JSON has the form of [`InternalTopic::decode`].
pub fn metadata_record(name: &str, version: i16, json: &[u8]) -> Result<Vec<u8>> {
    let (kind, schemas) = messages::CLUSTER_METADATA
        .iter()
        .find(|(_, schemas)| schemas.iter().any(|schema| schema.name == name))
        .ok_or_else(|| Error::invalid(format!("no metadata record {name:?}")))?;
    let mut out = Vec::new();
    push_unsigned_varint(&mut out, FRAME);
    push_unsigned_varint(&mut out, *kind);
    push_unsigned_varint(&mut out, version as u32);
    encode_message(of_version(schemas, version)?, version, json, &mut out)?;
    Ok(out)
}

fn in_part(part: &str, error: &Error) -> Error {
    Error::corrupt(format!("{part}: {}", error.message))
}

fn base64(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(bytes) = bytes {
        out.push(b'"');
        out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
        out.push(b'"');
    }
}
