//! JSON Schema (drafts 4 to 2020-12): the types that a schema gives to JSON text.
//!
//! No body loses anything in a column. So only what a schema limits to one type has that type, and all else stays JSON
//! text. A schema is not a check here: ranges, formats and required members are ignored.

mod columns;
mod document;
mod input;
mod number;
mod plan;
mod schema;

pub(crate) use plan::JsonPlan;
pub use schema::JsonSchema;
