//! A server of Kafka's protocol for a directory: clients read the directory like a broker.
//!
//! Nothing here writes to the directory. A [`Directory`] supplies its contents; this crate implements the protocol.
//!
//! These are the groups of modules, the lowest first. A group imports only from groups above it in this list
//! (`tools/rust_modules`):
//!
//! - `base`: the interface to a directory, options, memory, counters, the log of reads.
//! - `protocol`: frames, headers and parts of replies (`wire`), versions that the `kafka-protocol` crate lacks,
//!   passwords.
//! - `log`: cached partitions, the position in a file for an offset, the records of a range.
//! - `groups`: consumer groups: members, assignments and commits.
//! - `answers`: the table of requests (`apis`), and the answer to each. An answer that has to wait, or to read files, is
//!   a `Step`. This group never waits, and knows no socket.
//! - `net`: sockets, encryption, and the threads that take the steps.

mod answers;
mod base;
mod groups;
mod log;
mod net;
mod protocol;

pub use base::counters::Count;
pub use base::directory::{
    Aborted, Commit, Damage, Directory, FileStamp, KnownGroup, Partition, PartitionLookup, Refusal,
    TimedOffset, Topic, Topics,
};
pub use base::options::{Limits, Options, RecordView, Tls};
pub use bytes::Bytes;
pub use kafka_protocol::ResponseError;
#[cfg(feature = "loopback")]
pub use net::loopback::Loopback;
pub use net::server::Server;
pub use uuid::Uuid;
