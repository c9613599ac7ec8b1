//! Conversions and compactions on several threads equal those on one: in bytes, counts and errors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    Codec, CompactionRewrite, CompactionScan, Compression, Compressor, Conversion, Converted,
    Error, ErrorKind, HashRange, NextBatch, Phase, RewriteOptions, ScanOptions, SegmentConverter,
    SegmentOutput, TransactionIndex, next_batch,
};
use support::{batch, message, record, row};

const THREADS: [usize; 3] = [1, 2, 4];
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Returns two records; the second has `value_bytes`.
fn pair(base_offset: i64, keys: [&str; 2], value_bytes: usize) -> Vec<u8> {
    let value = "v".repeat(value_bytes);
    let first = row(base_offset, 1000, Some(keys[0]), Some("w"));
    let second = row(base_offset + 1, 1001, Some(keys[1]), Some(&value));
    let records = [
        record(&first, base_offset, 1000),
        record(&second, base_offset, 1000),
    ];
    batch(base_offset, 0, 2, 1, &records.concat())
}

/// Batches of up to 60 KB. Together they exceed any part that a thread takes. Some keys repeat.
fn log(batches: i64) -> Vec<Vec<u8>> {
    (0..batches)
        .map(|i| {
            let keys = [format!("a{}", i % 7), format!("b{i}")];
            pair(
                2 * i,
                [&keys[0], &keys[1]],
                if i % 9 == 0 { 60_000 } else { 50 },
            )
        })
        .collect()
}

fn to_codec(compression: Compression) -> Conversion {
    Conversion {
        codec: Some(Codec::new(compression, None).unwrap()),
        ..Conversion::default()
    }
}

/// The batches of each new segment.
type Segments = Vec<Vec<u8>>;

/// Converts `log`, `window` bytes at a time, into segments of at most `max_segment_bytes`.
fn converted(
    log: &[u8],
    conversion: Conversion,
    threads: usize,
    window: usize,
    max_segment_bytes: u64,
) -> Result<(Segments, Converted), Error> {
    let mut converter = SegmentConverter::new(
        conversion,
        &[],
        i64::MAX,
        i64::MAX,
        MAX_BATCH_BYTES,
        threads,
    )?;
    converter.begin(&TransactionIndex::new(&[], 0), max_segment_bytes)?;
    let mut output = SegmentOutput::new(0, 0, 1 << 20);
    let mut segments = vec![Vec::new()];
    let (mut at, mut size) = (0, window);
    loop {
        let bytes = &log[at..log.len().min(at + size)];
        let consumed = converter.feed(bytes, at as u64, &mut output)?;
        at += consumed;
        let is_last = consumed == 0 && at + bytes.len() == log.len() && !converter.is_full();
        let is_over = is_last && converter.finish(&mut output)?;
        size = match consumed {
            0 => converter.needed().max(2 * size),
            _ => window,
        };
        segments
            .last_mut()
            .unwrap()
            .extend(output.take(Vec::new()).log);
        if is_over {
            return Ok((segments, converter.converted()));
        }
        if converter.is_full() {
            output = SegmentOutput::new(output.next_offset(), 0, 1 << 20);
            segments.push(Vec::new());
        }
    }
}

/// Compacts `log`, all of it dirty, `window` bytes at a time; returns the batches and the number of records that
/// stayed.
fn compacted(log: &[u8], threads: usize, window: usize) -> Result<(Vec<u8>, u64), Error> {
    let mut scan = CompactionScan::new(
        ScanOptions {
            log_start_offset: 0,
            first_dirty_offset: 0,
            now: 5000,
            hash_key: [1, 2],
            range: HashRange::ALL,
            max_bytes: 1 << 20,
            max_batch_bytes: MAX_BATCH_BYTES,
            threads,
        },
        Vec::new(),
    )?;
    scan.begin(Phase::Dirty, true)?;
    windows(log, window, |bytes, position| {
        let consumed = scan.feed(bytes, position)?;
        Ok((consumed, scan.needed))
    })?;
    let found = scan.finish();
    let newest = scan.newest(0, found.records);
    let mut rewrite = CompactionRewrite::new(RewriteOptions {
        end_offset: 1 << 40,
        delete_horizon_ms: 9000,
        max_batch_bytes: MAX_BATCH_BYTES,
        threads,
        ..RewriteOptions::default()
    })?;
    rewrite.begin(&newest.keep, &newest.stamp, &TransactionIndex::new(&[], 0))?;
    let mut output = SegmentOutput::new(0, 4096, 1 << 20);
    windows(log, window, |bytes, position| {
        let consumed = rewrite.feed(bytes, position, &mut output)?;
        Ok((consumed, rewrite.needed()))
    })?;
    rewrite.finish(&mut output)?;
    assert_eq!(rewrite.records, found.records);
    Ok((output.take(Vec::new()).log, rewrite.kept))
}

/// Feeds all whole batches of `log`, at least `window` bytes at a time.
fn windows(
    log: &[u8],
    window: usize,
    mut feed: impl FnMut(&[u8], u64) -> Result<(usize, usize), Error>,
) -> Result<(), Error> {
    let (mut at, mut size) = (0, window);
    loop {
        let end = log.len().min(at + size);
        let (consumed, needed) = feed(&log[at..end], at as u64)?;
        if consumed == 0 && end == log.len() {
            return Ok(());
        }
        at += consumed;
        size = match consumed {
            0 => needed.max(2 * size),
            _ => window,
        };
    }
}

/// Returns the result of one thread, after a check that every number of threads gives the same result.
fn same<T: PartialEq + std::fmt::Debug>(run: impl Fn(usize) -> T) -> T {
    let one = run(1);
    for threads in THREADS {
        assert!(run(threads) == one, "{threads} threads give another result");
    }
    one
}

#[test]
fn any_number_of_threads_converts_to_the_same_segments() {
    let log = log(100).concat();
    for window in [1 << 10, 100_000, 1 << 20] {
        for max_segment_bytes in [5000, 1 << 30] {
            let run = |threads| {
                converted(
                    &log,
                    to_codec(Compression::Lz4),
                    threads,
                    window,
                    max_segment_bytes,
                )
            };
            let (segments, counts) = same(run).unwrap();
            assert_eq!((counts.batches, counts.changed), (100, 100));
            assert_eq!(segments.len() > 1, max_segment_bytes == 5000);
        }
    }
}

#[test]
fn batches_that_stay_and_batches_that_depend_on_others_come_out_in_their_order() {
    let mut batches = log(40);
    let plain = log(80).split_off(40);
    let compressed = converted(
        &plain.concat(),
        to_codec(Compression::Zstd),
        1,
        1 << 20,
        1 << 30,
    );
    batches.extend(compressed.unwrap().0);
    for offset in 160..400 {
        batches.push(message(1, 0, offset, 1000, Some(b"k"), Some(b"v")));
    }
    let log = batches.concat();
    let to_zstd = Conversion {
        magic: Some(2),
        ..to_codec(Compression::Zstd)
    };
    for conversion in [to_codec(Compression::Lz4), to_zstd] {
        for window in [4 << 10, 1 << 20] {
            let run = |threads| converted(&log, conversion, threads, window, 1 << 30);
            let (segments, counts) = same(run).unwrap();
            assert_eq!((segments.len(), counts.batches), (1, 80 + 240));
        }
    }
}

#[test]
fn threads_stop_when_they_have_made_enough_and_lose_nothing() {
    let zeros = vec![0; 3 << 20];
    let log: Vec<u8> = (0..24)
        .flat_map(|offset| {
            let mut one = row(offset, 1000, None, None);
            one.value = Some(zeros.clone());
            let mut block = Vec::new();
            Compressor::new()
                .compress(
                    Codec::new(Compression::Gzip, None).unwrap(),
                    2,
                    &record(&one, offset, 1000),
                    &mut block,
                )
                .unwrap();
            batch(offset, 1, 1, 0, &block)
        })
        .collect();
    assert!(log.len() < 1 << 20);
    let run = |threads| {
        let plain = to_codec(Compression::None);
        converted(&log, plain, threads, log.len(), 1 << 30)
    };
    let (segments, counts) = same(run).unwrap();
    assert_eq!(counts.batches, 24);
    assert!(segments[0].len() > 24 * zeros.len());
}

#[test]
fn any_number_of_threads_compacts_to_the_same_records() {
    let log = log(100).concat();
    for window in [1 << 10, 100_000, 1 << 20] {
        let (left, kept) = same(|threads| compacted(&log, threads, window)).unwrap();
        // Of the first keys, the last seven stay. The second keys are unique.
        assert_eq!(kept, 107);
        assert!(left.len() < log.len());
    }
}

#[test]
fn an_error_is_that_of_the_first_damaged_batch() {
    let batches = log(100);
    let start = |number: usize| batches[..number].iter().map(Vec::len).sum::<usize>();
    let damaged = |numbers: &[usize]| {
        let mut log = batches.concat();
        for &number in numbers {
            log[start(number + 1) - 1] ^= 1;
        }
        log
    };
    for numbers in [&[0][..], &[17], &[99], &[63, 40, 41, 98]] {
        let log = damaged(numbers);
        let first = *numbers.iter().min().unwrap();
        for window in [100_000, 1 << 20] {
            let run = |threads| {
                converted(&log, to_codec(Compression::Lz4), threads, window, 1 << 30).unwrap_err()
            };
            let conversion = same(run);
            let compaction = same(|threads| compacted(&log, threads, window).unwrap_err());
            for error in [conversion, compaction] {
                assert_eq!(error.kind, ErrorKind::Corrupt);
                assert_eq!(error.position, start(first) as u64);
                assert_eq!(error.base_offset, Some(2 * first as i64));
            }
        }
    }
}

#[test]
fn damage_inside_a_batch_comes_before_a_broken_header_behind_it() {
    let batches = log(60);
    let start = |number: usize| batches[..number].iter().map(Vec::len).sum::<usize>();
    let mut log = batches.concat();
    log[start(18) - 1] ^= 1;
    log[start(40) + 16] = 9;
    let run = |threads| converted(&log, to_codec(Compression::Lz4), threads, 1 << 20, 1 << 30);
    let conversion = same(|threads| run(threads).unwrap_err());
    let compaction = same(|threads| compacted(&log, threads, 1 << 20).unwrap_err());
    for error in [conversion, compaction] {
        assert_eq!(error.position, start(17) as u64, "{error}");
    }
}

#[test]
fn an_offset_or_a_length_out_of_place_is_the_error_of_its_batch() {
    let batches = log(60);
    let position = batches[..30].iter().map(Vec::len).sum::<usize>();
    let changes: [(&[u8], usize); 2] = [(&5_i64.to_be_bytes(), 0), (&7_i32.to_be_bytes(), 8)];
    for (bytes, at) in changes {
        let mut log = batches.concat();
        log[position + at..][..bytes.len()].copy_from_slice(bytes);
        for window in [100_000, 1 << 20] {
            let run = |threads| {
                converted(&log, to_codec(Compression::Lz4), threads, window, 1 << 30).unwrap_err()
            };
            let error = same(run);
            assert_eq!(error.position, position as u64, "{error}");
        }
    }
    let mut log = batches.concat();
    log[position..][..8].copy_from_slice(&5_i64.to_be_bytes());
    // A scan accepts any offsets: keys count in the order of the file. The rewrite refuses offsets that do not rise.
    let error = same(|threads| compacted(&log, threads, 1 << 20).unwrap_err());
    assert_eq!(error.position, position as u64, "{error}");
}

#[test]
fn a_cut_log_gives_its_whole_batches() {
    let batches = log(40);
    let whole = batches.concat();
    let cuts = [0, 1, 11, 12, 16, 17, 60, 61];
    for number in [0, 1, 20, 39] {
        let start = batches[..number].iter().map(Vec::len).sum::<usize>();
        for cut in cuts.iter().map(|more| start + more) {
            let log = &whole[..cut];
            let plain = to_codec(Compression::None);
            let run = |threads| converted(log, plain, threads, 1 << 20, 1 << 30);
            let (segments, _) = same(run).unwrap();
            assert_eq!(segments.concat(), whole[..start]);
            let (left, _) = same(|threads| compacted(log, threads, 1 << 20)).unwrap();
            assert!(left.len() <= start);
            assert!(matches!(next_batch(&left, 0), Ok(NextBatch::Batch(..))) || number == 0);
        }
    }
}
