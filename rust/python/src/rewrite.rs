//! Rewriting segments: compaction, conversion, erasure, and the estimate of their gain.

pub(crate) mod compaction_rewrite;
pub(crate) mod compaction_scan;
pub(crate) mod erasure;
pub(crate) mod segment_conversion;
pub(crate) mod segment_output;
pub(crate) mod space_estimate;
