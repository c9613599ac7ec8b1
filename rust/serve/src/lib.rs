//! A server of Kafka's protocol for a directory: clients read it as they would read a broker.
//!
//! Nothing here writes to the directory. What it knows comes from a [`Directory`]; the server knows the protocol.
//!
//! - `server`, `connection`: limits, and one request after the other on each connection.
//! - `socket`, `sasl`: encryption, and who a client is. `memory`: what all requests and replies may take.
//! - `answerer`: a connection without a socket.
//! - `read_log`, `counters`: who read what, and how much.
//! - `wire`: frames, headers, and the versions that are spoken.
//! - `newest`: versions that the crate of the protocol lacks.
//! - `metadata`, `offsets`, `fetch`, `refused`: the answers, by request.
//! - `settings`: what topics have, with Kafka's defaults.
//! - `groups`: consumer groups: members, assignments and commits.
//! - `session`: what incremental fetches have been told already (KIP-227).
//! - `partitions`: what was read of partitions, as long as the files in `watched` do not change.
//! - `segment`, `segment_file`: a position in a file for an offset. `records`: what is sent of a segment.
//! - `send_file`: from a file to a socket.

mod answerer;
mod connection;
mod counters;
mod directory;
mod fetch;
mod groups;
mod memory;
mod metadata;
mod newest;
mod offsets;
mod partitions;
mod read_log;
mod records;
mod refused;
mod sasl;
mod segment;
mod segment_file;
mod send_file;
mod server;
mod session;
mod settings;
mod socket;
mod watched;
mod wire;

pub use answerer::Answerer;
pub use bytes::Bytes;
pub use counters::Count;
pub use directory::{
    Aborted, Commit, Directory, KnownGroup, Looked, Partition, Refusal, TimedOffset, Topic, Topics,
};
pub use kafka_protocol::ResponseError;
pub use records::Shown;
pub use server::{Limits, Options, Server, Tls};
pub use uuid::Uuid;
pub use watched::Watched;
