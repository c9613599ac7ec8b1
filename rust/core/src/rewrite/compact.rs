//! Compaction: keeps the records that Kafka's cleaner (`Cleaner`) keeps. It first decides, then rewrites.
//!
//! [`CompactionScan`] reads the log and decides about each record. A verdict is a bit, by the record's number in its
//! segment, so the rewrite needs neither keys nor transactions. [`CompactionRewrite`] copies old segments into new ones
//! according to these bits. A scan covers a range of hashes of keys. With little memory, several scans cover all
//! hashes, and their bits are combined by OR.
//!
//! A record stays if it is the last one with its key, if it is a tombstone whose batch has no delete horizon or a
//! future one, or if it is a marker that is still needed. It is dropped if it has no key or was aborted. Two kinds of
//! batches stay even if all their records are dropped: the last batch of an active producer, which keeps its sequence,
//! and the last batch of the compacted range, so that the range still ends at the same offset.
//!
//! Unlike Kafka's cleaner, this compaction verifies checksums, because a damaged key would drop the wrong records.

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
