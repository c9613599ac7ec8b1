//! Everything that Kafka's builder refuses is refused and leaves no trace.

use brokerless_core::{BatchBuilder, BatchOptions, Compression, Headers, NewRecord, TimestampType};

use crate::support::row;
use crate::{bytes, hello_world, magic, refusal, with, with_headers};

#[test]
fn what_kafkas_builder_refuses_is_refused() {
    let one = [row(0, 0, None, None)];
    let options = BatchOptions::default();
    for (options, reason) in [
        (magic(3), "magic 3 is not 0, 1 or 2"),
        (magic(-1), "magic -1 is not 0, 1 or 2"),
        (
            BatchOptions {
                timestamp_type: TimestampType::NoTimestampType,
                ..magic(1)
            },
            "magic 1 needs a timestamp type",
        ),
        (
            BatchOptions {
                is_transactional: true,
                ..magic(1)
            },
            "magic 1 does not support transactions",
        ),
        (
            BatchOptions {
                is_control: true,
                ..magic(0)
            },
            "magic 0 does not support control records",
        ),
        (with(1, Compression::Zstd), "magic 1 does not support zstd"),
        (
            BatchOptions {
                delete_horizon_ms: 0,
                ..magic(1)
            },
            "magic 1 does not support a delete horizon",
        ),
        (
            BatchOptions {
                is_transactional: true,
                ..options
            },
            "a transactional batch needs a producer id",
        ),
        (
            BatchOptions {
                producer_id: 1,
                base_sequence: 0,
                ..options
            },
            "producer id 1 needs a producer epoch",
        ),
        (
            BatchOptions {
                producer_id: 1,
                producer_epoch: 0,
                ..options
            },
            "producer id 1 has base sequence -1, which must not be negative",
        ),
        (
            BatchOptions {
                producer_id: 1,
                producer_epoch: 0,
                base_sequence: 0,
                ..magic(1)
            },
            "producer id 1 in magic 1; only magic 2 has producers",
        ),
    ] {
        assert_eq!(refusal(options, &one), reason);
    }
    for (options, rows, reason) in [
        (
            options,
            vec![row(1, 0, None, None), row(1, 0, None, None)],
            "offset 1 after offset 1; offsets must increase",
        ),
        (
            options,
            vec![row(0, -2, None, None)],
            "timestamp -2 is below -1, which stands for none",
        ),
        (
            magic(1),
            vec![with_headers(row(0, 0, None, None), &[("h", None)])],
            "1 headers in magic 1; only magic 2 has headers",
        ),
        (
            options,
            vec![row(1 << 31, 0, None, None)],
            "offset 2147483648 is too far from base offset 0; a delta is 32 bits",
        ),
        (
            BatchOptions {
                base_offset: i64::MIN,
                ..options
            },
            vec![row(i64::MAX, 0, None, None)],
            "offset 9223372036854775807 is too far from base offset -9223372036854775808; a delta is 32 bits",
        ),
    ] {
        assert_eq!(refusal(options, &rows), reason);
    }
}

#[test]
fn a_refused_append_leaves_the_batch_as_it_was() {
    let mut builder = BatchBuilder::new();
    builder.begin(BatchOptions::default()).unwrap();
    let good = NewRecord {
        offset: 0,
        timestamp: 0,
        key: None,
        value: Some(b"hello"),
        headers: Headers::NONE,
    };
    builder.append(&good).unwrap();
    for bad in [
        NewRecord { offset: 0, ..good },
        NewRecord {
            offset: 1,
            timestamp: -2,
            ..good
        },
        NewRecord {
            offset: 1 << 31,
            timestamp: 9,
            ..good
        },
    ] {
        builder.append(&bad).unwrap_err();
    }
    builder
        .append(&NewRecord {
            offset: 1,
            value: Some(b"world"),
            ..good
        })
        .unwrap();
    assert_eq!(builder.count(), 2);
    let mut out = Vec::new();
    builder.finish(&mut out).unwrap();
    assert_eq!(out, bytes(magic(2), &hello_world(0, 0)));
}
