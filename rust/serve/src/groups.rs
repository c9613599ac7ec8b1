//! Consumer groups: who is in them, and what they have committed.
//!
//! Members follow the classic protocol: they join, one of them assigns partitions, and all of them send heartbeats
//! (`GroupMetadataManager` and `ClassicGroup` of Kafka).

pub(crate) mod commits;
pub(crate) mod coordinator;
mod group;
