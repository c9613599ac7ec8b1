//! The fast path and the checked path encode rows to the same bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod columns;
mod plain;
mod sequences;
#[path = "../support/mod.rs"]
mod support;

use brokerless_core::{BatchLimits, BatchOptions, BatchWriter, Codec, Compression};

const T: i64 = 1_700_000_000_000;

fn writer(codec: Compression, batch_size: usize, max_records: i32) -> BatchWriter {
    let options = BatchOptions {
        codec: Codec::new(codec, None).unwrap(),
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let cut = BatchLimits {
        batch_size,
        max_records,
    };
    BatchWriter::new(options, cut).unwrap()
}
