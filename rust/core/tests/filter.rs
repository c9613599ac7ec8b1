//! Filtered batches keep everything except the dropped records, even if the bytes are hostile.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    BatchBuilder, BatchFilter, BatchOptions, Codec, Compression, Compressor, ErrorKind, Header,
    Headers, NewRecord, Retention, TimestampType, Verdict,
};
use support::{batch, field, framed, message, record, row, rows, varint};

fn header(entry: &[u8]) -> Header {
    Header::parse(entry, 0).unwrap().unwrap()
}

/// Returns the remaining batch, given a letter for each record: k(eep), b(lank) or d(rop).
fn filtered(
    entry: &[u8],
    retention: Retention,
    verdicts: &str,
) -> brokerless_core::Result<Vec<u8>> {
    let mut filter = BatchFilter::new(1 << 20);
    let verdict = |number| match verdicts.as_bytes().get(number) {
        Some(b'k') => Verdict::Keep,
        Some(b'b') => Verdict::Blank,
        _ => Verdict::Drop,
    };
    let left = filter.filter(&header(entry), entry, retention, verdict)?;
    Ok(left.batch.to_vec())
}

fn plain(entry: &[u8], verdicts: &str) -> Vec<u8> {
    filtered(entry, Retention::default(), verdicts).unwrap()
}

fn three(codec: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder
        .begin(BatchOptions {
            codec: Codec::new(codec, None).unwrap(),
            base_offset: 10,
            partition_leader_epoch: 4,
            producer_id: 7,
            producer_epoch: 2,
            base_sequence: 5,
            is_transactional: true,
            ..BatchOptions::default()
        })
        .unwrap();
    for (offset, key) in [(10, "a"), (11, "b"), (12, "c")] {
        builder
            .append(&NewRecord {
                offset,
                timestamp: 1000 + offset,
                key: Some(key.as_bytes()),
                value: (key != "c").then_some(b"value"),
                headers: Headers::NONE,
            })
            .unwrap();
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_batch_of_which_all_stays_is_not_built_anew() {
    for codec in (0..5).filter_map(Compression::from_id) {
        let entry = three(codec);
        assert_eq!(plain(&entry, "kkk"), entry);
    }
}

#[test]
fn offsets_and_sequences_outlive_the_records() {
    for codec in (0..5).filter_map(Compression::from_id) {
        let entry = three(codec);
        let left = plain(&entry, "dkd");
        let (before, after) = (header(&entry), header(&left));
        after.check_crc(&left).unwrap();
        assert_eq!(
            after,
            Header {
                batch_length: after.batch_length,
                crc: after.crc,
                base_timestamp: 1011,
                max_timestamp: 1011,
                records_count: Some(1),
                ..before
            }
        );
        assert_eq!(rows(&left), [row(11, 1011, Some("b"), Some("value"))]);
    }
}

#[test]
fn an_uncompressed_batch_is_rebuilt_to_the_byte() {
    let keys = |from: usize, base| -> Vec<u8> {
        (from..3)
            .flat_map(|n| {
                record(
                    &row(20 + n as i64, 1003 + n as i64, Some("k"), None),
                    20,
                    base,
                )
            })
            .collect()
    };
    let mut expected = batch(20, 0, 2, 5, &keys(1, 1004));
    expected[27..35].copy_from_slice(&1004i64.to_be_bytes());
    expected[35..43].copy_from_slice(&1005i64.to_be_bytes());
    let crc = brokerless_core::crc32c(&expected[21..]);
    expected[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(plain(&batch(20, 0, 3, 5, &keys(0, 1000)), "dkk"), expected);
}

#[test]
fn a_blank_value_is_empty_and_a_tombstone_stays_one() {
    let left = plain(&three(Compression::Lz4), "bkb");
    let expected = [
        row(10, 1010, Some("a"), Some("")),
        row(11, 1011, Some("b"), Some("value")),
        row(12, 1012, Some("c"), None),
    ];
    assert_eq!(rows(&left), expected);
}

#[test]
fn without_records_a_batch_goes_or_leaves_its_header() {
    let entry = three(Compression::Zstd);
    assert_eq!(plain(&entry, ""), b"");
    let retention = Retention {
        retain_empty: true,
        ..Retention::default()
    };
    let left = filtered(&entry, retention, "").unwrap();
    let (before, after) = (header(&entry), header(&left));
    after.check_crc(&left).unwrap();
    let expected = Header {
        batch_length: 49,
        crc: after.crc,
        attributes: before.attributes & !7,
        base_timestamp: -1,
        records_count: Some(0),
        ..before
    };
    assert_eq!((left.len(), after), (61, expected));
    // and again, now that it is empty
    assert_eq!(filtered(&left, retention, "").unwrap(), left);
}

#[test]
fn a_horizon_is_set_once_and_moves_no_timestamp() {
    let until = |delete_horizon_ms| Retention {
        delete_horizon_ms: Some(delete_horizon_ms),
        ..Retention::default()
    };
    let entry = three(Compression::None);
    let stamped = filtered(&entry, until(9000), "kkk").unwrap();
    assert_eq!(header(&stamped).delete_horizon_ms(), Some(9000));
    assert_eq!(rows(&stamped), rows(&entry));
    assert_eq!(filtered(&stamped, until(9999), "kkk").unwrap(), stamped);
    let fewer = filtered(&stamped, until(9999), "dkk").unwrap();
    assert_eq!(header(&fewer).delete_horizon_ms(), Some(9000));
    assert_eq!(rows(&fewer), rows(&entry)[1..]);
}

#[test]
fn log_append_time_stays_that_of_the_batch() {
    let payload = [
        record(&row(0, 1000, Some("a"), None), 0, 1000),
        record(&row(1, 1500, Some("b"), None), 0, 1000),
    ]
    .concat();
    let left = plain(&batch(0, 8, 2, 1, &payload), "dk");
    let after = header(&left);
    assert_eq!(after.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!((after.base_timestamp, after.max_timestamp), (2000, 2000));
    assert_eq!(rows(&left), [row(1, 2000, Some("b"), None)]);
}

#[test]
fn header_keys_that_are_no_text_stay_byte_for_byte() {
    let mut body = vec![0];
    body.extend(
        [
            varint(0),
            varint(1),
            field(Some(b"k")),
            field(Some(b"v")),
            varint(1),
        ]
        .concat(),
    );
    body.extend([field(Some(b"\xff\xfe")), field(None)].concat());
    let dropped = record(&row(0, 1000, None, None), 0, 1000);
    let left = plain(&batch(0, 0, 2, 1, &[dropped, framed(&body)].concat()), "dk");
    assert_eq!(left[61..], framed(&body));
}

#[test]
fn messages_become_batches_of_magic_2() {
    let single = message(1, 0, 40, 1234, Some(b"a"), None);
    let stamped = Retention {
        delete_horizon_ms: Some(5000),
        ..Retention::default()
    };
    let left = filtered(&single, stamped, "k").unwrap();
    let after = header(&left);
    assert_eq!(
        (after.magic, after.base_offset, after.last_offset()),
        (2, 40, 40)
    );
    assert_eq!((after.producer_id, after.partition_leader_epoch), (-1, -1));
    assert_eq!(after.delete_horizon_ms(), Some(5000));
    assert_eq!(rows(&left), [row(40, 1234, Some("a"), None)]);

    let inner: Vec<u8> = (0..3)
        .flat_map(|n| message(0, 0, 50 + n, 0, Some(b"k"), Some(b"v")))
        .collect();
    let mut value = Vec::new();
    let gzip = Codec::new(Compression::Gzip, None).unwrap();
    Compressor::new()
        .compress(gzip, 0, &inner, &mut value)
        .unwrap();
    let left = plain(&message(0, 1, 52, 0, None, Some(&value)), "dkk");
    let after = header(&left);
    assert_eq!(
        (after.magic, after.base_offset, after.last_offset()),
        (2, 51, 52)
    );
    assert_eq!(after.compression().unwrap(), Compression::Gzip);
    let expected = [51, 52].map(|offset| row(offset, -1, Some("k"), Some("v")));
    assert_eq!(rows(&left), expected);
}

#[test]
fn a_message_cannot_stay_empty() {
    let single = message(1, 0, 40, 1234, None, None);
    let retention = Retention {
        retain_empty: true,
        ..Retention::default()
    };
    let error = filtered(&single, retention, "d").unwrap_err();
    assert_eq!(
        (error.kind, error.base_offset),
        (ErrorKind::Unsupported, Some(40))
    );
}

#[test]
fn damage_is_an_error_and_the_next_batch_is_not_touched_by_it() {
    let entry = three(Compression::None);
    let mut filter = BatchFilter::new(1 << 20);
    for cut in 61..entry.len() {
        let mut short = entry[..cut].to_vec();
        short[8..12].copy_from_slice(&(cut as i32 - 12).to_be_bytes());
        let parsed = header(&short);
        let error = filter
            .filter(&parsed, &short, Retention::default(), |_| Verdict::Keep)
            .unwrap_err();
        assert_eq!(
            (error.kind, error.base_offset),
            (ErrorKind::Corrupt, Some(10))
        );
        let keep_last = |number| {
            if number == 2 {
                Verdict::Keep
            } else {
                Verdict::Drop
            }
        };
        let left = filter
            .filter(&header(&entry), &entry, Retention::default(), keep_last)
            .unwrap();
        assert_eq!(left.batch, plain(&entry, "ddk"));
    }
}
