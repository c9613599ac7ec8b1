//! A new segment has the indexes that its recovery would build.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use brokerless_core::{
    AbortedTxn, BatchBuilder, BatchOptions, ErrorKind, Headers, LeaderEpochs, NewRecord, Producers,
    SegmentOutput, SegmentRecovery,
};

fn batch(base_offset: i64, timestamp: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let options = BatchOptions {
        base_offset,
        partition_leader_epoch: 0,
        ..BatchOptions::default()
    };
    builder.begin(options).unwrap();
    for offset in [base_offset, base_offset + 1] {
        let record = NewRecord {
            offset,
            timestamp,
            key: None,
            value: Some(b"value"),
            headers: Headers::NONE,
        };
        builder.append(&record).unwrap();
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes).unwrap();
    bytes
}

#[test]
fn indexes_are_those_of_a_recovery() {
    let mut output = SegmentOutput::new(10, 100, 800);
    let (mut log, mut index, mut timeindex) = (Vec::new(), Vec::new(), Vec::new());
    let mut take = |output: &mut SegmentOutput| {
        let pending = output.take(vec![1, 2, 3]);
        log.extend(pending.log);
        index.extend(pending.index);
        timeindex.extend(pending.timeindex);
    };
    for number in 0..20 {
        output
            .push(&batch(10 + 5 * number, 1000 + number % 7))
            .unwrap();
        if number % 3 == 0 {
            take(&mut output);
        }
    }
    output.finish().unwrap();
    take(&mut output);

    let mut recovery = SegmentRecovery::new(10, 100, 800);
    let (mut producers, mut epochs) = (Producers::default(), LeaderEpochs::new(Vec::new()));
    let end = log.len() as u64;
    recovery
        .feed(&log, 0, end, &mut producers, &mut epochs)
        .unwrap();
    assert_eq!(recovery.index, index);
    assert_eq!(recovery.timeindex, timeindex);
    assert_eq!(recovery.next_offset, output.next_offset());
    assert_eq!((output.size(), output.batches()), (end, 20));
    assert!(index.len() > 8 && timeindex.len() > 12);
}

#[test]
fn what_does_not_go_here_is_refused_and_changes_nothing() {
    let mut output = SegmentOutput::new(10, 0, 24);
    output.push(&batch(12, 5)).unwrap();
    let (size, next_offset) = (output.size(), output.next_offset());
    for refused in [batch(9, 5), batch(13, 5), batch(10 + (1 << 31), 5)] {
        assert_eq!(output.push(&refused).unwrap_err().kind, ErrorKind::Invalid);
    }
    let whole = batch(20, 5);
    for end in 0..whole.len() {
        assert!(output.push(&whole[..end]).is_err());
    }
    assert!(output.push(&[whole.clone(), whole].concat()).is_err());
    assert_eq!((output.size(), output.next_offset()), (size, next_offset));
    // three slots in the offset index, and two in the time index, of which the last is reserved for the final entry
    output.push(&batch(14, 6)).unwrap();
    assert!(output.is_full());
    let before = output.size();
    assert_eq!(
        output.push(&batch(16, 7)).unwrap_err().kind,
        ErrorKind::Invalid
    );
    assert_eq!(output.size(), before);
    output.finish().unwrap();
}

#[test]
fn aborted_transactions_come_in_the_order_of_their_markers() {
    let mut output = SegmentOutput::new(0, 4096, 1024);
    let aborted = |last_offset| AbortedTxn {
        version: 0,
        producer_id: 1,
        first_offset: 0,
        last_offset,
        last_stable_offset: last_offset,
    };
    output.abort(&aborted(5)).unwrap();
    assert!(output.abort(&aborted(5)).is_err());
    output.abort(&aborted(6)).unwrap();
    assert_eq!(output.take(Vec::new()).txnindex.len(), 2 * 34);
}
