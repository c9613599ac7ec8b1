//! The fuzz targets: functions that take hostile bytes and assert the properties that must hold for all bytes.
//!
//! Every target gives a value or an error. It never panics, and it never takes more memory than [`MAX_MEMORY`] for inputs of
//! up to [`MAX_INPUT`] bytes. The comment of each target names its further properties. `cargo fuzz` and the test
//! `rust/jvm/tests/fuzz` run these functions. The test also measures the memory.

// Each of their users needs only some items.
#![allow(dead_code)]

mod append;
mod codecs;
mod decode;
mod dump;
mod indexes;
mod rewrite;
mod serve;
mod spark;
mod state;
mod survey;
mod values;
mod walk;

/// Longer inputs are cut to this length.
pub(crate) const MAX_INPUT: usize = 64 << 10;

/// The cap on one decompressed batch while fuzzing.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// The peak memory of one input. Rows take the most memory: a record of seven bytes takes about forty bytes in columns,
/// and twice that while columns grow; and a target keeps the results of two paths.
pub(crate) const MAX_MEMORY: usize = 64 << 20;

/// A target, and the directory of its seeds in `rust/fuzz/seeds`.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: &'static str,
    pub(crate) run: fn(&[u8]),
}

const fn target(name: &'static str, seeds: &'static str, run: fn(&[u8])) -> Target {
    Target { name, seeds, run }
}

pub(crate) const TARGETS: [Target; 29] = [
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
    target("survey", "log", survey::survey),
    target("split", "log", survey::split),
    target("state", "state", state::state),
    target("task", "task", spark::task),
    target("write_task", "write_task", spark::write_task),
    target("rows", "rows", spark::rows),
    target("requests", "requests", serve::requests),
    target("avro", "avro", values::avro),
    target("protobuf", "protobuf", values::protobuf),
    target("json_schema", "json_schema", values::json_schema),
];

/// Runs the target of a name.
pub(crate) fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    (target.run)(data);
}
