//! Reading: from bytes to columns, to text, and to the facts in batch headers.

pub(crate) mod batch_scan;
pub(crate) mod columns;
pub(crate) mod decoder;
pub(crate) mod defect;
pub(crate) mod dump;
pub(crate) mod end_offsets;
pub(crate) mod equal_batches;
pub(crate) mod fast_decode;
pub(crate) mod fetch;
pub(crate) mod file;
pub(crate) mod profile;
pub(crate) mod row_column;
pub(crate) mod search;
pub(crate) mod segment_check;
pub(crate) mod segment_timestamp_search;
pub(crate) mod soundness;
pub(crate) mod split_reader;
pub(crate) mod survey;
pub(crate) mod survey_reader;
pub(crate) mod transactions;
