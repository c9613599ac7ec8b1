//! Control records: transaction markers and KRaft messages.
//!
//! The key is int16 version, int16 type. Versions above the known one are read like the known one, and bytes after the
//! known fields are ignored. The value of a transaction marker is int16 version, int32 coordinator epoch. KRaft values
//! are Kafka's generated messages.

use crate::base::error::{Error, Result};
use crate::base::json::Json;
use crate::base::primitives::Reader;
use crate::state::encode::encode_message;
use crate::state::json::message_json;
use crate::state::messages;
use crate::state::schema::Schema;

/// The version of the messages (`ControlRecordUtils`). Their leading int16 version is an ordinary field.
const VERSION: i16 = 0;

/// The type of a control record (`ControlRecordType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The producer's transaction is aborted.
    Abort,
    /// The producer's transaction is committed.
    Commit,
    /// KRaft: a new leader and its voters.
    LeaderChange,
    /// KRaft: first record of a snapshot.
    SnapshotHeader,
    /// KRaft: last record of a snapshot.
    SnapshotFooter,
    /// KRaft: the version of the protocol.
    KRaftVersion,
    /// KRaft: the voters.
    KRaftVoters,
    /// Written by a newer Kafka. Consumers skip it.
    Unknown(i16),
}

/// Returns the type in a control record's key.
pub fn control_type(key: &[u8]) -> Result<ControlType> {
    let mut reader = Reader::new(key);
    let (Ok(version), Ok(id)) = (reader.i16(), reader.i16()) else {
        return Err(Error::corrupt(format!(
            "control record key has {} bytes, but needs 4",
            key.len()
        )));
    };
    if version < 0 {
        return Err(Error::corrupt(format!(
            "control record key has the negative version {version}"
        )));
    }
    Ok(ControlType::from_id(id))
}

/// Returns the coordinator epoch in a transaction marker's value.
pub fn coordinator_epoch(value: &[u8]) -> Result<i32> {
    let mut reader = Reader::new(value);
    let (Ok(version), Ok(epoch)) = (reader.i16(), reader.i32()) else {
        return Err(Error::corrupt(format!(
            "transaction marker has {} bytes, but needs 6",
            value.len()
        )));
    };
    if version < 0 {
        return Err(Error::corrupt(format!(
            "transaction marker version {version}"
        )));
    }
    Ok(epoch)
}

impl ControlType {
    /// Returns the type of a number.
    pub fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            id => Self::Unknown(id),
        }
    }

    /// Returns the type's name in Kafka.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abort => "ABORT",
            Self::Commit => "COMMIT",
            Self::LeaderChange => "LEADER_CHANGE",
            Self::SnapshotHeader => "SNAPSHOT_HEADER",
            Self::SnapshotFooter => "SNAPSHOT_FOOTER",
            Self::KRaftVersion => "KRAFT_VERSION",
            Self::KRaftVoters => "KRAFT_VOTERS",
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    /// Returns the key of a control record of this type.
    pub fn key(self) -> [u8; 4] {
        let id: i16 = match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        };
        let [high, low] = id.to_be_bytes();
        [0, 0, high, low]
    }

    /// Returns the definition of a KRaft value.
    fn schema(self) -> Option<&'static Schema> {
        match self {
            Self::LeaderChange => Some(&messages::LEADER_CHANGE_MESSAGE),
            Self::SnapshotHeader => Some(&messages::SNAPSHOT_HEADER_RECORD),
            Self::SnapshotFooter => Some(&messages::SNAPSHOT_FOOTER_RECORD),
            Self::KRaftVersion => Some(&messages::KRAFT_VERSION_RECORD),
            Self::KRaftVoters => Some(&messages::VOTERS_RECORD),
            Self::Abort | Self::Commit | Self::Unknown(_) => None,
        }
    }

    /// Writes a KRaft value as Kafka's JSON converters do. Other types write null.
    pub fn value_json(self, value: &[u8], json: &mut Json<'_>) -> Result<()> {
        let Some(schema) = self.schema() else {
            json.null();
            return Ok(());
        };
        message_json(schema, VERSION, &mut Reader::new(value), json).map_err(|error| {
            Error::corrupt(format!(
                "control record value ({self:?}): {}",
                error.message
            ))
        })
    }

    /// Returns the bytes of a KRaft value from JSON in the form of [`Self::value_json`].
    pub fn value_from_json(self, json: &[u8]) -> Result<Vec<u8>> {
        let schema = self
            .schema()
            .ok_or_else(|| Error::invalid(format!("{self:?} has no value of KRaft")))?;
        let mut out = Vec::new();
        encode_message(schema, VERSION, json, &mut out)?;
        Ok(out)
    }
}
