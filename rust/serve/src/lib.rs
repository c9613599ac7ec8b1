//! A server of Kafka's protocol for a directory: clients read it as they would read a broker.
//!
//! Nothing here writes to the directory. What it knows comes from a [`Directory`]; the server knows the protocol.
//!
//! - `server`, `connection`: sockets, limits, and one request after the other on each connection.
//! - `wire`: frames, headers, and the versions that are spoken.
//! - `metadata`, `offsets`, `fetch`, `refused`: the answers, by request.
//! - `settings`: what topics have, with Kafka's defaults.
//! - `groups`: consumer groups: members, assignments and commits.
//! - `session`: what incremental fetches have been told already (KIP-227).
//! - `segment`: a position in a file for an offset. `send_file`: from a file to a socket.

mod connection;
mod directory;
mod fetch;
mod groups;
mod metadata;
mod offsets;
mod partitions;
mod refused;
mod segment;
mod send_file;
mod server;
mod session;
mod settings;
mod wire;

pub use directory::{
    Aborted, Commit, Directory, KnownGroup, Partition, Refusal, TimedOffset, Topic, Topics,
};
pub use kafka_protocol::ResponseError;
pub use server::{Limits, Server};
pub use uuid::Uuid;
