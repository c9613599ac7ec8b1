//! The files of a partition: batches, indexes and snapshots, at the byte level.

pub(crate) mod crc32c;
pub(crate) mod empty_batch;
pub(crate) mod file_names;
pub(crate) mod find_batch;
pub(crate) mod headers_alone;
pub(crate) mod index;
pub(crate) mod producer_snapshot;
pub(crate) mod schema_ids;
pub(crate) mod transaction_index;
