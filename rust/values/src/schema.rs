//! A schema of a registry, of any type.

use brokerless_core::Framed;

use crate::avro::AvroSchema;
use crate::column_type::Type;
use crate::json::json_document;
use crate::json_schema::JsonSchema;
use crate::limits::{Error, Result};
use crate::protobuf::ProtobufSchema;

/// A schema that decodes and encodes keys or values.
#[derive(Debug)]
pub enum Schema {
    /// Avro.
    Avro(AvroSchema),
    /// Protobuf.
    Protobuf(ProtobufSchema),
    /// JSON Schema: the body is JSON text. All of its members are kept, known to the schema or not.
    Json(JsonSchema),
}

impl Schema {
    /// Parses a schema.
    ///
    /// `references` are the names and texts of the schemas that it refers to, each after those that it refers to itself.
    pub fn parse(schema_type: &str, text: &str, references: &[(String, String)]) -> Result<Self> {
        match schema_type {
            "AVRO" => {
                let references = references.iter().map(|(_, text)| text.as_str());
                AvroSchema::parse(text, references).map(Self::Avro)
            }
            "PROTOBUF" => ProtobufSchema::parse(text, references).map(Self::Protobuf),
            "JSON" => Ok(Self::Json(JsonSchema::parse(text, references))),
            other => Err(Error::new(format!(
                "schemas of type {other:?} are not supported"
            ))),
        }
    }

    /// The type of a column with the values of this schema.
    pub fn column_type(&self) -> Result<Type> {
        match self {
            Self::Avro(schema) => schema.column_type(),
            Self::Protobuf(schema) => schema.column_type(),
            Self::Json(schema) => schema.column_type(),
        }
    }

    /// The name that registries have for the type of the schema.
    pub fn schema_type(&self) -> &'static str {
        match self {
            Self::Avro(_) => "AVRO",
            Self::Protobuf(_) => "PROTOBUF",
            Self::Json(_) => "JSON",
        }
    }

    /// The number of types in the schema, which its memory grows with.
    pub fn types(&self) -> usize {
        match self {
            Self::Avro(schema) => schema.types(),
            Self::Protobuf(schema) => schema.types(),
            Self::Json(schema) => schema.types(),
        }
    }

    /// Appends the body of a key or value as JSON text, and returns the number of bytes that follow the body. After an
    /// error, `out` is as before.
    pub fn write_json(&self, framed: &Framed<'_>, out: &mut Vec<u8>) -> Result<usize> {
        match self {
            Self::Avro(schema) => schema.write_json(framed.body, out),
            Self::Protobuf(schema) => schema.write_json(framed, out),
            Self::Json(_) => json_document(framed.body, out).map(|()| 0),
        }
    }

    /// Returns a schema whose values are the Protobuf message with a full name, and not the first one.
    pub fn with_message(self, name: &str) -> Result<Self> {
        match self {
            Self::Protobuf(schema) => schema.with_message(name).map(Self::Protobuf),
            other => Err(Error::new(format!(
                "the message {name} is of Protobuf, and the schema has the type {}",
                other.schema_type()
            ))),
        }
    }

    /// The bytes between the id of the schema and an encoded body: the indexes of a Protobuf message.
    pub fn message_indexes(&self) -> Vec<u8> {
        match self {
            Self::Protobuf(schema) => schema.message_indexes(),
            Self::Avro(_) | Self::Json(_) => Vec::new(),
        }
    }

    /// Appends the body of a value whose JSON text is given in the form of [`Self::write_json`]. An error names the
    /// place of a value that does not fit, from `root` on. After an error, `out` is as before.
    pub fn encode(&self, json: &[u8], root: &str, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Avro(schema) => schema.encode(json, root, out),
            Self::Protobuf(schema) => schema.encode(json, root, out),
            Self::Json(_) => json_document(json, out),
        }
    }
}
