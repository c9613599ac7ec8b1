//! Protobuf: the text of a schema (proto2, proto3 and editions), and its binary encoding.

mod body;
mod known;
mod parse;
mod resolve;
mod schema;
mod wire;

pub use schema::ProtobufSchema;
