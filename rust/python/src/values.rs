//! Keys and values, decoded into columns.

pub(crate) mod arrow_column;
pub(crate) mod decode_plain;
pub(crate) mod json_text;
pub(crate) mod schema_decoder;
