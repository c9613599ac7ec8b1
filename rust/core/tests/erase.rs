//! Erasure removes exactly the matching records and keeps all others byte for byte. The scan and the rewrite number
//! records alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    Codec, Compression, Compressor, Eraser, ErasureScan, ErrorKind, Header, NextBatch,
    RecordMatcher, Rewrite, next_batch,
};
use support::{Row, batch, message, record, row, rows, wrapper};

const MAX: usize = 1 << 20;

fn keys(keys: &[&str]) -> RecordMatcher {
    RecordMatcher {
        keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        ..RecordMatcher::default()
    }
}

fn batch_of(
    base_offset: i64,
    attributes: i16,
    records: &[(Option<&str>, Option<&str>)],
) -> Vec<u8> {
    let payload: Vec<u8> = (base_offset..)
        .zip(records)
        .flat_map(|(offset, &(key, value))| {
            record(&row(offset, 1000, key, value), base_offset, 1000)
        })
        .collect();
    let count = records.len() as i32;
    batch(base_offset, attributes, count, count - 1, &payload)
}

/// A control batch with one record.
fn marker(offset: i64) -> Vec<u8> {
    let mut one = row(offset, 1000, None, None);
    one.key = Some(vec![0, 0, 0, 1]);
    one.value = Some(vec![0; 6]);
    batch(offset, 0x30, 1, 0, &record(&one, offset, 1000))
}

/// Returns the log without the matching records, and their number.
fn erased(log: &[u8], matcher: RecordMatcher, is_blanking: bool) -> (Vec<u8>, u64) {
    let mut scan = ErasureScan::new(matcher, is_blanking, MAX);
    assert_eq!(scan.feed(log, 0), Ok(log.len()));
    let found = scan.take();
    let ones: u32 = found.bits.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(u64::from(ones), found.records);
    let mut eraser = Eraser::new(is_blanking, MAX);
    eraser.begin(&found.bits);
    let (mut out, mut at) = (Vec::new(), 0);
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64).unwrap() {
        at += entry.len();
        if eraser.entry(&header, entry, &mut out).unwrap() {
            out.extend_from_slice(entry);
        }
    }
    eraser.finish(&mut out).unwrap();
    (out, found.records)
}

fn headers(log: &[u8]) -> Vec<Header> {
    let (mut headers, mut at) = (Vec::new(), 0);
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64).unwrap() {
        header.check_crc(entry).unwrap();
        headers.push(header);
        at += entry.len();
    }
    headers
}

fn without(rows: Vec<Row>, key: &str) -> Vec<Row> {
    let is_other = |row: &Row| row.key.as_deref() != Some(key.as_bytes());
    rows.into_iter().filter(is_other).collect()
}

#[test]
fn numbers_go_on_over_markers_wrappers_and_empty_batches() {
    let inner: Vec<u8> = [(10, "a"), (11, "x"), (12, "b")]
        .iter()
        .flat_map(|&(offset, key)| message(0, 0, offset, -1, Some(key.as_bytes()), Some(b"v")))
        .collect();
    let mut wrapped = Vec::new();
    let gzip = Codec::new(Compression::Gzip, None).unwrap();
    Compressor::new()
        .compress(gzip, 0, &inner, &mut wrapped)
        .unwrap();
    let log = [
        batch_of(0, 0, &[(Some("a"), Some("1")), (Some("x"), None)]),
        marker(2),
        batch(3, 0, 0, 2, b""),
        message(1, 0, 6, 1000, Some(b"x"), Some(b"v")),
        message(0, 1, 12, -1, None, Some(&wrapped)),
        batch_of(
            13,
            0,
            &[
                (None, Some("x")),
                (Some("x"), Some("2")),
                (Some("c"), Some("3")),
            ],
        ),
    ]
    .concat();
    let (out, count) = erased(&log, keys(&["x"]), false);
    assert_eq!(count, 4);
    assert_eq!(rows(&out), without(rows(&log), "x"));
    let offsets: Vec<_> = headers(&out)
        .iter()
        .map(|header| header.base_offset)
        .collect();
    assert_eq!(offsets, [0, 2, 3, 10, 13]);
}

#[test]
fn what_has_no_match_stays_byte_for_byte() {
    let log = [
        batch_of(0, 0, &[(Some("a"), Some("1"))]),
        marker(1),
        message(1, 0, 2, 1000, Some(b"a"), None),
    ]
    .concat();
    assert_eq!(erased(&log, keys(&["b"]), false), (log, 0));
}

#[test]
fn a_batch_that_lost_all_stays_as_a_header() {
    let log = batch_of(7, 0x10, &[(Some("x"), Some("1")), (Some("x"), Some("2"))]);
    let (out, _) = erased(&log, keys(&["x"]), false);
    assert_eq!(out.len(), 61);
    let (before, after) = (headers(&log)[0], headers(&out)[0]);
    assert_eq!(after.next_offset(), before.next_offset());
    assert_eq!((after.producer_id, after.is_transactional()), (7, true));
}

#[test]
fn control_records_and_null_keys_match_nothing() {
    let matcher = RecordMatcher {
        key_prefixes: vec![vec![0], b"n".to_vec()],
        ..RecordMatcher::default()
    };
    let log = [marker(0), batch_of(1, 0, &[(None, Some("null"))])].concat();
    assert_eq!(erased(&log, matcher, false), (log, 0));
}

#[test]
fn blanking_never_makes_or_unmakes_a_tombstone() {
    let values = [Some("v"), None, Some("")];
    let records = values.map(|value| (Some("x"), value));
    let (out, count) = erased(&batch_of(0, 0, &records), keys(&["x"]), true);
    assert_eq!(count, 1);
    let after: Vec<_> = rows(&out).into_iter().map(|row| row.value).collect();
    assert_eq!(after, [Some(vec![]), None, Some(vec![])]);
}

#[test]
fn runs_of_records_are_told_by_their_offsets() {
    let pattern = "xx.x..xxx";
    let records: Vec<_> = pattern
        .chars()
        .map(|c| (Some(if c == 'x' { "x" } else { "y" }), Some("v")))
        .collect();
    let mut scan = ErasureScan::new(keys(&["x"]), false, MAX);
    scan.feed(&batch_of(100, 0, &records), 0).unwrap();
    let found = scan.take();
    assert_eq!(found.ranges, [(100, 101), (103, 103), (106, 108)]);
    assert_eq!((found.records, found.examined, found.bytes), (6, 9, 12));
    assert_eq!(found.bits, [0b1100_1011, 0b1]);
    assert!(scan.take().bits.is_empty(), "the next segment begins anew");
}

#[test]
fn a_count_that_is_not_there_claims_no_memory() {
    // A marker that claims 2^31-1 records would number the next record beyond any memory.
    let mut claiming = marker(0);
    claiming[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    let crc = brokerless_core::crc32c(&claiming[21..]);
    claiming[17..21].copy_from_slice(&crc.to_be_bytes());
    let log = [claiming, batch_of(1, 0, &[(Some("x"), None)])].concat();
    let error = ErasureScan::new(keys(&["x"]), false, MAX)
        .feed(&log, 0)
        .unwrap_err();
    assert_eq!(
        (error.kind, error.base_offset),
        (ErrorKind::Corrupt, Some(0))
    );
}

/// A wrapper's header has only its last offset. A flipped bit moves its messages among earlier ones.
#[test]
fn entries_that_do_not_go_on_where_the_last_one_ended_are_refused() {
    let refusal = |log: &[&[u8]]| {
        let mut scan = ErasureScan::new(keys(&["x"]), false, MAX);
        scan.begin(10, 20);
        let fed = scan.feed(&log.concat(), 0);
        fed.map_err(|error| (error.kind, error.position))
    };
    let at = |offset| batch_of(offset, 0, &[(Some("a"), Some("1"))]);
    let size = at(10).len() as u64;
    assert_eq!(refusal(&[&at(10)]), Ok(at(10).len()));
    assert_eq!(
        refusal(&[&at(9)]),
        Err((ErrorKind::Corrupt, 0)),
        "below its segment"
    );
    assert_eq!(
        refusal(&[&at(20)]),
        Err((ErrorKind::Corrupt, 0)),
        "behind its segment"
    );
    assert_eq!(
        refusal(&[&at(10), &at(10)]),
        Err((ErrorKind::Corrupt, size))
    );
    let inner = [0, 1].map(|offset| message(1, 0, offset, 0, None, Some(b"v")));
    let (moved, sound) = (wrapper(1, 11, 0, 0, &inner), wrapper(1, 12, 0, 0, &inner));
    assert_eq!(refusal(&[&at(10), &moved]), Err((ErrorKind::Corrupt, size)));
    assert_eq!(refusal(&[&at(10), &sound]), Ok(at(10).len() + sound.len()));
}
