//! What hostile bytes are thrown at, and what must hold whatever they are.
//!
//! Of every target: a value or an error, never a panic, and never more memory than [`MAX_MEMORY`] for inputs up to
//! [`MAX_INPUT`]. What more holds stands above each. `cargo fuzz` runs these functions, and so does the test
//! `rust/core/tests/fuzz`, which watches the memory.

// Each user takes a part.
#![allow(dead_code)]

mod append;
mod codecs;
mod decode;
mod dump;
mod indexes;
mod rewrite;
mod walk;

/// Inputs are cut to this.
pub(crate) const MAX_INPUT: usize = 64 << 10;

/// The cap on one decompressed batch while fuzzing.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// What one input may take at its peak. Rows are the largest: a record of seven bytes becomes some forty in columns,
/// twice while they grow, and a target keeps what two ways made of it.
pub(crate) const MAX_MEMORY: usize = 64 << 20;

/// A target, and the seeds it starts from: a directory of `rust/fuzz/seeds`.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: &'static str,
    pub(crate) run: fn(&[u8]),
}

const fn target(name: &'static str, seeds: &'static str, run: fn(&[u8])) -> Target {
    Target { name, seeds, run }
}

pub(crate) const TARGETS: [Target; 19] = [
    target("walk", "log", walk::walk),
    target("decode", "log", decode::decode),
    target("records", "records", decode::records),
    target("legacy_set", "messages", decode::legacy_set),
    target("gzip", "gzip", codecs::gzip),
    target("snappy", "snappy", codecs::snappy),
    target("lz4", "lz4", codecs::lz4),
    target("zstd", "zstd", codecs::zstd),
    target("offset_index", "index", indexes::offset_index),
    target("time_index", "timeindex", indexes::time_index),
    target("transaction_index", "txnindex", indexes::transaction_index),
    target("snapshot", "snapshot", indexes::snapshot),
    target("dump", "log", dump::dump),
    target("control", "control", dump::control),
    target("append", "log", append::append),
    target("recovery", "log", append::recovery),
    target("convert", "log", rewrite::convert),
    target("erase", "log", rewrite::erase),
    target("compact", "log", rewrite::compact),
];

/// One target, by its name.
pub(crate) fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    (target.run)(data);
}
