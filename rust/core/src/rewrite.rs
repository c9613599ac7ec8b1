//! Rewriting old segments: compaction, conversion, erasure.

pub(crate) mod compact;
pub(crate) mod convert;
pub(crate) mod erase;
pub(crate) mod estimate;
pub(crate) mod filter;
pub(crate) mod rewriter;
pub(crate) mod segment_output;
