//! Index look-ups answer as Kafka's own classes do. After a wrong answer, a reader starts after the requested record,
//! or searches a segment that cannot contain it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod support;

use brokerless_core::{
    AbortedTxn, ErrorKind, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset,
    TransactionIndex,
};
use support::hex;

fn offset_index(text: &str, base_offset: i64) -> OffsetIndex {
    OffsetIndex::new(&hex(text), base_offset, false)
}

fn time_index(text: &str, base_offset: i64) -> TimeIndex {
    TimeIndex::new(&hex(text), base_offset, false)
}

// offset index

const OFFSETS: &str = "000000000000000000000005000000640000000f000003e87fffffff7fffffff";

#[test]
fn offset_lookup_gives_the_greatest_entry_not_above() {
    let index = offset_index(OFFSETS, 45);
    assert_eq!(index.len(), 4);
    for (offset, found, position) in [
        (44, 45, 0),
        (45, 45, 0),
        (46, 45, 0),
        (50, 50, 100),
        (59, 50, 100),
        (60, 60, 1000),
        (61, 60, 1000),
        (2147483691, 60, 1000),
        (2147483692, 2147483692, 2147483647),
        (i64::MAX, 2147483692, 2147483647),
        (i64::MIN, 45, 0),
    ] {
        assert_eq!(
            index.lookup(offset),
            OffsetPosition {
                offset: found,
                position
            },
            "{offset}"
        );
    }
    // The first entry lies above the base offset.
    let index = offset_index("000000050000000a0000000a00000014", 100);
    assert_eq!(
        index.lookup(104),
        OffsetPosition {
            offset: 100,
            position: 0
        }
    );
    assert_eq!(
        index.lookup(105),
        OffsetPosition {
            offset: 105,
            position: 10
        }
    );
}

#[test]
fn upper_bound_is_the_first_entry_at_or_behind_the_read() {
    let index = offset_index(OFFSETS, 45);
    for (position, size, found) in [
        (0, 1, Some(50)),
        (0, 100, Some(50)),
        (50, 50, Some(50)),
        (0, 101, Some(60)),
        (100, 900, Some(60)),
        (1000, 1, Some(2147483692)),
        (0, 2147483647, Some(2147483692)),
        (1, 2147483647, None),
        (i64::MAX, i64::MAX, None),
    ] {
        assert_eq!(
            index.upper_bound(position, size),
            found,
            "{position} {size}"
        );
    }
    assert_eq!(offset_index("", 45).upper_bound(0, 10), None);
    let index = offset_index("000000010000000a0000000200000014000000030000001e", 0);
    assert_eq!(index.upper_bound(15, 5), Some(2));
}

#[test]
fn an_empty_offset_index_answers_with_the_segments_start() {
    let index = offset_index("", 45);
    assert!(index.is_empty());
    assert_eq!(index.last_entry().offset, 45);
    for offset in [0, 45, 50] {
        assert_eq!(
            index.lookup(offset),
            OffsetPosition {
                offset: 45,
                position: 0
            }
        );
    }
    index.sanity_check().unwrap();
}

#[test]
fn zeros_behind_the_entries_are_not_entries() {
    let padded = format!("0000000500000064{}", "0000000000000000".repeat(1000));
    let index = offset_index(&padded, 45);
    assert_eq!((index.len(), index.last_entry().offset), (1, 50));
    let raw = OffsetIndex::new(&hex(&padded), 45, true);
    assert_eq!((raw.len(), raw.last_entry().offset), (1001, 45));

    // The first slot may stand for the base offset, and so may zeros alone.
    let index = offset_index("0000000000000000000000010000000a0000000000000000", 7);
    assert_eq!((index.len(), index.last_entry().offset), (2, 8));
    assert_eq!(offset_index(&"00".repeat(16), 45).len(), 1);

    let padded = format!("000000000000000a00000005{}", "00".repeat(24));
    let index = time_index(&padded, 45);
    assert_eq!(
        index.last_entry(),
        TimestampOffset {
            timestamp: 10,
            offset: 50
        }
    );
    assert_eq!(index.len(), 1);
    let raw = TimeIndex::new(&hex(&padded), 45, true);
    assert_eq!(
        raw.last_entry(),
        TimestampOffset {
            timestamp: 0,
            offset: 45
        }
    );
    assert_eq!(raw.len(), 3);
}

#[test]
fn offset_sanity_is_kafkas() {
    let check = |text: &str| OffsetIndex::new(&hex(text), 45, true).sanity_check();
    check("00000005000000640000000000000000").unwrap();
    check("00000000000000000000000000000000").unwrap();
    check("").unwrap();
    let odd = check("0000000500000064000000").unwrap_err();
    assert_eq!((odd.kind, odd.position), (ErrorKind::Corrupt, 8));
    assert!(odd.message.contains("11 bytes"), "{odd}");
    assert_eq!(
        check("ffffffff00000064").unwrap_err().kind,
        ErrorKind::Corrupt
    );
    assert_eq!(
        OffsetIndex::new(&hex("ffffffff00000064"), 45, true)
            .last_entry()
            .offset,
        44
    );
}

#[test]
fn entries_come_in_file_order() {
    let entries: Vec<_> = offset_index("0000000700001092", 10).entries().collect();
    assert_eq!(
        entries,
        [OffsetPosition {
            offset: 17,
            position: 4242
        }]
    );
    let entries: Vec<_> = time_index("0000018bcfe5680000000007", 10)
        .entries()
        .collect();
    assert_eq!(
        entries,
        [TimestampOffset {
            timestamp: 1700000000000,
            offset: 17
        }]
    );
}

// time index

#[test]
fn time_lookup_gives_the_greatest_entry_not_above() {
    let index = time_index(
        "000000000000000a00000005000000000000000c0000000a00000000000000140000000a",
        45,
    );
    assert_eq!(index.len(), 3);
    for (timestamp, found, offset) in [
        (9, -1, 45),
        (10, 10, 50),
        (11, 10, 50),
        (12, 12, 55),
        (19, 12, 55),
        (20, 20, 55),
        (21, 20, 55),
        (i64::MAX, 20, 55),
    ] {
        let expected = TimestampOffset {
            timestamp: found,
            offset,
        };
        assert_eq!(index.lookup(timestamp), expected, "{timestamp}");
    }
    assert_eq!(
        index.last_entry(),
        TimestampOffset {
            timestamp: 20,
            offset: 55
        }
    );

    let index = time_index("000000000000000000000003000000000000000100000004", 0);
    for (timestamp, found, offset) in [(-1, -1, 0), (0, 0, 3), (1, 1, 4)] {
        assert_eq!(
            index.lookup(timestamp),
            TimestampOffset {
                timestamp: found,
                offset
            }
        );
    }
    let empty = time_index("", 45);
    assert!(empty.is_empty());
    for timestamp in [-1, 0, 100] {
        assert_eq!(
            empty.lookup(timestamp),
            TimestampOffset {
                timestamp: -1,
                offset: 45
            }
        );
    }
    assert_eq!(
        empty.last_entry(),
        TimestampOffset {
            timestamp: -1,
            offset: 45
        }
    );
}

#[test]
fn time_sanity_is_kafkas() {
    let check = |text: &str| TimeIndex::new(&hex(text), 45, true).sanity_check();
    check("").unwrap();
    check("000000000000000a00000005").unwrap();
    for bad in [
        "000000000000000a00000005000000000000000000000000",
        "000000000000000a000000050000",
        "000000000000000a00000005000000000000000900000006",
        "000000000000000affffffff",
    ] {
        assert_eq!(check(bad).unwrap_err().kind, ErrorKind::Corrupt, "{bad}");
    }
}

// transaction index

const ABORTED: &str = "000000000000000000050000000000000000000000000000000a000000000000000b\
     000000000000000000060000000000000005000000000000001e0000000000000011\
     0000000000000000000700000000000000110000000000000028\
     0000000000000029000000000000000000080000000000000023\
     00000000000000320000000000000033";

fn transaction_index(text: &str, base_offset: i64) -> TransactionIndex {
    TransactionIndex::new(&hex(text), base_offset)
}

#[test]
fn a_search_stops_only_where_nothing_can_follow() {
    let index = transaction_index(ABORTED, 0);
    assert_eq!(index.len(), 4);
    for (fetch_offset, upper_bound, producers, complete) in [
        (0, 100, &[5, 6, 7, 8][..], false),
        (11, 100, &[6, 7, 8], false),
        (0, 5, &[5], true),
        (0, 12, &[5, 6], true),
        (0, 18, &[5, 6, 7], true),
        (31, 41, &[7], true),
        (41, 42, &[8], true),
        (51, 60, &[], false),
        (10, 11, &[5], true),
        (10, 3, &[5], true),
    ] {
        let (found, is_complete) = index.collect(fetch_offset, upper_bound).unwrap();
        let found: Vec<_> = found.iter().map(|entry| entry.producer_id).collect();
        assert_eq!(
            (&found[..], is_complete),
            (producers, complete),
            "{fetch_offset} {upper_bound}"
        );
    }
}

#[test]
fn a_transaction_that_began_in_an_earlier_segment_is_found() {
    let index = transaction_index(
        "00000000000000000005000000000000000300000000000000640000000000000065",
        100,
    );
    for (fetch_offset, upper_bound, found, complete) in [
        (0, 4, 1, true),
        (0, 3, 0, true),
        (100, 200, 1, false),
        (101, 200, 0, false),
    ] {
        let (entries, is_complete) = index.collect(fetch_offset, upper_bound).unwrap();
        assert_eq!((entries.len(), is_complete), (found, complete));
    }
    index.sanity_check().unwrap();
}

#[test]
fn transaction_index_versions_and_lengths_are_judged_as_kafka_judges_them() {
    let entry = "00000000000000000fa10000000000000028000000000000002a000000000000002b";
    let expected = AbortedTxn {
        version: 0,
        producer_id: 4001,
        first_offset: 40,
        last_offset: 42,
        last_stable_offset: 43,
    };
    let first = |text: &str| transaction_index(text, 0).entries().next().unwrap();
    assert_eq!(first(entry), Ok(expected));
    let low = AbortedTxn {
        version: 1,
        ..expected
    };
    assert_eq!(
        first(&format!("0001{}", &entry[4..])),
        Ok(low),
        "brokers up to 4.1 do not read the low byte"
    );
    let negative = AbortedTxn {
        version: -1,
        ..expected
    };
    assert_eq!(first(&format!("ffff{}", &entry[4..])), Ok(negative));
    let newer = format!("{entry}0100{}", &entry[4..]);
    let index = transaction_index(&newer, 0);
    let error = index.sanity_check().unwrap_err();
    assert_eq!((error.kind, error.position), (ErrorKind::Unsupported, 34));
    assert!(index.collect(0, 100).is_err());

    assert_eq!(transaction_index(&format!("{entry}00000000"), 0).len(), 1);
    assert!(transaction_index("", 0).is_empty());
    transaction_index("", 0).sanity_check().unwrap();
    let error = transaction_index(entry, 43).sanity_check().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    transaction_index(entry, 42).sanity_check().unwrap();
}
