//! Keys and values, decoded into columns, and encoded.

pub(crate) mod arrow_column;
pub(crate) mod decode_plain;
pub(crate) mod decoded_batch;
pub(crate) mod json_text;
pub(crate) mod schema_decoder;
pub(crate) mod value_encoder;
