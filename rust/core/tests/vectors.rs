//! Bytes that Kafka's own classes wrote decode field by field: whole, cut at every byte, and with trailing bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{Header, TimestampType};
use support::{Row, everything, hex, read, row, rows};

const T: i64 = 1_700_000_000_000;

fn header(bytes: &[u8]) -> Header {
    Header::parse(bytes, 0).unwrap().unwrap()
}

fn hello_world(first: i64, second: i64) -> Vec<Row> {
    vec![
        row(0, first, None, Some("hello")),
        row(1, second, None, Some("world")),
    ]
}

fn with_headers(mut row: Row, headers: &[(&str, Option<&str>)]) -> Row {
    row.headers = headers
        .iter()
        .map(|(key, value)| {
            (
                (*key).to_owned(),
                value.map(|value| value.as_bytes().to_vec()),
            )
        })
        .collect();
    row
}

/// Name, bytes, and the rows that a consumer sees.
fn vectors() -> Vec<(&'static str, &'static str, Vec<Row>)> {
    vec![
        (
            "v2, timestamps 0",
            "000000000000000000000049ffffffff0260f8304100000000000100000000000000000000000000000000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400",
            hello_world(0, 0),
        ),
        (
            "v2, no timestamps",
            "000000000000000000000049ffffffff025d66079d000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400",
            hello_world(-1, -1),
        ),
        (
            "v2",
            "000000000000000000000049ffffffff02ef692a750000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400",
            hello_world(T, T + 5),
        ),
        (
            "v1",
            "00000000000000000000001b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f00000000000000010000001b0627d21201000000018bcfe56805ffffffff00000005776f726c64",
            hello_world(T, T + 5),
        ),
        (
            "v0",
            "00000000000000000000001387a77ab20000ffffffff0000000568656c6c6f0000000000000001000000138bc0cd770000ffffffff00000005776f726c64",
            hello_world(-1, -1),
        ),
        (
            "v2 gzip",
            "00000000000000000000005dffffffff02a07697860001000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff000000021f8b08000000000000ff1363606060e4ca48cdc9c9671063e06262e42acf2fca49610000a015d17e18000000",
            hello_world(T, T + 5),
        ),
        (
            "v2 snappy",
            "00000000000000000000005fffffffff02011353a10002000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000282534e415050590000000001000000010000001a185c16000000010a68656c6c6f0016000a02010a776f726c6400",
            hello_world(T, T + 5),
        ),
        (
            "v2 lz4",
            "000000000000000000000058ffffffff02c97499440003000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000204224d186040821800008016000000010a68656c6c6f0016000a02010a776f726c640000000000",
            hello_world(T, T + 5),
        ),
        (
            "v2 zstd",
            "000000000000000000000055ffffffff02e90ca7f20004000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000228b52ffd0058c0000016000000010a68656c6c6f0016000a02010a776f726c6400010000",
            hello_world(T, T + 5),
        ),
        (
            "v1 gzip",
            "000000000000000100000059d076985501010000018bcfe56805ffffffff000000431f8b08000000000000ff63608003e9bec7dcbb18810cc6eef34f3318fe030190c39a919a93930f550292956653bf240457c60a53569e5f949302007eaf54cb4e000000",
            hello_world(T, T + 5),
        ),
        (
            "v1 snappy",
            "000000000000000100000069a3f4d13501020000018bcfe56805ffffffff0000005382534e415050590000000001000000010000003f4e000019016c1b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f0d26011e101b0627d212010905273405ffffffff00000005776f726c64",
            hello_world(T, T + 5),
        ),
        (
            "v1 lz4",
            "0000000000000001000000610ad13f4b01030000018bcfe56805ffffffff0000004b04224d186040823c00000016000100f30d1b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f2600001e00501b0627d21209000127001405270050776f726c6400000000",
            hello_world(T, T + 5),
        ),
        (
            "v0 lz4, with the frame checksum that old Kafka got wrong",
            "00000000000000010000004bdf83a1b90003ffffffff0000003d04224d1860401a2e00000016000100f3051387a77ab20000ffffffff0000000568656c6c6f1e009601000000138bc0cd771f0050776f726c6400000000",
            hello_world(-1, -1),
        ),
        (
            "idempotent, headers, nulls, a negative timestamp delta",
            "00000000000000640000005600000005022ca5c06e0000000000020000018bcfe568000000018bcfe5680100000000000003e80003000000070000000326000000026b02760604683102780468320100000e000202026b0100100001040104763300",
            vec![
                with_headers(
                    row(100, T, Some("k"), Some("v")),
                    &[("h1", Some("x")), ("h2", None), ("", Some(""))],
                ),
                row(101, T + 1, Some("k"), None),
                row(102, T - 1, None, Some("v3")),
            ],
        ),
        (
            "transactional",
            "00000000000000000000003affffffff0243606c9f0010000000000000000000000005000000000000000500000000000003e80003000000000000000110000000026b027600",
            vec![row(0, 5, Some("k"), Some("v"))],
        ),
        (
            "COMMIT marker",
            "000000000000002a0000004200000009027eacaeaf0030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000010c00000000000b00",
            vec![],
        ),
        (
            "ABORT marker",
            "000000000000002a0000004200000009028a9278e70030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000000c00000000000b00",
            vec![],
        ),
        (
            "KRaft leader change",
            "0000000000000000000000540000000402725319f00020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff000000014400000008000000023000000000000103000000010000000002000200000001000000",
            vec![],
        ),
        (
            "empty batch after compaction",
            "00000000000000640000003100000005020b0177cc000000000002ffffffffffffffff0000018bcfe5680100000000000003e800030000000700000000",
            vec![],
        ),
        (
            "delete horizon",
            "00000000000000000000004bffffffff02b5ef82a000400000000200000000000000640000000000000096ffffffffffffffffffffffffffff000000031000630002300230000e00000202310100100064040232023200",
            vec![
                row(0, 50, Some("0"), Some("0")),
                row(1, 100, Some("1"), None),
                row(2, 150, Some("2"), Some("2")),
            ],
        ),
        (
            "LogAppendTime set in place",
            "000000000000000000000049ffffffff0210c43bcd0008000000010000018bcfe56800000001a3185c5000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400",
            hello_world(1_800_000_000_000, 1_800_000_000_000),
        ),
        (
            "v1 LogAppendTime",
            "000000000000000a00000018b0b8b7450108000000000000030900000001610000000162",
            vec![row(10, 777, Some("a"), Some("b"))],
        ),
        (
            "v1 gzip LogAppendTime",
            "000000000000000b0000004d0c058e6401090000000000000309ffffffff000000371f8b08000000000000ff63608003890d3bb6bb32724038cc9c40823111442441e519416a44843757a3aa49061129006f4c911848000000",
            vec![
                row(10, 777, Some("a"), Some("b")),
                row(11, 777, Some("c"), Some("d")),
            ],
        ),
        (
            "v2, keys",
            "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffffffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200",
            vec![
                row(0, 283_843, Some("key1"), Some("value1")),
                row(1, 1234, Some("key2"), Some("value2")),
            ],
        ),
        (
            "v2 lz4, keys",
            "000000000000000000000064ffffffff02a3ac2aa200030000000100000000000454c300000000000454c3ffffffffffffffffffffffffffff0000000204224d186040822400008020000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c7565320000000000",
            vec![
                row(0, 283_843, Some("key1"), Some("value1")),
                row(1, 1234, Some("key2"), Some("value2")),
            ],
        ),
        (
            "v0 lz4, keys",
            "00000000000000010000005603fd7f3a0003ffffffff0000004804224d1860401a3900000016000100511875f0f41d0f00e0046b6579310000000676616c75650a0000020011012400301bc3a60d00012400b0320000000676616c75653200000000",
            vec![
                row(0, -1, Some("key1"), Some("value1")),
                row(1, -1, Some("key2"), Some("value2")),
            ],
        ),
    ]
}

#[test]
fn whole() {
    for (name, bytes, expected) in vectors() {
        assert_eq!(rows(&hex(bytes)), expected, "{name}");
    }
}

#[test]
fn a_cut_is_not_an_error_and_gives_whole_entries_only() {
    for (name, bytes, expected) in vectors() {
        let bytes = hex(bytes);
        for cut in 0..bytes.len() {
            let (rows, error) = read(&bytes[..cut], &mut everything(), true);
            assert_eq!(error, None, "{name} cut at {cut}");
            assert!(
                expected.starts_with(&rows) && rows.len() <= expected.len(),
                "{name} cut at {cut}"
            );
        }
    }
}

#[test]
fn bytes_that_follow_are_left_alone() {
    for (name, bytes, expected) in vectors() {
        let bytes = hex(bytes);
        let log = [&bytes[..], &bytes, &[0; 11]].concat();
        let (rows, error) = read(&log, &mut everything(), true);
        assert_eq!(
            (rows, error),
            ([&expected[..], &expected].concat(), None),
            "{name}"
        );
    }
}

#[test]
fn every_changed_bit_under_the_checksum_is_noticed() {
    for (name, bytes, _) in vectors() {
        let bytes = hex(bytes);
        let header = header(&bytes);
        let first = if header.magic == 2 { 21 } else { 17 };
        for at in first..header.size() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let (_, error) = read(&damaged, &mut everything(), true);
                assert!(error.is_some(), "{name}: bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn header_fields_of_an_idempotent_batch() {
    let bytes = hex(vectors()[13].1);
    let header = header(&bytes);
    assert_eq!(
        (
            header.base_offset,
            header.last_offset(),
            header.next_offset()
        ),
        (100, 102, 103)
    );
    assert_eq!(
        (
            header.partition_leader_epoch,
            header.magic,
            header.records_count
        ),
        (5, 2, Some(3))
    );
    assert_eq!((header.producer_id, header.producer_epoch), (1000, 3));
    assert_eq!((header.base_sequence, header.last_sequence()), (7, 9));
    assert_eq!((header.base_timestamp, header.max_timestamp), (T, T + 1));
    assert_eq!(
        (header.is_transactional(), header.is_control()),
        (false, false)
    );
    assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
    assert_eq!(header.delete_horizon_ms(), None);
    assert_eq!(header.end_position(), bytes.len() as u64);
}

#[test]
fn the_base_timestamp_is_the_delete_horizon_only_with_its_bit() {
    let header = header(&hex(vectors()[19].1));
    assert_eq!(header.delete_horizon_ms(), Some(100));
}

#[test]
fn sequences_wrap_to_zero() {
    use brokerless_core::{decrement_sequence, increment_sequence};
    const MAX: i32 = i32::MAX;
    for (base, delta, up, down) in [
        (5, 5, 10, 0),
        (MAX, 1, 0, MAX - 1),
        (MAX - 5, 10, 4, MAX - 15),
        (MAX, MAX, 2_147_483_646, 0),
        (0, 1, 1, MAX),
        (5, 10, 15, 2_147_483_643),
    ] {
        assert_eq!(increment_sequence(base, delta), up, "{base} + {delta}");
        assert_eq!(decrement_sequence(base, delta), down, "{base} - {delta}");
    }
}
