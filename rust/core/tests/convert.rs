//! Conversions lose nothing unasked, and make what Kafka's own make: bytes of record-format.md's worked examples where the
//! codec leaves no choice, else the same rows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    AbortedTransaction, AbortedTxn, Codec, Compression, Conversion, Converted, Converter,
    Decompressor, Error, Header, Kind, Next, Rewrite, Rewriter, SegmentOutput, TimestampType,
    TransactionIndex, next, payload,
};
use support::{Row, batch, hex, message, record, row, rows};

const V2: &str = "000000000000000000000049ffffffff02ef692a750000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400";
const V2_WITHOUT_TIMESTAMPS: &str = "000000000000000000000049ffffffff025d66079d000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400";
const V1: &str = "00000000000000000000001b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f00000000000000010000001b0627d21201000000018bcfe56805ffffffff00000005776f726c64";
const V0: &str = "00000000000000000000001387a77ab20000ffffffff0000000568656c6c6f0000000000000001000000138bc0cd770000ffffffff00000005776f726c64";
const V1_GZIP: &str = "000000000000000100000059d076985501010000018bcfe56805ffffffff000000431f8b08000000000000ff63608003e9bec7dcbb18810cc6eef34f3318fe030190c39a919a93930f550292956653bf240457c60a53569e5f949302007eaf54cb4e000000";
const V1_LZ4: &str = "0000000000000001000000610ad13f4b01030000018bcfe56805ffffffff0000004b04224d186040823c00000016000100f30d1b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f2600001e00501b0627d21209000127001405270050776f726c6400000000";
const V0_LZ4: &str = "00000000000000010000004bdf83a1b90003ffffffff0000003d04224d1860401a2e00000016000100f3051387a77ab20000ffffffff0000000568656c6c6f1e009601000000138bc0cd771f0050776f726c6400000000";
/// Producer 1000, headers, a null value, a null key.
const WITH_HEADERS: &str = "00000000000000640000005600000005022ca5c06e0000000000020000018bcfe568000000018bcfe5680100000000000003e80003000000070000000326000000026b02760604683102780468320100000e000202026b0100100001040104763300";
const TRANSACTIONAL: &str = "00000000000000000000003affffffff0243606c9f0010000000000000000000000005000000000000000500000000000003e80003000000000000000110000000026b027600";
const COMMIT: &str = "000000000000002a0000004200000009027eacaeaf0030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000010c00000000000b00";
const ABORT: &str = "000000000000002a0000004200000009028a9278e70030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000000c00000000000b00";
const EMPTY: &str = "00000000000000640000003100000005020b0177cc000000000002ffffffffffffffff0000018bcfe5680100000000000003e800030000000700000000";
const HORIZON: &str = "00000000000000000000004bffffffff02b5ef82a000400000000200000000000000640000000000000096ffffffffffffffffffffffffffff000000031000630002300230000e00000202310100100064040232023200";
const LOG_APPEND_TIME: &str = "000000000000000000000049ffffffff0210c43bcd0008000000010000018bcfe56800000001a3185c5000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400";
const V1_GZIP_LOG_APPEND_TIME: &str = "000000000000000b0000004d0c058e6401090000000000000309ffffffff000000371f8b08000000000000ff63608003890d3bb6bb32724038cc9c40823111442441e519416a44843757a3aa49061129006f4c911848000000";

fn codec(compression: Compression) -> Option<Codec> {
    Some(Codec::new(compression, None).unwrap())
}

fn to(magic: i8) -> Conversion {
    Conversion {
        magic: Some(magic),
        ..Conversion::default()
    }
}

fn to_codec(compression: Compression) -> Conversion {
    Conversion {
        codec: codec(compression),
        ..Conversion::default()
    }
}

/// All of `log` through one converter, which knows these transactions.
fn converted_of(
    conversion: Conversion,
    log: &[u8],
    aborted: &[AbortedTransaction],
    last_stable_offset: i64,
) -> Result<(Vec<u8>, Converted), Error> {
    let mut converter = Converter::new(conversion, aborted, last_stable_offset, i64::MAX, 1 << 24)?;
    let (mut out, mut at) = (Vec::new(), 0);
    while let Next::Batch(header, entry) = next(&log[at..], at as u64)? {
        at += entry.len();
        if converter.entry(&header, entry, &mut out)? {
            out.extend_from_slice(entry);
        }
    }
    assert_eq!(at, log.len());
    converter.finish(&mut out)?;
    Ok((out, converter.converted()))
}

fn convert(conversion: Conversion, log: &[u8]) -> Vec<u8> {
    converted_of(conversion, log, &[], i64::MAX).unwrap().0
}

fn refusal(conversion: Conversion, log: &[u8]) -> String {
    let error = converted_of(conversion, log, &[], i64::MAX).unwrap_err();
    assert_eq!(error.kind, Kind::Invalid);
    error.message
}

fn headers(log: &[u8]) -> Vec<Header> {
    let (mut headers, mut at) = (Vec::new(), 0);
    while let Next::Batch(header, entry) = next(&log[at..], at as u64).unwrap() {
        header.check_crc(entry).unwrap();
        headers.push(header);
        at += entry.len();
    }
    assert_eq!(at, log.len());
    headers
}

fn without_headers(mut rows: Vec<Row>) -> Vec<Row> {
    rows.iter_mut().for_each(|row| row.headers.clear());
    rows
}

#[test]
fn up_gives_the_bytes_of_kafkas_builder() {
    assert_eq!(convert(to(2), &hex(V1)), hex(V2));
    assert_eq!(convert(to(2), &hex(V0)), hex(V2_WITHOUT_TIMESTAMPS));
    let plain = Conversion {
        magic: Some(2),
        ..to_codec(Compression::None)
    };
    assert_eq!(convert(plain, &hex(V1_GZIP)), hex(V2));
    assert_eq!(convert(plain, &hex(V1_LZ4)), hex(V2));
    assert_eq!(convert(plain, &hex(V0_LZ4)), hex(V2_WITHOUT_TIMESTAMPS));
}

#[test]
fn down_gives_the_bytes_of_kafkas_builder() {
    assert_eq!(convert(to(1), &hex(V2)), hex(V1));
    assert_eq!(convert(to(0), &hex(V2)), hex(V0));
    assert_eq!(convert(to(0), &hex(V1)), hex(V0));
    for (magic, wrapper) in [(1, V1_LZ4), (0, V0_LZ4)] {
        let lz4 = Conversion {
            magic: Some(magic),
            ..to_codec(Compression::Lz4)
        };
        assert_eq!(convert(lz4, &hex(V2)), hex(wrapper));
    }
    // Each message has the append time and the bit for it.
    let appended = [(0, "hello"), (1, "world")].map(|(offset, value)| {
        message(
            1,
            8,
            offset,
            1_800_000_000_000,
            None,
            Some(value.as_bytes()),
        )
    });
    assert_eq!(convert(to(1), &hex(LOG_APPEND_TIME)), appended.concat());
}

#[test]
fn sideways_keeps_all_that_magic_1_and_0_share() {
    let up = convert(to(1), &hex(V0));
    assert_eq!(headers(&up).len(), 2);
    assert_eq!(rows(&up), rows(&hex(V0)));
    assert_eq!(convert(to(0), &up), hex(V0));
}

#[test]
fn what_is_asked_for_already_stays_byte_for_byte() {
    for entry in [
        V2,
        V1,
        V1_GZIP,
        V0_LZ4,
        WITH_HEADERS,
        COMMIT,
        EMPTY,
        HORIZON,
    ] {
        let entry = hex(entry);
        let header = headers(&entry)[0];
        let same = Conversion {
            magic: Some(header.magic),
            codec: codec(header.compression().unwrap()),
            ..Conversion::default()
        };
        let (out, converted) = converted_of(same, &entry, &[], i64::MAX).unwrap();
        assert_eq!(out, entry);
        assert_eq!(converted.changed, 0);
        assert!(converted.batches > 0);
    }
}

#[test]
fn another_codec_changes_length_codec_and_crc_alone() {
    for entry in [V2, WITH_HEADERS, TRANSACTIONAL, HORIZON, LOG_APPEND_TIME] {
        let entry = hex(entry);
        for compression in [
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            let compressed = convert(to_codec(compression), &entry);
            let (before, after) = (headers(&entry)[0], headers(&compressed)[0]);
            assert_eq!(after.compression(), Ok(compression));
            let alike = Header {
                batch_length: before.batch_length,
                crc: before.crc,
                attributes: before.attributes,
                ..after
            };
            assert_eq!(alike, before);
            assert_eq!(after.attributes & !7, before.attributes & !7);
            let mut decompressor = Decompressor::new(1 << 20);
            let records = payload(&after, &compressed, &mut decompressor).unwrap();
            assert_eq!(records, &entry[61..]);
            // And back: the first batch, byte for byte.
            assert_eq!(convert(to_codec(Compression::None), &compressed), entry);
        }
    }
}

#[test]
fn a_codec_alone_leaves_markers_and_empty_batches_as_they_are() {
    for entry in [COMMIT, ABORT, EMPTY] {
        let entry = hex(entry);
        assert_eq!(convert(to_codec(Compression::Zstd), &entry), entry);
        assert_eq!(convert(to(2), &entry), entry);
    }
    // An empty batch that claims a codec: its header is all that counts.
    let claiming = batch(5, 0x13, 0, 4, b"whatever");
    let expected = batch(5, 0x10, 0, 4, b"");
    assert_eq!(convert(to_codec(Compression::Gzip), &claiming), expected);
}

#[test]
fn what_has_the_codec_is_compressed_again_when_asked() {
    let content: Vec<u8> = (0..20_000u32).map(|i| ((i * i) >> 7) as u8 & 15).collect();
    let mut one = row(0, 1000, None, None);
    one.value = Some(content);
    let zstd = convert(
        to_codec(Compression::Zstd),
        &batch(0, 0, 1, 0, &record(&one, 0, 1000)),
    );
    let strong = Conversion {
        codec: Some(Codec::new(Compression::Zstd, Some(19)).unwrap()),
        ..Conversion::default()
    };
    assert_eq!(convert(strong, &zstd), zstd);
    let strong = Conversion {
        recompress: true,
        ..strong
    };
    let stronger = convert(strong, &zstd);
    assert!(stronger.len() < zstd.len());
    assert_eq!(rows(&stronger), rows(&zstd));
}

#[test]
fn single_messages_share_batches_up_to_the_size() {
    let value = [b'x'; 100];
    let log: Vec<u8> = (0..500)
        .flat_map(|offset| message(1, 0, 3 * offset, 1000 + offset, None, Some(&value)))
        .collect();
    let (up, converted) = converted_of(to(2), &log, &[], i64::MAX).unwrap();
    assert_eq!(rows(&up), rows(&log));
    let sizes: Vec<usize> = headers(&up).iter().map(Header::size).collect();
    assert_eq!(sizes.len(), 5);
    assert!(sizes.iter().all(|&size| size <= 16384), "{sizes:?}");
    assert_eq!((converted.batches, converted.changed), (500, 500));
    let one_each = Conversion {
        batch_size: Some(62),
        ..to(2)
    };
    assert_eq!(headers(&convert(one_each, &log)).len(), 500);
}

#[test]
fn append_times_and_create_times_do_not_share_a_batch() {
    let log = [
        message(1, 0, 0, 1000, None, Some(b"a")),
        message(1, 8, 1, 2000, None, Some(b"b")),
        message(1, 8, 2, 2000, None, Some(b"c")),
        message(1, 8, 3, 2001, None, Some(b"d")),
    ]
    .concat();
    let up = convert(to(2), &log);
    assert_eq!(rows(&up), rows(&log));
    let found: Vec<_> = headers(&up)
        .iter()
        .map(|header| (header.base_offset, header.log_append_time()))
        .collect();
    assert_eq!(found, [(0, None), (1, Some(2000)), (3, Some(2001))]);
}

#[test]
fn a_wrapper_becomes_one_batch_with_its_offsets_and_times() {
    let up = convert(to(2), &hex(V1_GZIP_LOG_APPEND_TIME));
    let header = headers(&up)[0];
    assert_eq!((header.base_offset, header.last_offset()), (10, 11));
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.compression(), Ok(Compression::Gzip));
    assert_eq!(
        (header.partition_leader_epoch, header.producer_id),
        (-1, -1)
    );
    assert_eq!(rows(&up), rows(&hex(V1_GZIP_LOG_APPEND_TIME)));
}

#[test]
fn a_wrapper_that_ends_behind_its_messages_leaves_its_end() {
    // Magic 0: inner offsets are absolute, the wrapper's is free.
    let inner = [
        message(0, 0, 5, -1, None, Some(b"a")),
        message(0, 0, 7, -1, None, Some(b"b")),
    ]
    .concat();
    let wrapper = |offset| {
        let mut value = Vec::new();
        brokerless_core::Compressor::new()
            .compress(codec(Compression::Gzip).unwrap(), 0, &inner, &mut value)
            .unwrap();
        message(0, 1, offset, -1, None, Some(&value))
    };
    let up = headers(&convert(to(2), &wrapper(9)))[0];
    assert_eq!((up.base_offset, up.next_offset()), (5, 10));
    // librdkafka left 0.
    let up = headers(&convert(to(2), &wrapper(0)))[0];
    assert_eq!((up.base_offset, up.next_offset()), (5, 8));
}

#[test]
fn what_a_magic_lacks_is_refused_by_name() {
    for magic in [0, 1] {
        let refused = refusal(to(magic), &hex(WITH_HEADERS));
        assert!(
            refused.contains("offset 100 is of producer 1000"),
            "{refused}"
        );
        let refused = refusal(to(magic), &hex(COMMIT));
        assert!(
            refused.contains("offset 42 is a control batch"),
            "{refused}"
        );
        let zstd = convert(to_codec(Compression::Zstd), &hex(V2));
        let refused = refusal(to(magic), &zstd);
        assert!(refused.contains("give another codec"), "{refused}");
        let mut headers = row(3, 1000, None, Some("v"));
        headers.headers = vec![("h".into(), None)];
        let refused = refusal(to(magic), &batch(3, 0, 1, 0, &record(&headers, 3, 1000)));
        assert!(
            refused.contains("record at offset 3 has 1 headers"),
            "{refused}"
        );
    }
}

#[test]
fn conversions_that_cannot_be_are_refused_at_once() {
    let refused = |conversion| {
        Converter::new(conversion, &[], 0, 0, 1)
            .unwrap_err()
            .message
    };
    assert!(refused(Conversion::default()).contains("nothing to convert"));
    assert!(refused(to(3)).contains("magic 3"));
    let zstd = Conversion {
        magic: Some(1),
        ..to_codec(Compression::Zstd)
    };
    assert!(refused(zstd).contains("knows no zstd"));
    let drops = Conversion {
        drop_headers: true,
        ..to(2)
    };
    assert!(refused(drops).contains("nothing needs to be dropped"));
    let small = Conversion {
        batch_size: Some(61),
        ..Conversion::default()
    };
    assert!(refused(small).contains("holds no record"));
}

#[test]
fn headers_are_dropped_when_asked_and_counted() {
    let dropping = Conversion {
        drop_headers: true,
        drop_producers: true,
        ..to(1)
    };
    let (down, converted) = converted_of(dropping, &hex(WITH_HEADERS), &[], i64::MAX).unwrap();
    assert_eq!(rows(&down), without_headers(rows(&hex(WITH_HEADERS))));
    assert_eq!((converted.headers, converted.producers), (1, 1));
    assert_eq!(converted.timestamps, 0);
    let dropping = Conversion {
        magic: Some(0),
        ..dropping
    };
    let (down, converted) = converted_of(dropping, &hex(WITH_HEADERS), &[], i64::MAX).unwrap();
    assert_eq!(converted.timestamps, 3);
    assert!(rows(&down).iter().all(|row| row.timestamp == -1));
}

#[test]
fn aborted_and_undecided_records_go_with_the_markers() {
    let at = |offset: i64, mut entry: Vec<u8>| {
        entry[..8].copy_from_slice(&offset.to_be_bytes());
        entry
    };
    let plain = |offset| {
        at(
            offset,
            batch(0, 0, 1, 0, &record(&row(0, 1000, None, Some("p")), 0, 1000)),
        )
    };
    let log = [
        at(0, hex(TRANSACTIONAL)),
        plain(1),
        at(2, hex(ABORT)),
        at(3, hex(TRANSACTIONAL)),
        at(4, hex(COMMIT)),
        at(5, hex(TRANSACTIONAL)),
        plain(6),
    ]
    .concat();
    let aborted = [AbortedTransaction {
        producer_id: 1000,
        first_offset: 0,
        last_offset: 2,
    }];
    let dropping = Conversion {
        drop_producers: true,
        ..to(1)
    };
    let (down, converted) = converted_of(dropping, &log, &aborted, 5).unwrap();
    let offsets: Vec<i64> = rows(&down).iter().map(|row| row.offset).collect();
    assert_eq!(offsets, [1, 3]);
    let expected = Converted {
        batches: 7,
        changed: 7,
        producers: 1,
        control_batches: 2,
        aborted: 1,
        undecided: 2,
        ..Converted::default()
    };
    assert_eq!(converted, expected);
}

/// A batch of one producer with `count` records.
fn of_producer(base_offset: i64, base_sequence: i32, count: i64, attributes: i16) -> Vec<u8> {
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

fn joined(size: usize) -> Conversion {
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
fn a_wrong_checksum_is_met_before_anything_is_made_of_it() {
    for (entry, conversion) in [
        (V2, to(1)),
        (V1, to(2)),
        (V2, to_codec(Compression::Gzip)),
        (V2, to(2)),
    ] {
        let mut entry = hex(entry);
        *entry.last_mut().unwrap() ^= 1;
        let error = converted_of(conversion, &entry, &[], i64::MAX).unwrap_err();
        assert_eq!(error.kind, Kind::Corrupt);
        assert!(error.message.contains("crc mismatch"), "{error}");
    }
}

#[test]
fn broken_records_do_not_get_a_new_checksum() {
    let cut = |entry: Vec<u8>| {
        let mut entry = entry[..entry.len() - 1].to_vec();
        let length = entry.len() as i32 - 12;
        entry[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = brokerless_core::crc32c(&entry[21..]);
        entry[17..21].copy_from_slice(&crc.to_be_bytes());
        entry
    };
    let broken = cut(of_producer(0, 0, 3, 0));
    for conversion in [to_codec(Compression::Lz4), joined(1000)] {
        let error = converted_of(conversion, &broken, &[], i64::MAX).unwrap_err();
        assert_eq!(error.kind, Kind::Corrupt);
        assert!(error.message.contains("record 2 of 3"), "{error}");
    }
}

/// All of `log`, `window` bytes at a time, into segments of at most `max` bytes: base offset, batches, aborted.
fn rewritten(
    log: &[u8],
    max: u64,
    window: usize,
    aborted: Vec<AbortedTxn>,
    conversion: Conversion,
) -> Vec<(i64, Vec<u8>, Vec<AbortedTxn>)> {
    let mut converter = Converter::new(conversion, &[], i64::MAX, i64::MAX, 1 << 20).unwrap();
    let mut rewriter = Rewriter::new(max);
    rewriter.begin(aborted);
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

#[test]
fn offsets_that_do_not_rise_are_damage() {
    let log = [hex(V2), hex(V2)].concat();
    let mut converter =
        Converter::new(to_codec(Compression::Gzip), &[], 0, i64::MAX, 1 << 20).unwrap();
    let mut output = SegmentOutput::new(0, 0, 1 << 20);
    let error = Rewriter::new(1 << 20)
        .feed(&mut converter, &log, 0, &mut output)
        .unwrap_err();
    assert_eq!((error.kind, error.base_offset), (Kind::Corrupt, Some(0)));
    assert_eq!(error.position, hex(V2).len() as u64);
}

#[test]
fn a_damaged_offset_does_not_pass_for_one_that_is_to_be_left_out() {
    let dropping = Conversion {
        drop_producers: true,
        ..to(1)
    };
    // Three batches in a log that ends at 6, the second of which moved: no checksum covers where it is.
    let refused = |moved: i64| {
        let log: Vec<u8> = [0, moved, 4]
            .into_iter()
            .flat_map(|offset: i64| {
                let mut entry = hex(V2);
                entry[..8].copy_from_slice(&offset.to_be_bytes());
                entry
            })
            .collect();
        let mut converter = Converter::new(dropping, &[], 6, 6, 1 << 20).unwrap();
        let mut output = SegmentOutput::new(0, 0, 1 << 20);
        let error = Rewriter::new(1 << 20)
            .feed(&mut converter, &log, 0, &mut output)
            .unwrap_err();
        assert_eq!(error.kind, Kind::Corrupt);
        (error.position / hex(V2).len() as u64, error.message)
    };
    let beyond = |offset| format!("offset {offset} is not below 6, where the log ends");
    let below =
        |offset, next| format!("offset {offset} is below {next}, where the segment goes on");
    assert_eq!(refused(1 << 40), (1, beyond((1 << 40) + 1)));
    assert_eq!(refused(5), (1, beyond(6)));
    assert_eq!(refused(i64::MAX), (1, beyond(i64::MAX)));
    assert_eq!(refused(1), (1, below(1, 2)));
    assert_eq!(refused(i64::MIN), (1, below(i64::MIN, 2)));
    assert_eq!(refused(3), (2, below(4, 5)));
}
