//! Rewrites respect the maximum size of new segments.

use brokerless_core::{
    AbortedTxn, Compression, Conversion, Converter, Rewriter, SegmentOutput, TransactionIndex,
    TransactionIndexEnd,
};

use crate::support::{batch, record, row};
use crate::{convert, to_codec};

/// Rewrites `log`, `window` bytes at a time, into segments of at most `max` bytes; returns their base offsets, batches
/// and aborted transactions.
fn rewritten(
    log: &[u8],
    max: u64,
    window: usize,
    aborted: Vec<AbortedTxn>,
    conversion: Conversion,
) -> Vec<(i64, Vec<u8>, Vec<AbortedTxn>)> {
    let mut converter = Converter::new(conversion, &[], i64::MAX, i64::MAX, 1 << 20).unwrap();
    let mut rewriter = Rewriter::new(max);
    let (mut end, mut txnindex) = (TransactionIndexEnd::default(), Vec::new());
    for entry in &aborted {
        end.append(entry, &mut txnindex).unwrap();
    }
    rewriter
        .begin(&TransactionIndex::new(&txnindex, 0))
        .unwrap();
    let mut segments = Vec::new();
    let mut output = SegmentOutput::new(0, 0, 1 << 20);
    let (mut base, mut at, mut size) = (0, 0, window);
    loop {
        let bytes = &log[at..log.len().min(at + size)];
        let consumed = rewriter
            .feed(&mut converter, bytes, at as u64, &mut output)
            .unwrap();
        at += consumed;
        let is_over = at == log.len()
            && !rewriter.is_full
            && rewriter.finish(&mut converter, &mut output).unwrap();
        size = match consumed {
            0 => rewriter.needed.max(2 * size),
            _ => window,
        };
        if rewriter.is_full || is_over {
            let next = output.next_offset();
            let pending = output.take(Vec::new());
            let entries = TransactionIndex::new(&pending.txnindex, base);
            let entries = entries.entries().collect::<Result<_, _>>().unwrap();
            segments.push((base, pending.log, entries));
            base = next;
            output = SegmentOutput::new(base, 0, 1 << 20);
        }
        if is_over {
            return segments;
        }
    }
}

#[test]
fn a_segment_that_outgrows_its_size_goes_on_in_others() {
    let value = "x".repeat(1000);
    let log: Vec<u8> = (0..20)
        .flat_map(|i| {
            let one = row(2 * i, 1000, None, Some(&value));
            let plain = batch(2 * i, 0, 1, 0, &record(&one, 2 * i, 1000));
            convert(to_codec(Compression::Zstd), &plain)
        })
        .collect();
    let entry = |marker| AbortedTxn {
        version: 0,
        producer_id: 1,
        first_offset: 0,
        last_offset: marker,
        last_stable_offset: marker + 1,
    };
    let aborted = vec![entry(2), entry(16), entry(99)];
    for window in [1, 100, 1 << 20] {
        let plain = to_codec(Compression::None);
        let segments = rewritten(&log, 5000, window, aborted.clone(), plain);
        let all: Vec<u8> = segments
            .iter()
            .flat_map(|(_, log, _)| log.clone())
            .collect();
        assert_eq!(all, convert(plain, &log));
        assert!(segments.iter().all(|(_, log, _)| log.len() <= 5000));
        let bases: Vec<i64> = segments.iter().map(|&(base, ..)| base).collect();
        assert_eq!(bases, [0, 7, 15, 23, 31]);
        let markers: Vec<Vec<i64>> = segments
            .iter()
            .map(|(.., entries)| entries.iter().map(|entry| entry.last_offset).collect())
            .collect();
        assert_eq!(markers, [vec![2], vec![], vec![16], vec![], vec![99]]);
    }
}
