//! Avro (specification 1.12): a schema, its binary encoding, and the resolution of one schema to another.

mod body;
mod columns;
mod encode;
mod input;
mod plan;
mod schema;
mod types;

pub(crate) use plan::AvroPlan;
pub use schema::AvroSchema;
