//! Rows made from headers alone equal the rows made from the records.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    AbortedTransaction, Columns, Fetch, Header, NextBatch, Selection, crc32c, next_batch,
};
use support::{batch, message, record, row};

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

/// A batch with a record at each of the `deltas`.
fn of_deltas(base_offset: i64, attributes: i16, deltas: &[i64], last_delta: i32) -> Vec<u8> {
    let records: Vec<u8> = deltas
        .iter()
        .flat_map(|delta| {
            let row = row(base_offset + delta, 1000, Some("k"), Some("v"));
            record(&row, base_offset, 1000)
        })
        .collect();
    batch(
        base_offset,
        attributes,
        deltas.len() as i32,
        last_delta,
        &records,
    )
}

/// Whole, compacted, aborted and committed batches, a marker, a batch without records, and a message of magic 1.
fn log() -> Vec<u8> {
    [
        message(1, 0, 0, 1000, None, Some(b"v")),
        of_deltas(1, 0, &[0, 1, 2], 2),
        of_deltas(4, 0, &[0, 2], 3),
        of_deltas(8, TRANSACTIONAL, &[0, 1], 1),
        of_deltas(10, TRANSACTIONAL | CONTROL, &[0], 0),
        of_deltas(11, 0, &[], 4),
        of_deltas(16, TRANSACTIONAL, &[0, 1], 1),
        of_deltas(18, 0, &[0, 1, 2, 3], 3),
    ]
    .concat()
}

/// The offsets, if they are wanted, and the number of rows of each batch with its position.
fn read(
    log: &[u8],
    selection: Selection,
    with_offsets: bool,
    by_headers: bool,
) -> (Vec<i64>, Vec<(u64, usize)>) {
    let mut fetch = Fetch::new(selection, true, 1 << 20);
    fetch.by_headers = by_headers;
    let mut columns = Columns::default();
    columns.offsets = with_offsets.then(Vec::new);
    let mut at = 0;
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64).unwrap() {
        fetch.batch(&header, entry, &mut columns).unwrap();
        at += entry.len();
    }
    let batches = columns
        .batches
        .iter()
        .map(|batch| (batch.header.position, batch.rows));
    (
        columns.offsets.clone().unwrap_or_default(),
        batches.collect(),
    )
}

#[test]
fn every_selection_gives_the_same_rows() {
    let log = log();
    let aborted = [AbortedTransaction::from((7, 8, 10))];
    for aborted in [&[][..], &aborted] {
        for (start, end) in (0..23).flat_map(|start| (start..24).map(move |end| (start, end))) {
            for with_offsets in [false, true] {
                let rows = |by_headers| {
                    let mut selection = Selection::new(aborted);
                    (selection.start_offset, selection.end_offset) = (start, end);
                    read(&log, selection, with_offsets, by_headers)
                };
                assert_eq!(rows(true), rows(false), "offsets {start} to {end}");
            }
        }
    }
}

#[test]
fn a_checksum_counts_without_the_records() {
    let mut log = of_deltas(0, 0, &[0, 1], 1);
    let last = log.len() - 1;
    log[last] ^= 1;
    let mut fetch = Fetch::new(Selection::new(&[]), true, 1 << 20);
    fetch.by_headers = true;
    let header = Header::parse(&log, 0).unwrap().unwrap();
    let error = fetch
        .batch(&header, &log, &mut Columns::default())
        .unwrap_err();
    assert!(error.message.contains("crc mismatch"), "{error}");
}

/// A header alone may announce rows that do not exist.
#[test]
fn without_checksums_the_records_count() {
    let mut log = of_deltas(0, 0, &[0, 1], 1);
    let records = log.len() - 10;
    log[records..].fill(0);
    let rows = |by_headers| {
        let mut fetch = Fetch::new(Selection::new(&[]), false, 1 << 20);
        fetch.by_headers = by_headers;
        let header = Header::parse(&log, 0).unwrap().unwrap();
        let mut columns = Columns::default();
        columns.offsets = Some(Vec::new());
        let read = fetch.batch(&header, &log, &mut columns);
        (read.unwrap_err().message, columns.offsets)
    };
    assert_eq!(rows(true), rows(false));
}

#[test]
fn a_count_without_records_takes_no_memory() {
    for (count, delta) in [(i32::MAX, i32::MAX - 1), (1 << 19, (1 << 19) - 1)] {
        let lie = batch(0, 0, count, delta, b"");
        let mut fetch = Fetch::new(Selection::new(&[]), true, 1 << 20);
        fetch.by_headers = true;
        let header = Header::parse(&lie, 0).unwrap().unwrap();
        let mut columns = Columns::default();
        columns.offsets = Some(Vec::new());
        assert!(fetch.batch(&header, &lie, &mut columns).is_err());
        assert!(columns.offsets.unwrap().capacity() < 1 << 16);
    }
}

#[test]
fn a_negative_count_is_refused_as_the_records_are() {
    let lie = batch(0, 0, i32::MIN, i32::MAX, b"");
    let mut fetch = Fetch::new(Selection::new(&[]), true, 1 << 20);
    fetch.by_headers = true;
    let header = Header::parse(&lie, 0).unwrap().unwrap();
    assert!(fetch.batch(&header, &lie, &mut Columns::default()).is_err());
}

#[test]
fn a_least_timestamp_leaves_out_whole_batches_only() {
    let log = [of_deltas(0, 0, &[0, 1], 1), of_deltas(2, 0, &[0], 0)].concat();
    let rows = |min_timestamp| {
        let mut selection = Selection::new(&[]);
        selection.min_timestamp = min_timestamp;
        read(&log, selection, true, false).0
    };
    // The headers say 2000, the records 1000.
    assert_eq!(rows(2000), [0, 1, 2]);
    assert_eq!(rows(2001), [0; 0]);
    // A header without a largest timestamp says nothing.
    let mut bare = of_deltas(0, 0, &[0], 0);
    bare[35..43].copy_from_slice(&(-1i64).to_be_bytes());
    let crc = crc32c(&bare[21..]).to_be_bytes();
    bare[17..21].copy_from_slice(&crc);
    let mut selection = Selection::new(&[]);
    selection.min_timestamp = 2001;
    assert_eq!(read(&bare, selection, true, false).0, [0]);
}
