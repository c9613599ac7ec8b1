//! Consumer groups: their members and their committed offsets.
//!
//! Members use the classic protocol (`group`) or the newer one (`consumer_group`, KIP-848). In the classic protocol,
//! members join, one of them assigns partitions, and all of them send heartbeats (`GroupMetadataManager` and
//! `ClassicGroup` of Kafka).

mod assignors;
pub(crate) mod commits;
mod consumer_group;
mod consumer_requests;
pub(crate) mod coordinator;
mod group;
mod journal;
mod members;
