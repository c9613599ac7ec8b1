//! The framing of schema registries: the id of a schema before the bytes of a key or value, or in a header
//! (`SchemaId`, `DualSchemaIdDeserializer` of the Schema Registry).
//!
//! The forms of an id are: byte 0 and an int32; byte 1 and the 16 bytes of a GUID. In Protobuf, message indexes follow.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;

/// The name of the header with the id of a key's schema.
pub const KEY_SCHEMA_ID: &str = "__key_schema_id";
/// The name of the header with the id of a value's schema.
pub const VALUE_SCHEMA_ID: &str = "__value_schema_id";

const MAGIC_ID: i8 = 0;
const MAGIC_GUID: i8 = 1;
/// The first two bytes of a payload of the AWS Glue Schema Registry: its version, and no compression or that of zlib.
const MAGIC_GLUE: [[u8; 2]; 2] = [[3, 0], [3, 5]];
/// Their number, with that of the UUID that follows.
const GLUE_BYTES: usize = 18;

/// The place and form of a schema's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No id: the bytes are not framed.
    None,
    /// Byte 0 and an id, before the body.
    PrefixV0,
    /// Byte 1 and a GUID, before the body.
    PrefixV1,
    /// In a header.
    Header,
}

impl Framing {
    /// All forms and their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("prefix-v0", Self::PrefixV0),
        ("prefix-v1", Self::PrefixV1),
        ("header", Self::Header),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, one)| *one == self)
            .map_or("", |(name, _)| name)
    }
}

/// The id of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaId {
    /// A number, unique within a context of a registry.
    Id(i32),
    /// A hash of the schema, the same in all registries.
    Guid([u8; 16]),
}

impl SchemaId {
    /// The bytes before a body.
    pub fn prefix(self) -> Vec<u8> {
        match self {
            Self::Id(id) => [&[MAGIC_ID as u8][..], &id.to_be_bytes()].concat(),
            Self::Guid(guid) => [&[MAGIC_GUID as u8][..], &guid].concat(),
        }
    }
}

/// A key or value, divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The place and form of the id.
    pub framing: Framing,
    /// The id; None if the bytes are not framed, or if a header has neither form of an id.
    pub schema_id: Option<SchemaId>,
    /// The bytes after the id, in the place of the id.
    after: &'a [u8],
    /// The part that the schema describes. In Protobuf, [`Self::message_indexes`] has its true beginning.
    pub body: &'a [u8],
}

impl<'a> Framed<'a> {
    /// Divides a key or value.
    ///
    /// `header` is the value of the last header with the name [`KEY_SCHEMA_ID`] or [`VALUE_SCHEMA_ID`]. Without one,
    /// the bytes before the body decide. Bytes that are too short for an id are not framed.
    #[inline]
    pub fn split(payload: &'a [u8], header: Option<&'a [u8]>) -> Self {
        if let Some(header) = header {
            let found = id_of(header);
            return Self {
                framing: Framing::Header,
                schema_id: found.map(|(id, _)| id),
                after: found.map_or(&[], |(_, after)| after),
                body: payload,
            };
        }
        let Some((id, body)) = id_of(payload) else {
            return Self {
                framing: Framing::None,
                schema_id: None,
                after: &[],
                body: payload,
            };
        };
        Self {
            framing: match id {
                SchemaId::Id(_) => Framing::PrefixV0,
                SchemaId::Guid(_) => Framing::PrefixV1,
            },
            schema_id: Some(id),
            after: body,
            body,
        }
    }

    /// True if bytes without an id begin as those of the AWS Glue Schema Registry do, which keeps its schemas elsewhere.
    pub fn is_of_glue(&self) -> bool {
        self.framing == Framing::None
            && self.body.len() >= GLUE_BYTES
            && MAGIC_GLUE.iter().any(|magic| self.body.starts_with(magic))
    }

    /// The id of 8 bytes that older serializers of Apicurio Registry write after byte 0. Its first half reads as the id
    /// 0, which no registry gives.
    pub fn id_of_apicurio(&self) -> Option<u32> {
        let is_zero = self.framing == Framing::PrefixV0 && self.schema_id == Some(SchemaId::Id(0));
        let id = self
            .body
            .first_chunk()
            .map(|bytes| u32::from_be_bytes(*bytes));
        id.filter(|&id| is_zero && id > 0)
    }

    /// Calls `take` with each message index, outermost first, and returns the body of the Protobuf message.
    ///
    /// An index is the position of a message among those of its file or outer message. The count and the indexes are
    /// zigzag varints; a count of 0 stands for the single index 0.
    pub fn message_indexes(&self, mut take: impl FnMut(i32)) -> Result<&'a [u8]> {
        let mut reader = Reader::new(self.after);
        let count = reader.varint()?;
        let count = usize::try_from(count)
            .ok()
            // Each index has a byte.
            .filter(|&count| count <= reader.remaining())
            .ok_or_else(|| Error::corrupt(format!("{count} message indexes")))?;
        if count == 0 {
            take(0);
        }
        for _ in 0..count {
            take(reader.varint()?);
        }
        Ok(match self.framing {
            Framing::Header => self.body,
            _ => reader.rest(),
        })
    }
}

#[inline]
fn id_of(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    let mut reader = Reader::new(bytes);
    let id = match reader.i8().ok()? {
        MAGIC_ID => SchemaId::Id(reader.i32().ok()?),
        MAGIC_GUID => SchemaId::Guid(*reader.bytes(16).ok()?.first_chunk()?),
        _ => return None,
    };
    Some((id, reader.rest()))
}
