//! Conversions to another batch size join batches only if readers see no difference.

use brokerless_core::{Conversion, Header};

use crate::support::{batch, hex, record, row, rows};
use crate::{COMMIT, convert, converted_of, headers};

/// A batch of one producer with `count` records.
pub(crate) fn of_producer(
    base_offset: i64,
    base_sequence: i32,
    count: i64,
    attributes: i16,
) -> Vec<u8> {
    let records: Vec<u8> = (0..count)
        .flat_map(|i| {
            record(
                &row(base_offset + i, 1000 + i, Some("k"), None),
                base_offset,
                1000,
            )
        })
        .collect();
    let mut entry = batch(
        base_offset,
        attributes,
        count as i32,
        count as i32 - 1,
        &records,
    );
    entry[43..51].copy_from_slice(&9_i64.to_be_bytes());
    entry[51..53].copy_from_slice(&1_i16.to_be_bytes());
    entry[53..57].copy_from_slice(&base_sequence.to_be_bytes());
    let crc = brokerless_core::crc32c(&entry[21..]);
    entry[17..21].copy_from_slice(&crc.to_be_bytes());
    entry
}

pub(crate) fn joined(size: usize) -> Conversion {
    Conversion {
        batch_size: Some(size),
        ..Conversion::default()
    }
}

#[test]
fn batches_that_go_on_are_joined_and_sequences_stay() {
    let log = [
        of_producer(10, i32::MAX - 2, 2, 0),
        of_producer(12, i32::MAX, 3, 0),
        of_producer(15, 2, 1, 0),
    ]
    .concat();
    let (out, converted) = converted_of(joined(16384), &log, &[], i64::MAX).unwrap();
    let found = headers(&out);
    assert_eq!(found.len(), 1);
    assert_eq!(rows(&out), rows(&log));
    assert_eq!(found[0].last_sequence(), headers(&log)[2].last_sequence());
    assert_eq!((found[0].base_offset, found[0].next_offset()), (10, 16));
    assert_eq!(found[0].partition_leader_epoch, 5);
    assert_eq!((converted.batches, converted.changed), (3, 3));
}

#[test]
fn batches_are_not_joined_where_that_would_be_seen() {
    let first = of_producer(10, 0, 2, 0);
    let others = [
        ("a gap in the sequences", of_producer(12, 3, 1, 0)),
        ("a gap in the offsets", of_producer(13, 2, 1, 0)),
        ("a transaction", of_producer(12, 2, 1, 0x10)),
        ("an append time", of_producer(12, 2, 1, 0x08)),
        ("a delete horizon", of_producer(12, 2, 1, 0x40)),
        (
            "no producer",
            batch(12, 0, 1, 0, &record(&row(12, 1000, None, None), 12, 1000)),
        ),
        ("a marker", hex(COMMIT)),
    ];
    for (what, other) in others {
        let log = [first.clone(), other].concat();
        let (out, converted) = converted_of(joined(16384), &log, &[], i64::MAX).unwrap();
        assert_eq!(out, log, "{what}");
        assert_eq!(converted.changed, 0, "{what}");
    }
    let mut of_other_epoch = of_producer(12, 2, 1, 0);
    of_other_epoch[12..16].copy_from_slice(&6_i32.to_be_bytes());
    let log = [first, of_other_epoch].concat();
    assert_eq!(convert(joined(16384), &log), log);
}

#[test]
fn a_batch_size_is_not_exceeded() {
    let log: Vec<u8> = (0..100)
        .flat_map(|i| of_producer(i, i as i32, 1, 0))
        .collect();
    let out = convert(joined(200), &log);
    assert_eq!(rows(&out), rows(&log));
    let sizes: Vec<usize> = headers(&out).iter().map(Header::size).collect();
    assert!(
        sizes.len() > 5 && sizes.iter().all(|&size| size <= 200),
        "{sizes:?}"
    );
}

#[test]
fn what_another_replica_may_end_behind_is_not_joined() {
    let log = [
        of_producer(0, 0, 2, 0),
        of_producer(2, 2, 2, 0),
        of_producer(4, 4, 2, 0),
        of_producer(6, 6, 2, 0),
    ]
    .concat();
    for (below, ends) in [
        (0, vec![1, 3, 5, 7]),
        (4, vec![3, 5, 7]),
        (5, vec![3, 5, 7]),
        (6, vec![5, 7]),
        (8, vec![7]),
    ] {
        let conversion = Conversion {
            join_below: Some(below),
            ..joined(16384)
        };
        let (out, converted) = converted_of(conversion, &log, &[], i64::MAX).unwrap();
        let found: Vec<i64> = headers(&out).iter().map(Header::last_offset).collect();
        assert_eq!(found, ends, "below {below}");
        assert_eq!(rows(&out), rows(&log));
        let apart = ends.iter().filter(|&&end| end >= below).count();
        assert_eq!(converted.apart, apart as u64);
    }
}
