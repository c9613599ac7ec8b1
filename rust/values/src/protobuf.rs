//! Protobuf: the text or the descriptor of a schema (proto2, proto3 and editions), and its binary encoding.

mod body;
mod columns;
mod descriptor;
mod encode;
mod known;
mod parse;
mod plan;
mod resolve;
mod root;
mod schema;
mod wire;

pub(crate) use plan::ProtobufPlan;
pub use schema::ProtobufSchema;
