//! Conversions to another magic give the same result as Kafka's own conversions, and errors name the data that would be
//! lost.

use brokerless_core::{
    AbortedTransaction, Compression, Conversion, Converted, Converter, Header, TimestampType,
};

use crate::batch_size::of_producer;
use crate::support::{Row, batch, hex, message, record, row, rows};
use crate::{
    ABORT, COMMIT, LOG_APPEND_TIME, TRANSACTIONAL, V0, V0_LZ4, V1, V1_GZIP,
    V1_GZIP_LOG_APPEND_TIME, V1_LZ4, V2, V2_WITHOUT_TIMESTAMPS, WITH_HEADERS, codec, convert,
    converted_of, headers, refusal, to, to_codec,
};

#[test]
fn up_gives_the_bytes_of_kafkas_builder() {
    // A broker writes its leader epoch here.
    let placed = |batch| {
        let mut batch = hex(batch);
        batch[12..16].fill(0);
        batch
    };
    assert_eq!(convert(to(2), &hex(V1)), placed(V2));
    assert_eq!(convert(to(2), &hex(V0)), placed(V2_WITHOUT_TIMESTAMPS));
    let plain = Conversion {
        magic: Some(2),
        ..to_codec(Compression::None)
    };
    assert_eq!(convert(plain, &hex(V1_GZIP)), placed(V2));
    assert_eq!(convert(plain, &hex(V1_LZ4)), placed(V2));
    assert_eq!(convert(plain, &hex(V0_LZ4)), placed(V2_WITHOUT_TIMESTAMPS));
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
    // Each message has the append time and its flag.
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
    assert_eq!((header.partition_leader_epoch, header.producer_id), (0, -1));
    assert_eq!(rows(&up), rows(&hex(V1_GZIP_LOG_APPEND_TIME)));
}

#[test]
fn a_wrapper_that_ends_behind_its_messages_leaves_its_end() {
    // In magic 0, inner offsets are absolute, and the wrapper's may be anything.
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
    // Old librdkafka wrote 0.
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
        assert!(refused.contains("use another codec"), "{refused}");
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
    assert!(refused(zstd).contains("does not support zstd"));
    let drops = Conversion {
        drop_headers: true,
        ..to(2)
    };
    assert!(refused(drops).contains("no headers need to be dropped"));
    let small = Conversion {
        batch_size: Some(61),
        ..Conversion::default()
    };
    assert!(refused(small).contains("batch size 61 is too small"));
}

fn without_headers(mut rows: Vec<Row>) -> Vec<Row> {
    rows.iter_mut().for_each(|row| row.headers.clear());
    rows
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

#[test]
fn producers_are_dropped_from_format_2_too_and_records_stay() {
    let dropping = Conversion {
        drop_producers: true,
        ..Conversion::default()
    };
    let log = [of_producer(3, 5, 4, 0x10), of_producer(7, 9, 1, 0)].concat();
    let also_compressed = Conversion {
        drop_producers: true,
        ..to_codec(Compression::Lz4)
    };
    for conversion in [dropping, also_compressed] {
        let (out, converted) = converted_of(conversion, &log, &[], i64::MAX).unwrap();
        assert_eq!(rows(&out), rows(&log));
        for (new, old) in headers(&out).iter().zip(headers(&log)) {
            let producer = (new.producer_id, new.producer_epoch, new.base_sequence);
            assert_eq!(producer, (-1, -1, -1));
            assert!(!new.is_transactional());
            assert_eq!(
                (new.base_offset, new.last_offset(), new.max_timestamp),
                (old.base_offset, old.last_offset(), old.max_timestamp)
            );
            assert_eq!(new.partition_leader_epoch, old.partition_leader_epoch);
        }
        assert_eq!((converted.producers, converted.changed), (2, 2));
    }
}
