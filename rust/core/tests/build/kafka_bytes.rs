//! The bytes equal those that Kafka's builder wrote for the same records.

use brokerless_core::{
    BatchOptions, Compression, EndOfTransaction, TimestampType, end_of_transaction,
    end_transaction_marker,
};

use crate::support::{hex, row, rows};
use crate::{T, built, bytes, hello_world, magic, with, with_headers};

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
        // Ignored for a marker.
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
        let end = EndOfTransaction {
            is_commit: commit,
            coordinator_epoch: coordinator,
        };
        assert_eq!(end_of_transaction(&marker).unwrap(), Some(end));
        for length in 0..marker.len() {
            assert!(end_of_transaction(&marker[..length]).is_err(), "{length}");
        }
        for at in 17..marker.len() {
            let mut flipped = marker.clone();
            flipped[at] ^= 1;
            assert!(end_of_transaction(&flipped).is_err(), "{at}");
        }
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

/// The content of a gzip wrapper of magic 1.
fn inflated(wrapper: &[u8]) -> Vec<u8> {
    let mut room = vec![0; 1 << 16];
    let n = libdeflater::Decompressor::new()
        .gzip_decompress(&wrapper[34..], &mut room)
        .unwrap();
    room.truncate(n);
    room
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
