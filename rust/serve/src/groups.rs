//! Consumer groups: their members and their committed offsets.
//!
//! Members follow the classic protocol (`group`): they join, one of them assigns partitions, and all of them send
//! heartbeats (`GroupMetadataManager` and `ClassicGroup` of Kafka). Or the newer one (`consumer_group`, KIP-848).

mod assignors;
pub(crate) mod commits;
mod consumer_group;
mod consumer_requests;
pub(crate) mod coordinator;
mod group;
mod journal;
mod members;
