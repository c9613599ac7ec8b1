//! The base of all other modules: the directory that is served, options, memory, counters.

pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod read_log;
pub(crate) mod sync;
