//! Records of the topics that Kafka keeps its own state in.

pub(crate) mod kraft_snapshot;
pub(crate) mod latest_records;
pub(crate) mod state_records;
