//! The logs that are read: partitions, their segments, and the records of a range.

pub(crate) mod check;
pub(crate) mod checked;
pub(crate) mod file_stamps;
pub(crate) mod partitions;
pub(crate) mod records;
pub(crate) mod segment;
pub(crate) mod segment_file;
