//! Writing: rows to batches.

pub(crate) mod batch_builder;
pub(crate) mod batch_options;
pub(crate) mod encode;
pub(crate) mod end_transaction_marker;
pub(crate) mod fast_encode;
pub(crate) mod kraft;
pub(crate) mod partitioner;
pub(crate) mod transcode;
