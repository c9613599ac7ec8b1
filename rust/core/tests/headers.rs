//! Scans of headers, transactions and timestamps give the same answer for every window size.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    AbortedTransaction, Decompressor, ErrorKind, HeaderWalk, TimestampMatch, TimestampQuery,
    Transactions, find_timestamp,
};
use support::{batch, message, record, row};

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x30;

fn data(offset: i64, attributes: i16, count: i64) -> Vec<u8> {
    let payload: Vec<u8> = (0..count)
        .flat_map(|i| {
            record(
                &row(offset + i, 1000 + offset + i, None, Some(&"v".repeat(150))),
                offset,
                1000,
            )
        })
        .collect();
    batch(offset, attributes, count as i32, count as i32 - 1, &payload)
}

fn marker(offset: i64, kind: u8) -> Vec<u8> {
    let body = [&[0, 0, 0, 8, 0, 0, 0, kind, 12][..], &[0; 6], &[0]].concat();
    batch(offset, CONTROL, 1, 0, &support::framed(&body))
}

/// Feeds `log` in windows of `window` bytes, and skips unwanted bytes.
fn walk(log: &[u8], window: usize) -> Result<HeaderWalk, brokerless_core::Error> {
    let mut walk = HeaderWalk::new(Transactions::default());
    let mut at = 0;
    let mut size = window;
    while !walk.done {
        let end = log.len().min(at + size);
        let wanted = walk.feed(&log[at.min(log.len())..end], at as u64, log.len() as u64)? as usize;
        if walk.done || (wanted >= log.len() && wanted == at) {
            break;
        }
        size = if wanted == at { size * 2 } else { window };
        at = wanted;
    }
    Ok(walk)
}

#[test]
fn any_window_finds_the_same() {
    let log = [
        data(0, 0, 5),
        data(5, TRANSACTIONAL, 2),
        message(1, 1, 7, 99, None, Some(b"wrapped")),
        data(8, 0, 1),
        marker(9, 0),
        data(10, TRANSACTIONAL, 1),
    ]
    .concat();
    for window in (61..400).chain([log.len(), 1 << 20]) {
        let walk = walk(&log, window).unwrap();
        assert_eq!(
            (walk.batches, walk.first_offset, walk.next_offset),
            (6, Some(0), Some(11)),
            "window {window}"
        );
        assert_eq!((walk.leader_epoch, walk.max_timestamp), (5, 2000));
        assert_eq!((walk.magics, walk.compressions), (0b110, 0b11));
        assert_eq!(walk.end_position, log.len() as u64);
        let aborted = [AbortedTransaction {
            producer_id: 7,
            first_offset: 5,
            last_offset: 9,
        }];
        assert_eq!(walk.transactions.aborted(), aborted);
        assert_eq!(walk.transactions.open(), [(7, 10)]);
    }
}

#[test]
fn a_cut_tail_ends_the_walk_at_the_last_whole_batch() {
    let first = data(0, 0, 2);
    let log = [first.clone(), data(2, 0, 2)].concat();
    for cut in first.len()..log.len() {
        let walk = walk(&log[..cut], 100).unwrap();
        assert_eq!(
            (walk.end_position, walk.next_offset),
            (first.len() as u64, Some(2)),
            "cut at {cut}"
        );
        assert!(walk.done || cut == first.len());
    }
}

#[test]
fn zeros_are_damage_for_whoever_knows_no_better() {
    let error = walk(&[data(0, 0, 2), vec![0; 100]].concat(), 128).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
}

#[test]
fn a_commit_ends_a_transaction_and_an_emptied_marker_does_not() {
    let emptied = batch(3, CONTROL, 0, 0, &[]);
    let walk = walk(
        &[data(0, TRANSACTIONAL, 3), emptied, marker(4, 1)].concat(),
        1 << 20,
    )
    .unwrap();
    assert_eq!(
        (
            walk.transactions.aborted().len(),
            walk.transactions.open().len()
        ),
        (0, 0)
    );
    let open = [data(0, TRANSACTIONAL, 3), batch(3, CONTROL, 0, 0, &[])].concat();
    let walk = self::walk(&open, 1 << 20).unwrap();
    assert_eq!(walk.transactions.open(), [(7, 0)]);
}

#[test]
fn a_transaction_open_in_the_snapshot_goes_on() {
    let mut walk = HeaderWalk::new(Transactions::with_open([(7, -5), (8, 0)]));
    let log = [data(0, TRANSACTIONAL, 3), marker(3, 0)].concat();
    walk.feed(&log, 0, log.len() as u64).unwrap();
    assert_eq!(walk.transactions.aborted()[0].first_offset, -5);
    assert_eq!(walk.transactions.open(), [(8, 0)]);
}

fn search(log: &[u8], window: usize, target: TimestampQuery) -> Option<TimestampMatch> {
    let mut decompressor = Decompressor::new(1 << 20);
    let (mut at, mut size) = (0, window);
    while at < log.len() {
        let end = log.len().min(at + size);
        let (found, wanted) = find_timestamp(
            &log[at..end],
            at as u64,
            log.len() as u64,
            target,
            &mut decompressor,
        )
        .unwrap();
        if found.is_some() {
            return found;
        }
        size = if wanted as usize == at {
            size * 2
        } else {
            window
        };
        at = wanted as usize;
    }
    None
}

#[test]
fn times_are_found_by_record_not_by_batch() {
    // The greatest timestamp of every header is 2000, so each batch is a candidate.
    let log = [
        data(0, 0, 5),
        data(5, 0, 5),
        message(1, 0, 10, 5000, None, None),
    ]
    .concat();
    for window in [61, 100, 300, 1 << 20] {
        let find = |timestamp, start_offset, exact| {
            search(
                &log,
                window,
                TimestampQuery {
                    timestamp,
                    start_offset,
                    exact,
                },
            )
            .map(|found| (found.timestamp, found.offset, found.leader_epoch))
        };
        assert_eq!(find(0, 0, false), Some((1000, 0, 5)));
        assert_eq!(find(1003, 0, false), Some((1003, 3, 5)));
        assert_eq!(find(1003, 7, false), Some((1007, 7, 5)));
        assert_eq!(find(1010, 0, false), Some((5000, 10, -1)));
        assert_eq!(find(5001, 0, false), None);
        assert_eq!(find(5000, 0, true), Some((5000, 10, -1)));
        assert_eq!(find(4999, 0, true), None);
    }
}

#[test]
fn a_marker_with_a_wrong_bit_is_not_believed() {
    let mut commit = marker(3, 1);
    // The type in the record's key: a COMMIT would become an ABORT.
    let at = commit.len() - 11;
    assert_eq!(commit[at + 2], 1);
    commit[at + 2] = 0;
    let error = walk(&[data(0, TRANSACTIONAL, 3), commit].concat(), 1 << 20).unwrap_err();
    assert!(error.message.contains("crc mismatch"));
}
