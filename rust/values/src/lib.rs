//! Keys and values decoded and encoded with the schemas of a registry.
//!
//! A schema is parsed once, with the schemas that it refers to, and decodes any number of bodies. A body is hostile: its
//! lengths are checked, its nesting and its output are limited, and a body that does not fit its schema is an error
//! without any of its content.

mod avro;
mod column;
mod column_type;
mod decoded;
mod decoder;
mod encode;
mod from_text;
mod json;
mod json_schema;
mod limits;
pub mod plain;
mod plan;
mod protobuf;
mod schema;
pub mod text;
mod varint;

pub use avro::AvroSchema;
pub use column::{Bits, Column, Ends, Values};
pub use column_type::Type;
pub use decoded::{DecodedRows, SchemaName};
pub use decoder::{Resolved, SchemaDecoder, SchemaText};
pub use json::json_document;
pub use json_schema::JsonSchema;
pub use limits::{Error, Result};
pub use plan::{Appended, Plan};
pub use protobuf::ProtobufSchema;
pub use schema::Schema;
pub use text::{Unit, uuid as uuid_text};
