//! The base of all other modules: errors, integers and varints, text.

pub(crate) mod bits;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod parallel;
pub(crate) mod primitives;
pub(crate) mod scratch;
pub(crate) mod timestamp_type;
pub(crate) mod units;
pub(crate) mod utf8;
