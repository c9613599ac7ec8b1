//! Builds successive batches of any records in the same memory.

use brokerless_core::{BatchBuilder, BatchOptions, Compression, Header, Headers, NewRecord};

use crate::support::{Row, row, rows};
use crate::{T, built, bytes, hello_world, magic, with, with_headers};

#[test]
fn without_records_there_is_no_batch() {
    for options in [magic(0), magic(1), magic(2), with(1, Compression::Gzip)] {
        let (bytes, built) = built(options, &[]).unwrap();
        assert_eq!(bytes, b"");
        assert_eq!((built.size, built.last_offset), (0, -1));
    }
}

#[test]
fn an_overridden_last_offset_stays() {
    let mut builder = BatchBuilder::new();
    builder.begin(BatchOptions::default()).unwrap();
    builder
        .append(&NewRecord {
            offset: 0,
            timestamp: 0,
            key: None,
            value: None,
            headers: Headers::NONE,
        })
        .unwrap();
    builder.override_last_offset(9).unwrap();
    builder.override_last_offset(1 << 31).unwrap_err();
    let mut out = Vec::new();
    assert_eq!(builder.finish(&mut out).unwrap().last_offset, 9);
    assert_eq!(
        Header::parse(&out, 0).unwrap().unwrap().last_offset_delta,
        9
    );
}

/// Every length where the varint or the copying method changes, next to keys and values of other lengths.
#[test]
fn what_is_built_is_read() {
    let text: String = (0..40_000u32)
        .map(|i| char::from(b'a' + (i * 7 % 26) as u8))
        .collect();
    let lengths = [
        0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257, 8191, 8192,
        40_000,
    ];
    let rows_with = |has_headers: bool| -> Vec<Row> {
        let rows = lengths.iter().enumerate().map(|(i, &n)| {
            let other = lengths[lengths.len() - 1 - i];
            let key = (i % 3 > 0).then(|| &text[..other]);
            let value = (i % 5 > 0).then(|| &text[1..][..n.min(39_000)]);
            let made = row(7 + 3 * i as i64, T + 1000 - (i * i) as i64, key, value);
            if has_headers && i % 2 > 0 {
                with_headers(made, &[("h", value), ("h", None), (&text[..i], Some(""))])
            } else {
                made
            }
        });
        rows.collect()
    };
    for (magic, codecs) in [(0, 4), (1, 4), (2, 5)] {
        for id in 0..codecs {
            let options = BatchOptions {
                base_offset: 7,
                ..with(magic, Compression::from_id(id).unwrap())
            };
            let mut expected = rows_with(magic == 2);
            let bytes = bytes(options, &expected);
            if magic == 0 {
                expected.iter_mut().for_each(|row| row.timestamp = -1);
            }
            assert_eq!(rows(&bytes), expected, "magic {magic}, codec {id}");
        }
    }
}

#[test]
fn batches_follow_one_another_in_the_same_memory() {
    let mut builder = BatchBuilder::new();
    let mut out = Vec::new();
    let mut expected = Vec::new();
    for round in 0..20 {
        let codec = Compression::from_id(round % 5).unwrap();
        let options = with(if codec == Compression::Zstd { 2 } else { 1 }, codec);
        let rows = hello_world(i64::from(round), T);
        builder.begin(options).unwrap();
        // Discarded, because it is not finished.
        append_all(&mut builder, &rows[..1]);
        builder.begin(options).unwrap();
        append_all(&mut builder, &rows);
        builder.finish(&mut out).unwrap();
        expected.extend(bytes(options, &rows));
    }
    assert_eq!(out, expected);
}

fn append_all(builder: &mut BatchBuilder, rows: &[Row]) {
    for row in rows {
        builder
            .append(&NewRecord {
                offset: row.offset,
                timestamp: row.timestamp,
                key: row.key.as_deref(),
                value: row.value.as_deref(),
                headers: Headers::NONE,
            })
            .unwrap();
    }
}
