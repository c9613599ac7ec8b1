//! Records of Kafka's internal topics.

pub(crate) mod kraft_snapshot;
pub(crate) mod latest_records;
pub(crate) mod state_records;
