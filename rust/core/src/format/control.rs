//! Control records: transaction markers and KRaft messages.
//!
//! The key is int16 version, int16 type. Versions above the known one are read like the known one, and bytes behind the
//! known fields are ignored. The value of a transaction marker is int16 version, int32 coordinator epoch. KRaft values
//! are Kafka's generated messages at message version 0: the leading int16 version is an ordinary field, lengths are
//! unsigned varints of length + 1, and every struct ends with tagged fields.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::base::error::{Error, Result};
use crate::base::json::Json;
use crate::base::primitives::Reader;
use crate::base::utf8::java_utf8;

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
            "control record key of {} bytes, 4 needed",
            key.len()
        )));
    };
    if version < 0 {
        return Err(Error::corrupt(format!(
            "control record key version {version}"
        )));
    }
    Ok(match id {
        0 => ControlType::Abort,
        1 => ControlType::Commit,
        2 => ControlType::LeaderChange,
        3 => ControlType::SnapshotHeader,
        4 => ControlType::SnapshotFooter,
        5 => ControlType::KRaftVersion,
        6 => ControlType::KRaftVoters,
        id => ControlType::Unknown(id),
    })
}

/// Returns the coordinator epoch in a transaction marker's value.
pub fn coordinator_epoch(value: &[u8]) -> Result<i32> {
    let mut reader = Reader::new(value);
    let (Ok(version), Ok(epoch)) = (reader.i16(), reader.i32()) else {
        return Err(Error::corrupt(format!(
            "transaction marker of {} bytes, 6 needed",
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
    /// Writes a KRaft value as Kafka's JSON converters do. Other types write null.
    pub fn value_json(self, value: &[u8], json: &mut Json<'_>) -> Result<()> {
        let mut message = KRaftMessage {
            reader: Reader::new(value),
            json,
        };
        let written = match self {
            Self::LeaderChange => message.structure(KRaftMessage::leader_change),
            Self::SnapshotHeader => message.structure(KRaftMessage::snapshot_header),
            Self::SnapshotFooter => message.structure(|m| m.int16("version")),
            Self::KRaftVersion => message.structure(KRaftMessage::kraft_version),
            Self::KRaftVoters => message.structure(KRaftMessage::kraft_voters),
            Self::Abort | Self::Commit | Self::Unknown(_) => {
                message.json.null();
                Ok(())
            }
        };
        written.map_err(|error| {
            Error::corrupt(format!(
                "control record value ({self:?}): {}",
                error.message
            ))
        })
    }
}

/// A generated message that is converted from bytes to JSON.
struct KRaftMessage<'a, 'json, 'out> {
    reader: Reader<'a>,
    json: &'json mut Json<'out>,
}

impl KRaftMessage<'_, '_, '_> {
    fn structure(&mut self, fields: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.json.begin_object();
        fields(self)?;
        self.skip_tagged_fields()?;
        self.json.end_object();
        Ok(())
    }

    fn leader_change(&mut self) -> Result<()> {
        self.int16("version")?;
        self.int32("leaderId")?;
        self.array("voters", |m| m.int32("voterId"))?;
        self.array("grantingVoters", |m| m.int32("voterId"))
    }

    fn snapshot_header(&mut self) -> Result<()> {
        self.int16("version")?;
        self.json.key("lastContainedLogTimestamp");
        self.json.int(self.reader.i64()?);
        Ok(())
    }

    fn kraft_version(&mut self) -> Result<()> {
        self.int16("version")?;
        self.int16("kRaftVersion")
    }

    fn kraft_voters(&mut self) -> Result<()> {
        self.int16("version")?;
        self.array("voters", |voter| {
            voter.int32("voterId")?;
            let directory_id = voter.reader.bytes(16)?;
            voter.json.key("voterDirectoryId");
            voter.json.string(&URL_SAFE_NO_PAD.encode(directory_id));
            voter.array("endpoints", |endpoint| {
                endpoint.string("name")?;
                endpoint.string("host")?;
                endpoint.json.key("port");
                endpoint.json.int(endpoint.reader.i16()? as u16);
                Ok(())
            })?;
            voter.json.key("kRaftVersionFeature");
            voter.structure(|feature| {
                feature.int16("minSupportedVersion")?;
                feature.int16("maxSupportedVersion")
            })
        })
    }

    fn int16(&mut self, name: &str) -> Result<()> {
        self.json.key(name);
        self.json.int(self.reader.i16()?);
        Ok(())
    }

    fn int32(&mut self, name: &str) -> Result<()> {
        self.json.key(name);
        self.json.int(self.reader.i32()?);
        Ok(())
    }

    fn string(&mut self, name: &str) -> Result<()> {
        let length = self.length(name)?;
        let bytes = self.reader.bytes(length)?;
        self.json.key(name);
        self.json.string(&java_utf8(bytes));
        Ok(())
    }

    fn array(&mut self, name: &str, element: impl Fn(&mut Self) -> Result<()>) -> Result<()> {
        let length = self.length(name)?;
        self.json.key(name);
        self.json.begin_array();
        for _ in 0..length {
            self.structure(&element)?;
        }
        self.json.end_array();
        Ok(())
    }

    fn length(&mut self, name: &str) -> Result<usize> {
        // 0 is null, which none of these fields may be. Kafka reads 2^31 and above as negative.
        let length = (self.reader.unsigned_varint()? as i32).wrapping_sub(1);
        usize::try_from(length).map_err(|_| Error::corrupt(format!("{name} is null")))
    }

    fn skip_tagged_fields(&mut self) -> Result<()> {
        let count = self.reader.unsigned_varint()? as i32;
        for _ in 0..count {
            self.reader.unsigned_varint()?;
            let size = self.reader.unsigned_varint()?;
            self.reader.bytes(size as usize)?;
        }
        Ok(())
    }
}
