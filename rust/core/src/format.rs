//! Kafka's formats: batches, records, messages, control records, indexes, snapshots and codecs.

pub(crate) mod batch;
pub(crate) mod compression;
pub(crate) mod control;
pub(crate) mod find_batch;
pub(crate) mod index;
pub(crate) mod message;
pub(crate) mod record;
pub(crate) mod schema_id;
pub(crate) mod snapshot;
pub(crate) mod walk;
