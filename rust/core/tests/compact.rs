//! Compaction of hostile bytes gives an error or a result. It never panics, and never allocates memory for sizes that
//! are only declared.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    CompactionRewrite, CompactionScan, ErrorKind, HashRange, Phase, Result, RewriteOptions,
    ScanOptions, SegmentOutput, SegmentVerdicts, TransactionIndex,
};
use support::{batch, message, record, row, wrapper};

fn scan(first_dirty_offset: i64, txnindex: &[u8]) -> CompactionScan {
    let options = ScanOptions {
        log_start_offset: 0,
        first_dirty_offset,
        now: 5000,
        hash_key: [1, 2],
        range: HashRange::ALL,
        max_bytes: 1 << 16,
        max_batch_bytes: 1 << 16,
        threads: 1,
    };
    CompactionScan::new(options, vec![TransactionIndex::new(txnindex, 0)]).unwrap()
}

/// The verdicts on one segment, and the segment that results.
fn compacted(data: &[u8], txnindex: &[u8]) -> Result<(SegmentVerdicts, Vec<u8>)> {
    let mut scan = scan(0, txnindex);
    scan.begin(Phase::Dirty, true)?;
    scan.feed(data, 0)?;
    let mut found = scan.finish();
    let newest = scan.newest(0, found.records);
    found
        .keep
        .resize(newest.keep.len().max(found.keep.len()), 0);
    for (keep, more) in found.keep.iter_mut().zip(newest.keep) {
        *keep |= more;
    }
    let mut output = SegmentOutput::new(0, 4096, 1 << 16);
    let mut rewrite = CompactionRewrite::new(RewriteOptions {
        end_offset: 1 << 40,
        delete_horizon_ms: 9000,
        max_batch_bytes: 1 << 16,
        ..RewriteOptions::default()
    })?;
    let aborted = TransactionIndex::new(&found.txnindex, 0);
    rewrite.begin(&found.keep, &newest.stamp, &aborted)?;
    rewrite.feed(data, 0, &mut output)?;
    rewrite.finish(&mut output)?;
    assert_eq!(rewrite.records, found.records);
    Ok((found, output.take(Vec::new()).log))
}

fn keyed(base_offset: i64, attributes: i16, keys: &[&str]) -> Vec<u8> {
    let payload: Vec<u8> = keys
        .iter()
        .enumerate()
        .flat_map(|(n, key)| record(&row(n as i64, 1000, Some(key), Some("v")), 0, 1000))
        .collect();
    let count = keys.len() as i32;
    batch(base_offset, attributes, count, count - 1, &payload)
}

/// An ABORT marker of producer 7.
fn abort(offset: i64) -> Vec<u8> {
    let mut key = row(0, 1000, None, None);
    key.key = Some(vec![0, 0, 0, 0]);
    key.value = Some(vec![0, 0, 0, 0, 0, 1]);
    batch(offset, 0x30, 1, 0, &record(&key, 0, 1000))
}

fn aborted(first_offset: i64, last_offset: i64) -> Vec<u8> {
    let mut entry = vec![0, 0];
    for field in [7, first_offset, last_offset, last_offset + 1] {
        entry.extend(field.to_be_bytes());
    }
    entry
}

#[test]
fn aborted_records_go_and_their_marker_stays_for_now() {
    let data = [keyed(0, 0, &["a", "b"]), keyed(2, 0x10, &["a"]), abort(3)].concat();
    let (found, left) = compacted(&data, &aborted(2, 3)).unwrap();
    assert_eq!((found.records, found.counts.aborted), (4, 1));
    assert_eq!(found.keep, [0b1011]);
    assert_eq!(found.txnindex, aborted(2, 3));
    assert_eq!(left, [keyed(0, 0, &["a", "b"]), abort(3)].concat());
}

#[test]
fn a_cut_segment_gives_what_is_whole() {
    let data = [
        keyed(0, 0, &["a", "b"]),
        message(1, 0, 2, 1000, Some(b"a"), Some(b"v")),
        keyed(3, 0x10, &["c"]),
        abort(4),
    ]
    .concat();
    for cut in 0..data.len() {
        let (found, left) = compacted(&data[..cut], &[]).unwrap();
        assert!(found.records <= 5 && left.len() <= cut + 40);
    }
}

#[test]
fn a_changed_byte_is_an_error_or_harmless() {
    let data = [keyed(0, 0, &["a", "b"]), keyed(2, 0x10, &["a"]), abort(3)].concat();
    for at in 0..data.len() {
        for bit in 0..8 {
            let mut changed = data.clone();
            changed[at] ^= 1 << bit;
            // The checksum covers these bytes.
            let starts = [0, keyed(0, 0, &["a", "b"]).len()];
            let is_summed = starts
                .iter()
                .any(|start| (start + 17..start + 61).contains(&at));
            assert!(
                compacted(&changed, &aborted(2, 3)).is_err() || !is_summed,
                "byte {at}"
            );
        }
    }
}

#[test]
fn a_count_that_no_payload_bears_out_costs_no_memory() {
    for attributes in [0, 0x10] {
        let claims = batch(2, attributes, i32::MAX, 0, &[0; 20]);
        let error = compacted(&claims, &aborted(2, 3)).unwrap_err();
        assert_eq!(
            (error.kind, error.base_offset),
            (ErrorKind::Corrupt, Some(2))
        );
    }
    let (found, left) = compacted(&batch(2, 0, 0, 0, &[]), &[]).unwrap();
    assert_eq!((found.records, left.len()), (0, 0));
}

#[test]
fn a_record_of_the_clean_part_stays_unless_a_dirty_one_has_its_key() {
    let (clean, dirty) = (keyed(0, 0, &["a", "b", "a"]), keyed(3, 0, &["b"]));
    let mut scan = scan(3, &[]);
    scan.begin(Phase::Follow, true).unwrap();
    scan.feed(&clean, 0).unwrap();
    scan.begin(Phase::Dirty, true).unwrap();
    scan.feed(&dirty, 0).unwrap();
    assert_eq!((scan.finish().records, scan.keys()), (1, 1));
    assert_eq!(scan.newest(0, 1).keep, [1]);
    scan.begin(Phase::Clean, true).unwrap();
    scan.feed(&clean, 0).unwrap();
    assert_eq!(scan.finish().keep, [0b101]);
}

#[test]
fn a_wrapper_that_was_moved_in_among_the_messages_before_is_damage() {
    let inner = [0, 1].map(|offset| message(1, 0, offset, 0, Some(&[offset as u8]), Some(b"v")));
    let log = |offset| [keyed(0, 0, &["a", "b"]), wrapper(1, offset, 0, 0, &inner)].concat();
    let error = compacted(&log(2), b"").unwrap_err();
    assert_eq!(
        (error.kind, error.position),
        (ErrorKind::Corrupt, keyed(0, 0, &["a", "b"]).len() as u64)
    );
    compacted(&log(3), b"").unwrap();
}
