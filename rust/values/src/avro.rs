//! Avro (specification 1.12): a schema, and its binary encoding.

mod body;
mod schema;

pub use schema::AvroSchema;
