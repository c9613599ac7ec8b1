//! Keys and values decoded with the schemas of a registry.
//!
//! A schema is parsed once, with the schemas that it refers to, and decodes any number of bodies. A body is hostile: its
//! lengths are checked, its nesting and its output are limited, and a body that does not fit its schema is an error
//! without any of its content.

mod avro;
mod json;
mod limits;
pub mod plain;
mod protobuf;
mod schema;
mod text;

pub use avro::AvroSchema;
pub use json::json_document;
pub use limits::{Error, Result};
pub use protobuf::ProtobufSchema;
pub use schema::Schema;
pub use text::uuid as uuid_text;
