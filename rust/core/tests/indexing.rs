//! Index entries are accepted and refused as by Kafka's own classes. With a wrong entry, a broker reads from a position
//! after the wanted record. With one out of order, it empties the segment at the next recovery.
#![allow(clippy::unwrap_used)]

mod support;

use brokerless_core::{
    AbortedTxn, IndexError, OffsetIndexEnd, SegmentIndexes, TimeIndexEnd, TimestampOffset,
    TransactionIndexEnd, relative_offset,
};
use support::hex;

fn kind(result: Result<(), IndexError>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(IndexError::Full(_)) => "full",
        Err(IndexError::InvalidOffset(_)) => "invalid offset",
        Err(IndexError::Overflow(_)) => "overflow",
    }
}

#[test]
fn offset_index_entries() {
    type Entries<'a> = &'a [(i64, i32, &'a str)];
    let cases: [(&str, i64, usize, Entries<'_>, &str); 5] = [
        (
            "basic",
            45,
            800,
            &[
                (45, 0, "ok"),
                (50, 100, "ok"),
                (50, 120, "invalid offset"),
                (49, 130, "invalid offset"),
                (60, 1000, "ok"),
                (2_147_483_692, i32::MAX, "ok"),
            ],
            "000000000000000000000005000000640000000f000003e87fffffff7fffffff",
        ),
        (
            "relative-overflow",
            10,
            80,
            &[
                (2_147_483_658, 5, "overflow"),
                (9, 5, "overflow"),
                (2_147_483_657, 5, "ok"),
            ],
            "7fffffff00000005",
        ),
        (
            "full-after-3",
            0,
            31,
            &[(1, 10, "ok"), (2, 20, "ok"), (3, 30, "ok"), (4, 40, "full")],
            "000000010000000a0000000200000014000000030000001e",
        ),
        (
            "first-entry-relative-zero",
            7,
            80,
            &[(7, 0, "ok"), (7, 10, "invalid offset"), (8, 10, "ok")],
            "0000000000000000000000010000000a",
        ),
        (
            "truncate-before-first",
            100,
            80,
            &[(105, 10, "ok"), (110, 20, "ok")],
            "000000050000000a0000000a00000014",
        ),
    ];
    for (name, base, max_bytes, entries, expected) in cases {
        let mut index: OffsetIndexEnd = SegmentIndexes::new(base, 0, max_bytes).offset;
        let mut bytes = Vec::new();
        for &(offset, position, result) in entries {
            assert_eq!(
                kind(index.append(offset, position, &mut bytes)),
                result,
                "{name}: offset {offset}"
            );
        }
        assert_eq!(bytes, hex(expected), "{name}");
        assert_eq!(index.is_full(), name == "full-after-3");
    }
}

#[test]
fn time_index_entries() {
    type Entries<'a> = &'a [(i64, i64, bool, &'a str)];
    // Kafka has two answers to an entry that is not above the last one, in time or offset. Here they are one; "ignored"
    // is "ok" without bytes.
    let cases: [(&str, i64, usize, Entries<'_>, &str); 4] = [
        (
            "basic",
            45,
            1200,
            &[
                (-1, 45, false, "ok"),
                (10, 50, false, "ok"),
                (10, 55, false, "ok"),
                (9, 56, false, "invalid offset"),
                (12, 49, false, "invalid offset"),
                (12, 55, false, "ok"),
                (20, 55, false, "ok"),
                (20, 60, false, "ok"),
            ],
            "000000000000000a00000005000000000000000c0000000a00000000000000140000000a",
        ),
        (
            "zero-timestamp",
            0,
            120,
            &[
                (0, 3, false, "ok"),
                (0, 4, false, "ok"),
                (1, 4, false, "ok"),
            ],
            "000000000000000000000003000000000000000100000004",
        ),
        (
            "full-at-max-minus-one",
            0,
            36,
            &[
                (1, 1, false, "ok"),
                (2, 2, false, "ok"),
                (3, 3, false, "full"),
                (3, 3, true, "ok"),
                (4, 4, true, "full"),
                (3, 4, true, "ok"),
            ],
            "000000000000000100000001000000000000000200000002000000000000000300000003",
        ),
        (
            "same-offset-larger-ts",
            0,
            120,
            &[
                (5, 10, false, "ok"),
                (6, 10, false, "ok"),
                (7, 9, false, "invalid offset"),
            ],
            "00000000000000050000000a00000000000000060000000a",
        ),
    ];
    for (name, base, max_bytes, entries, expected) in cases {
        let mut index: TimeIndexEnd = SegmentIndexes::new(base, 0, max_bytes).time;
        let mut bytes = Vec::new();
        for &(timestamp, offset, is_final, result) in entries {
            let entry = TimestampOffset { timestamp, offset };
            assert_eq!(
                kind(index.offer(entry, is_final, &mut bytes)),
                result,
                "{name}: {entry:?}"
            );
        }
        assert_eq!(bytes, hex(expected), "{name}");
    }
}

#[test]
fn transaction_index_entries() {
    let mut index = TransactionIndexEnd::default();
    let mut bytes = Vec::new();
    for (producer_id, first_offset, last_offset, last_stable_offset, result) in [
        (5, 0, 10, 11, "ok"),
        (6, 3, 10, 11, "invalid offset"),
        (6, 3, 9, 4, "invalid offset"),
        (6, 5, 30, 17, "ok"),
        (7, 17, 40, 41, "ok"),
    ] {
        let entry = AbortedTxn {
            version: 0,
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        };
        assert_eq!(kind(index.append(&entry, &mut bytes)), result, "{entry:?}");
    }
    assert_eq!(
        bytes,
        hex(
            "000000000000000000050000000000000000000000000000000a000000000000000b\
             000000000000000000060000000000000005000000000000001e0000000000000011\
             00000000000000000007000000000000001100000000000000280000000000000029"
        )
    );
}

#[test]
fn relative_offsets_fit_an_int32() {
    assert_eq!(relative_offset(5, 5), Some(0));
    assert_eq!(relative_offset(4, 5), None);
    assert_eq!(relative_offset(i64::from(i32::MAX), 0), Some(i32::MAX));
    assert_eq!(relative_offset(1 << 31, 0), None);
    assert_eq!(relative_offset(i64::MAX, i64::MIN), None);
}
