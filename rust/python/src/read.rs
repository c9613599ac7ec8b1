//! Reading a log: rows, batch headers, searches, checks and dumps.

pub(crate) mod decoder;
pub(crate) mod defect;
pub(crate) mod dump;
pub(crate) mod end_offsets;
pub(crate) mod equal_batches;
pub(crate) mod find_timestamp;
pub(crate) mod hand_over;
pub(crate) mod header_walk;
pub(crate) mod json_lines;
pub(crate) mod key_sketch;
pub(crate) mod profile;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod segment_check;
pub(crate) mod soundness;
pub(crate) mod split_reader;
pub(crate) mod survey;
pub(crate) mod typed_json;
