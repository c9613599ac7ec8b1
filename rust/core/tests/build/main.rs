//! Batches equal those of Kafka's own builder byte for byte, and everything that Kafka's builder refuses is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod batches;
mod kafka_bytes;
mod refusals;
#[path = "../support/mod.rs"]
mod support;

use brokerless_core::{
    BatchBuilder, BatchOptions, BuiltBatch, Codec, Compression, Error, HeadersBuffer, NewRecord,
};
use support::{Row, row};

const T: i64 = 1_700_000_000_000;

/// Returns the batch and the builder's description of it.
fn built(options: BatchOptions, rows: &[Row]) -> Result<(Vec<u8>, BuiltBatch), Error> {
    let mut builder = BatchBuilder::new();
    builder.begin(options)?;
    let mut headers = HeadersBuffer::default();
    for row in rows {
        headers.clear();
        for (key, value) in &row.headers {
            headers.push(key.as_bytes(), value.as_deref())?;
        }
        let before = builder.size_in_bytes();
        let record = NewRecord {
            offset: row.offset,
            timestamp: row.timestamp,
            key: row.key.as_deref(),
            value: row.value.as_deref(),
            headers: headers.headers(),
        };
        assert!(builder.has_room_for(&record, usize::MAX));
        builder.append(&record)?;
        assert!(builder.size_in_bytes() > before);
    }
    let estimate = builder.size_in_bytes();
    let mut out = b"before".to_vec();
    let built = builder.finish(&mut out)?;
    if options.codec == Codec::NONE && !rows.is_empty() {
        assert_eq!(built.size, estimate, "an uncompressed estimate is exact");
    }
    assert_eq!(built.size, out.len() - 6);
    Ok((out.split_off(6), built))
}

fn bytes(options: BatchOptions, rows: &[Row]) -> Vec<u8> {
    built(options, rows).unwrap().0
}

fn refusal(options: BatchOptions, rows: &[Row]) -> String {
    built(options, rows).unwrap_err().message
}

fn hello_world(first: i64, second: i64) -> Vec<Row> {
    vec![
        row(0, first, None, Some("hello")),
        row(1, second, None, Some("world")),
    ]
}

fn magic(magic: i8) -> BatchOptions {
    BatchOptions {
        magic,
        ..BatchOptions::default()
    }
}

fn with(magic: i8, compression: Compression) -> BatchOptions {
    BatchOptions {
        magic,
        codec: Codec::new(compression, None).unwrap(),
        ..BatchOptions::default()
    }
}

fn with_headers(mut row: Row, headers: &[(&str, Option<&str>)]) -> Row {
    row.headers = headers
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.map(|v| v.as_bytes().to_vec())))
        .collect();
    row
}
