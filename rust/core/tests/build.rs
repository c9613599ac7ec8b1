//! Batches built byte for byte as Kafka's own builder built them, and what it refuses.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    BatchBuilder, BatchOptions, Built, Codec, Compression, Error, Header, Headers, HeadersBuffer,
    NewRecord, TimestampType, end_transaction_marker,
};
use support::{Row, hex, row, rows};

const T: i64 = 1_700_000_000_000;

/// The batch, and what the builder says of it.
fn built(options: BatchOptions, rows: &[Row]) -> Result<(Vec<u8>, Built), Error> {
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

#[test]
fn plain_batches_are_kafkas() {
    for (times, expected) in [
        (
            (0, 0),
            "000000000000000000000049ffffffff0260f8304100000000000100000000000000000000000000000000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400",
        ),
        (
            (-1, -1),
            "000000000000000000000049ffffffff025d66079d000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400",
        ),
        (
            (T, T + 5),
            "000000000000000000000049ffffffff02ef692a750000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400",
        ),
    ] {
        assert_eq!(
            bytes(magic(2), &hello_world(times.0, times.1)),
            hex(expected)
        );
    }
    assert_eq!(
        bytes(magic(1), &hello_world(T, T + 5)),
        hex(
            "00000000000000000000001b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f00000000000000010000001b0627d21201000000018bcfe56805ffffffff00000005776f726c64"
        )
    );
    assert_eq!(
        bytes(magic(0), &hello_world(T, T + 5)),
        hex(
            "00000000000000000000001387a77ab20000ffffffff0000000568656c6c6f0000000000000001000000138bc0cd770000ffffffff00000005776f726c64"
        )
    );
}

#[test]
fn producers_and_headers_are_kafkas() {
    let options = BatchOptions {
        base_offset: 100,
        partition_leader_epoch: 5,
        producer_id: 1000,
        producer_epoch: 3,
        base_sequence: 7,
        ..BatchOptions::default()
    };
    let rows = [
        with_headers(
            row(100, T, Some("k"), Some("v")),
            &[("h1", Some("x")), ("h2", None), ("", Some(""))],
        ),
        row(101, T + 1, Some("k"), None),
        row(102, T - 1, None, Some("v3")),
    ];
    assert_eq!(
        bytes(options, &rows),
        hex(
            "00000000000000640000005600000005022ca5c06e0000000000020000018bcfe568000000018bcfe5680100000000000003e80003000000070000000326000000026b02760604683102780468320100000e000202026b0100100001040104763300"
        )
    );
    let options = BatchOptions {
        producer_id: 1000,
        producer_epoch: 3,
        base_sequence: 0,
        is_transactional: true,
        ..BatchOptions::default()
    };
    assert_eq!(
        bytes(options, &[row(0, 5, Some("k"), Some("v"))]),
        hex(
            "00000000000000000000003affffffff0243606c9f0010000000000000000000000005000000000000000500000000000003e80003000000000000000110000000026b027600"
        )
    );
    let options = BatchOptions {
        partition_leader_epoch: 0,
        ..BatchOptions::default()
    };
    assert_eq!(
        bytes(
            options,
            &[
                row(0, T, Some("a"), Some("1")),
                row(1, T + 5, Some("b"), None)
            ]
        ),
        hex(
            "000000000000000000000042000000000239f4a9730000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff000000021000000002610231000e000a0202620100"
        )
    );
}

#[test]
fn markers_are_kafkas() {
    let options = |partition_leader_epoch, producer_id| BatchOptions {
        base_offset: 42,
        partition_leader_epoch,
        producer_id,
        producer_epoch: 3,
        // Of no concern to a marker.
        magic: 1,
        base_sequence: 9,
        ..with(1, Compression::Gzip)
    };
    for (epoch, producer, coordinator, commit, expected) in [
        (
            9,
            1000,
            11,
            true,
            "000000000000002a0000004200000009027eacaeaf0030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000010c00000000000b00",
        ),
        (
            9,
            1000,
            11,
            false,
            "000000000000002a0000004200000009028a9278e70030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000000c00000000000b00",
        ),
        (
            5,
            4001,
            7,
            true,
            "000000000000002a0000004200000005026c5979ba0030000000000000018bcfe568000000018bcfe568000000000000000fa10003ffffffff000000012000000008000000010c00000000000700",
        ),
        (
            5,
            4001,
            7,
            false,
            "000000000000002a0000004200000005029867aff20030000000000000018bcfe568000000018bcfe568000000000000000fa10003ffffffff000000012000000008000000000c00000000000700",
        ),
    ] {
        let marker =
            end_transaction_marker(&options(epoch, producer), commit, coordinator, T).unwrap();
        assert_eq!(marker, hex(expected));
    }
    assert_eq!(
        end_transaction_marker(&options(9, -1), true, 0, T)
            .unwrap_err()
            .message,
        "a transactional batch needs a producer id"
    );
}

#[test]
fn a_delete_horizon_is_what_deltas_count_from() {
    let options = BatchOptions {
        delete_horizon_ms: 100,
        ..BatchOptions::default()
    };
    let rows = [
        row(0, 50, Some("0"), Some("0")),
        row(1, 100, Some("1"), None),
        row(2, 150, Some("2"), Some("2")),
    ];
    assert_eq!(
        bytes(options, &rows),
        hex(
            "00000000000000000000004bffffffff02b5ef82a000400000000200000000000000640000000000000096ffffffffffffffffffffffffffff000000031000630002300230000e00000202310100100064040232023200"
        )
    );
    let options = BatchOptions {
        base_offset: 10,
        partition_leader_epoch: 0,
        delete_horizon_ms: 1_700_086_400_000,
        ..BatchOptions::default()
    };
    assert_eq!(
        bytes(options, &[row(10, 1_699_990_000_000, Some("k"), None)]),
        hex(
            "000000000000000a0000003c0000000002838cc0e40040000000000000018bd50bc4000000018bcf4cd180ffffffffffffffffffffffffffff000000011400ffc9f75b00026b0100"
        )
    );
}

#[test]
fn log_append_time_replaces_the_records_timestamps() {
    let options = |magic, compression| BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time: 777,
        base_offset: 10,
        ..with(magic, compression)
    };
    let (message, _) = built(
        options(1, Compression::None),
        &[row(10, 5, Some("a"), Some("b"))],
    )
    .unwrap();
    assert_eq!(
        message,
        hex("000000000000000a00000018b0b8b7450108000000000000030900000001610000000162")
    );
    let two = [
        row(10, 5, Some("a"), Some("b")),
        row(11, 6, Some("c"), Some("d")),
    ];
    let kafkas = hex(
        "000000000000000b0000004d0c058e6401090000000000000309ffffffff000000371f8b08000000000000ff63608003890d3bb6bb32724038cc9c40823111442441e519416a44843757a3aa49061129006f4c911848000000",
    );
    let ours = bytes(options(1, Compression::Gzip), &two);
    assert_eq!(inflated(&ours), inflated(&kafkas));
    assert_eq!(rows(&ours), rows(&kafkas));
    // Magic 2 keeps the deltas as they are.
    let options = BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time: 1_800_000_000_000,
        ..magic(2)
    };
    assert_eq!(
        bytes(options, &hello_world(T, T + 5)),
        hex(
            "000000000000000000000049ffffffff0210c43bcd0008000000010000018bcfe56800000001a3185c5000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400"
        )
    );
}

/// What a magic 1 gzip wrapper holds.
fn inflated(wrapper: &[u8]) -> Vec<u8> {
    let mut room = vec![0; 1 << 16];
    let n = libdeflater::Decompressor::new()
        .gzip_decompress(&wrapper[34..], &mut room)
        .unwrap();
    room.truncate(n);
    room
}

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
            "magic 1 knows no transactions",
        ),
        (
            BatchOptions {
                is_control: true,
                ..magic(0)
            },
            "magic 0 knows no control records",
        ),
        (with(1, Compression::Zstd), "magic 1 knows no zstd"),
        (
            BatchOptions {
                delete_horizon_ms: 0,
                ..magic(1)
            },
            "magic 1 knows no delete horizon",
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
            "base sequence -1 of producer id 1; it must not be negative",
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
            "offset 1 after offset 1; offsets must rise",
        ),
        (
            options,
            vec![row(0, -2, None, None)],
            "timestamp -2; -1 is the least, for none",
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

#[test]
fn without_records_there_is_no_batch() {
    for options in [magic(0), magic(1), magic(2), with(1, Compression::Gzip)] {
        let (bytes, built) = built(options, &[]).unwrap();
        assert_eq!(bytes, b"");
        assert_eq!((built.size, built.last_offset), (0, -1));
    }
}

#[test]
fn what_is_reported_of_timestamps_is_what_kafka_reports() {
    let rows = [
        row(10, 5, None, None),
        row(11, 9, None, None),
        row(12, 9, None, None),
        row(13, 7, None, None),
    ];
    let report = |options: BatchOptions| {
        let options = BatchOptions {
            base_offset: 10,
            ..options
        };
        let (_, built) = built(options, &rows).unwrap();
        assert_eq!(built.last_offset, 13);
        (built.max_timestamp, built.shallow_offset_of_max_timestamp)
    };
    let append_time = |options: BatchOptions| BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time: 777,
        ..options
    };
    assert_eq!(report(magic(2)), (9, 13));
    assert_eq!(report(with(2, Compression::Gzip)), (9, 13));
    assert_eq!(report(with(1, Compression::Gzip)), (9, 13));
    assert_eq!(report(magic(1)), (9, 11));
    assert_eq!(report(magic(0)), (-1, -1));
    assert_eq!(report(with(0, Compression::Gzip)), (-1, -1));
    assert_eq!(report(append_time(magic(2))), (777, 13));
    assert_eq!(report(append_time(with(1, Compression::Gzip))), (777, 13));
    assert_eq!(report(append_time(magic(1))), (777, 10));
    assert_eq!(report(append_time(magic(0))), (777, 10));
}

#[test]
fn an_overridden_last_offset_stays() {
    let mut builder = BatchBuilder::new();
    builder.begin(BatchOptions::default()).unwrap();
    builder
        .append(&NewRecord {
            offset: 0,
            timestamp: 0,
            key: None,
            value: None,
            headers: Headers::NONE,
        })
        .unwrap();
    builder.override_last_offset(9).unwrap();
    builder.override_last_offset(1 << 31).unwrap_err();
    let mut out = Vec::new();
    assert_eq!(builder.finish(&mut out).unwrap().last_offset, 9);
    assert_eq!(
        Header::parse(&out, 0).unwrap().unwrap().last_offset_delta,
        9
    );
}

/// Each length at which a varint, or the way bytes are copied, changes; keys and values of other lengths beside it.
#[test]
fn what_is_built_is_read() {
    let text: String = (0..40_000u32)
        .map(|i| char::from(b'a' + (i * 7 % 26) as u8))
        .collect();
    let lengths = [
        0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257, 8191, 8192,
        40_000,
    ];
    let rows_with = |has_headers: bool| -> Vec<Row> {
        let rows = lengths.iter().enumerate().map(|(i, &n)| {
            let other = lengths[lengths.len() - 1 - i];
            let key = (i % 3 > 0).then(|| &text[..other]);
            let value = (i % 5 > 0).then(|| &text[1..][..n.min(39_000)]);
            let made = row(7 + 3 * i as i64, T + 1000 - (i * i) as i64, key, value);
            if has_headers && i % 2 > 0 {
                with_headers(made, &[("h", value), ("h", None), (&text[..i], Some(""))])
            } else {
                made
            }
        });
        rows.collect()
    };
    for (magic, codecs) in [(0, 4), (1, 4), (2, 5)] {
        for id in 0..codecs {
            let options = BatchOptions {
                base_offset: 7,
                ..with(magic, Compression::from_id(id).unwrap())
            };
            let mut expected = rows_with(magic == 2);
            let bytes = bytes(options, &expected);
            if magic == 0 {
                expected.iter_mut().for_each(|row| row.timestamp = -1);
            }
            assert_eq!(rows(&bytes), expected, "magic {magic}, codec {id}");
        }
    }
}

#[test]
fn batches_follow_one_another_in_the_same_memory() {
    let mut builder = BatchBuilder::new();
    let mut out = Vec::new();
    let mut expected = Vec::new();
    for round in 0..20 {
        let codec = Compression::from_id(round % 5).unwrap();
        let options = with(if codec == Compression::Zstd { 2 } else { 1 }, codec);
        let rows = hello_world(i64::from(round), T);
        builder.begin(options).unwrap();
        // Forgotten, as nobody finished it.
        append_all(&mut builder, &rows[..1]);
        builder.begin(options).unwrap();
        append_all(&mut builder, &rows);
        builder.finish(&mut out).unwrap();
        expected.extend(bytes(options, &rows));
    }
    assert_eq!(out, expected);
}

fn append_all(builder: &mut BatchBuilder, rows: &[Row]) {
    for row in rows {
        builder
            .append(&NewRecord {
                offset: row.offset,
                timestamp: row.timestamp,
                key: row.key.as_deref(),
                value: row.value.as_deref(),
                headers: Headers::NONE,
            })
            .unwrap();
    }
}
