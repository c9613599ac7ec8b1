//! Compaction: what Kafka's cleaner keeps of a log (`Cleaner`), decided first and carried out afterwards.
//!
//! [`CompactionScan`] reads the log and says of each record, by its number in its segment, whether it stays: a bit, so
//! that who carries it out needs neither keys nor transactions. [`CompactionRewrite`] makes new segments of old ones and
//! their bits. A scan covers a range of hashes of keys; with little memory several scans cover all, and their bits are
//! put together by OR.
//!
//! A record stays if it is the last with its key, a tombstone whose batch has no delete horizon yet or one to come, a
//! marker that is still needed. It goes if it has no key, or was aborted. Two kinds of batches stay although all of their
//! records go: the last of an active producer, whose sequence they keep, and the last of the range, whose end they keep.
//!
//! Stricter than Kafka's cleaner, which looks at no checksum: of a damaged key it would let the wrong records go.

mod key_map;
mod keys;
mod packed_record;
mod rewrite;
mod scan;
mod transactions;

pub use key_map::HashRange;
pub use keys::RecordCounts;
pub use rewrite::{CompactionRewrite, LastRecord, RewriteOptions};
pub use scan::{CompactionScan, NewestRecords, Phase, ScanOptions, SegmentVerdicts};
