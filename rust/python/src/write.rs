//! Writing batches: rows of many Arrow types, their partitions, and their encoding.

pub(crate) mod encoder;
pub(crate) mod end_transaction_marker;
pub(crate) mod json_rows;
pub(crate) mod partitioner;
pub(crate) mod record_rows;
