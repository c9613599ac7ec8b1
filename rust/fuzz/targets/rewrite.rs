//! Fuzz targets of rewriting: conversions, erasures and compactions.

use brokerless_core::{
    Codec, CompactionRewrite, CompactionScan, Compression, Conversion, Converter, Eraser,
    ErasureScan, HashRange, NextBatch, Phase, RecordMatcher, Result, Rewrite, RewriteOptions,
    Rewriter, ScanOptions, SegmentConverter, SegmentOutput, SpaceEstimate, TransactionIndex,
    next_batch,
};

use super::MAX_BATCH_BYTES;

/// Returns the batches of the new segment, taken in pieces as a writer takes them.
fn rewritten<R: Rewrite>(rewrite: &mut R, data: &[u8]) -> Result<Vec<u8>> {
    let mut rewriter = Rewriter::new(u64::MAX);
    let mut output = SegmentOutput::new(0, 4096, 1 << 20);
    let (mut log, mut at) = (Vec::new(), 0);
    loop {
        let consumed = rewriter.feed(rewrite, &data[at..], at as u64, &mut output)?;
        assert!(!rewriter.is_full, "full without a limit");
        at += consumed;
        log.extend(output.take(Vec::new()).log);
        if consumed == 0 || log.len() > 8 << 20 {
            break;
        }
    }
    assert!(rewriter.finish(rewrite, &mut output)?);
    log.extend(output.take(Vec::new()).log);
    Ok(log)
}

/// Returns the same for a conversion by two threads.
fn converted_by_two(conversion: Conversion, data: &[u8]) -> Result<Vec<u8>> {
    let mut converter =
        SegmentConverter::new(conversion, &[], i64::MAX, i64::MAX, MAX_BATCH_BYTES, 2)?;
    converter.begin(&TransactionIndex::new(&[], 0), u64::MAX)?;
    let mut output = SegmentOutput::new(0, 4096, 1 << 20);
    let (mut log, mut at) = (Vec::new(), 0);
    loop {
        let consumed = converter.feed(&data[at..], at as u64, &mut output)?;
        assert!(!converter.is_full(), "full without a limit");
        at += consumed;
        log.extend(output.take(Vec::new()).log);
        if consumed == 0 || log.len() > 8 << 20 {
            break;
        }
    }
    assert!(converter.finish(&mut output)?);
    log.extend(output.take(Vec::new()).log);
    Ok(log)
}

/// Returns the number of records in whole batches, and the number and the bits of those whose key starts with `prefix`.
/// None if the log is damaged.
fn records(data: &[u8], prefix: u8) -> Option<(u64, u64, Vec<u8>)> {
    let matcher = RecordMatcher {
        key_prefixes: vec![vec![prefix]],
        ..RecordMatcher::default()
    };
    let mut scan = ErasureScan::new(matcher, false, MAX_BATCH_BYTES);
    scan.feed(data, 0).ok()?;
    let found = scan.take();
    Some((found.examined, found.records, found.bits))
}

fn check_crcs(log: &[u8]) {
    let mut at = 0;
    while let Ok(NextBatch::Batch(header, entry)) = next_batch(&log[at..], at as u64) {
        assert_eq!(header.check_crc(entry), Ok(()), "a wrong checksum");
        at += entry.len();
    }
    assert_eq!(at, log.len(), "not whole batches");
}

/// A conversion keeps the number of records and writes right checksums. Repeated, it changes nothing. Two threads give
/// the result of one.
pub(crate) fn convert(data: &[u8]) {
    let codec = |compression| Codec::new(compression, None).ok();
    let to = |magic, compression| Conversion {
        magic,
        codec: codec(compression),
        drop_headers: magic.is_some_and(|magic| magic < 2),
        drop_producers: magic.is_some_and(|magic| magic < 2),
        ..Conversion::default()
    };
    let joining = Conversion {
        batch_size: Some(4096),
        ..Conversion::default()
    };
    for conversion in [
        to(Some(2), Compression::None),
        to(None, Compression::Lz4),
        to(Some(1), Compression::Gzip),
        to(Some(0), Compression::None),
        joining,
    ] {
        let converter =
            || Converter::new(conversion, &[], i64::MAX, i64::MAX, MAX_BATCH_BYTES).unwrap();
        let conversion_of_one = rewritten(&mut converter(), data);
        let conversion_of_two = converted_by_two(conversion, data);
        // Beyond this size, both stop at different batches.
        let is_whole =
            |log: &Result<Vec<u8>>| log.as_ref().map_or(true, |log| log.len() <= 8 << 20);
        if is_whole(&conversion_of_one) && is_whole(&conversion_of_two) {
            assert_eq!(
                conversion_of_two, conversion_of_one,
                "two threads differ from one"
            );
        }
        let Ok(log) = conversion_of_one else {
            continue;
        };
        check_crcs(&log);
        let (Some(before), Some(after)) = (records(data, 0), records(&log, 0)) else {
            continue;
        };
        let is_whole =
            matches!(next_batch(data, 0), Ok(NextBatch::Batch(..))) && log.len() < 8 << 20;
        assert!(after.0 <= before.0 && (!is_whole || after.0 == before.0));
        if conversion.batch_size.is_none() && log.len() < 8 << 20 {
            let again = rewritten(&mut converter(), &log);
            assert_eq!(again, Ok(log), "converted again it is another");
        }
    }
    let _ = SpaceEstimate::new(MAX_BATCH_BYTES, &[16 << 10]).feed(data, 0);
}

/// After an erasure, nothing is left to erase, and all records that did not match are there.
pub(crate) fn erase(data: &[u8]) {
    for prefix in [b'k', b'0', b'a'] {
        let Some((examined, matched, bits)) = records(data, prefix) else {
            return;
        };
        let mut eraser = Eraser::new(false, MAX_BATCH_BYTES);
        eraser.begin(&bits);
        let Ok(log) = rewritten(&mut eraser, data) else {
            continue;
        };
        check_crcs(&log);
        if log.len() < 8 << 20 {
            let left = records(&log, prefix).map(|(examined, matched, _)| (examined, matched));
            assert_eq!(left, Some((examined - matched, 0)));
        }
    }
}

/// Compacts one segment, all of it dirty, with `threads` threads; None if its keys need another pass.
fn compacted(data: &[u8], threads: usize) -> Result<Option<Vec<u8>>> {
    let mut scan = CompactionScan::new(
        ScanOptions {
            log_start_offset: 0,
            first_dirty_offset: 0,
            now: 0,
            hash_key: [1, 2],
            range: HashRange::ALL,
            max_bytes: 1 << 20,
            max_batch_bytes: MAX_BATCH_BYTES,
            threads,
        },
        Vec::new(),
    )?;
    scan.begin(Phase::Dirty, true)?;
    scan.feed(data, 0)?;
    if scan.range() != HashRange::ALL {
        return Ok(None);
    }
    let found = scan.finish();
    let newest = scan.newest(0, found.records);
    let mut keep = newest.keep;
    keep.resize(keep.len().max(found.keep.len()), 0);
    for (keep, more) in keep.iter_mut().zip(&found.keep) {
        *keep |= more;
    }
    let mut rewrite = CompactionRewrite::new(RewriteOptions {
        end_offset: i64::MAX,
        delete_horizon_ms: i64::MAX,
        max_batch_bytes: MAX_BATCH_BYTES,
        threads,
        ..RewriteOptions::default()
    })?;
    rewrite.begin(
        &keep,
        &newest.stamp,
        &TransactionIndex::new(&found.txnindex, 0),
    )?;
    let mut output = SegmentOutput::new(0, 4096, 1 << 20);
    let (mut log, mut at) = (Vec::new(), 0);
    loop {
        let consumed = rewrite.feed(&data[at..], at as u64, &mut output)?;
        if rewrite.is_full() {
            return Ok(None);
        }
        at += consumed;
        log.extend(output.take(Vec::new()).log);
        if consumed == 0 {
            break;
        }
    }
    rewrite.finish(&mut output)?;
    assert_eq!(rewrite.records, found.records, "seen twice, not the same");
    Ok(Some(log))
}

/// A compacted log has right checksums and no more records than before. Repeated, compaction changes nothing. Two
/// threads give the result of one.
pub(crate) fn compact(data: &[u8]) {
    let compaction = compacted(data, 1);
    assert_eq!(
        compacted(data, 2),
        compaction,
        "two threads differ from one"
    );
    let Ok(Some(log)) = compaction else {
        return;
    };
    check_crcs(&log);
    if let (Some(before), Some(after)) = (records(data, 0), records(&log, 0)) {
        assert!(after.0 <= before.0);
    }
    if let Ok(Some(again)) = compacted(&log, 1) {
        assert!(again == log, "compacted again it is another");
    }
}
