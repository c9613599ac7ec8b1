//! Deliberately broken records are refused if Kafka refuses them, else read, by both paths.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{AbortedTransaction, Columns, ErrorKind, Fetch, Header, Selection};
use support::{
    Row, batch, everything, field, first_error, framed, read, record, row, rows, varint,
};

/// A batch of one record with this body, between two sound batches, so that its surroundings cannot hide the damage.
fn body_error(body: &[u8]) -> String {
    let sound = |offset| record(&row(offset, 1000, Some("k"), Some("v")), 0, 1000);
    let filler = row(3, 1000, None, Some(&"x".repeat(200)));
    let payload = [sound(0), framed(body), sound(2), record(&filler, 0, 1000)].concat();
    let bytes = batch(0, 0, 4, 3, &payload);
    let message = first_error(&bytes).message;
    // What a record is does not depend on what is asked for, nor on whether the record itself is.
    for (wanted, start_offset) in (0..1 << 5).flat_map(|wanted| [(wanted, 0), (wanted, 2)]) {
        let mut columns = Columns::default();
        columns.keys = (wanted & 1 != 0).then(Default::default);
        columns.values = (wanted & 2 != 0).then(Default::default);
        columns.offsets = (wanted & 4 != 0).then(Vec::new);
        columns.timestamps = (wanted & 8 != 0).then(Vec::new);
        columns.sequences = (wanted & 16 != 0).then(Vec::new);
        let mut selection = Selection::new(&[]);
        selection.start_offset = start_offset;
        let header = Header::parse(&bytes, 0).unwrap().unwrap();
        let error = Fetch::new(selection, true, 1 << 24)
            .batch(&header, &bytes, &mut columns)
            .unwrap_err();
        assert_eq!(error.message, message, "columns {wanted:05b}");
        assert_eq!(columns.rows(), 0);
    }
    message
}

fn body(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn malformed_records_are_refused() {
    let start = [0, 0, 2];
    let null = varint(-1);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "key longer than the record",
            body(&[&start, &varint(50), b"k"]),
        ),
        (
            "value longer than the record",
            body(&[&start, &null, &varint(50), b"v"]),
        ),
        ("no value", body(&[&start, &null])),
        ("no header count", body(&[&start, &null, &null])),
        (
            "header count -1",
            body(&[&start, &null, &null, &varint(-1)]),
        ),
        (
            "header count one too high",
            body(&[&start, &null, &null, &varint(2), &field(Some(b"h")), &null]),
        ),
        (
            "header count one too low",
            body(&[
                &start,
                &null,
                &null,
                &varint(1),
                &field(Some(b"h")),
                &null,
                &field(Some(b"h")),
                &null,
            ]),
        ),
        (
            "header count huge",
            body(&[
                &start,
                &null,
                &null,
                &varint(i64::from(i32::MAX)),
                &field(Some(b"h")),
                &null,
            ]),
        ),
        (
            "header key null",
            body(&[&start, &null, &null, &varint(1), &null, &null]),
        ),
        (
            "header key too long",
            body(&[&start, &null, &null, &varint(1), &varint(9), b"h"]),
        ),
        (
            "header value too long",
            body(&[
                &start,
                &null,
                &null,
                &varint(1),
                &field(Some(b"h")),
                &varint(9),
                b"v",
            ]),
        ),
        (
            "bytes after the fields",
            body(&[&start, &null, &null, &[0, 0]]),
        ),
        (
            "varint of six bytes",
            body(&[&[0, 0], &[0x80; 5], &[0], &null, &null, &[0]]),
        ),
        (
            "varlong of eleven bytes",
            body(&[&[0], &[0x80; 10], &[0], &null, &null, &[0]]),
        ),
        ("nothing", vec![]),
        ("attributes only", vec![0]),
    ];
    for (name, body) in cases {
        assert!(
            body_error(&body).starts_with("record 1 of 4: "),
            "{name}: {}",
            body_error(&body)
        );
    }
}

#[test]
fn a_negative_or_overlong_record_length_is_refused() {
    for length in [-1, -1000, 500, i64::from(i32::MAX), i64::from(i32::MIN)] {
        let payload = [varint(length), vec![0; 200]].concat();
        assert_eq!(
            first_error(&batch(0, 0, 1, 0, &payload)).kind,
            ErrorKind::Corrupt,
            "{length}"
        );
    }
}

#[test]
fn lengths_below_minus_one_are_null_and_overlong_varints_are_read() {
    let body = [
        vec![0, 0, 0],
        varint(-7),
        varint(-2),
        varint(1),
        field(Some(b"h")),
        varint(-9),
    ]
    .concat();
    let padded = [vec![(body.len() as u8) << 1 | 0x80, 0x80, 0], body].concat();
    let filler = record(&row(1, 1000, None, Some(&"x".repeat(200))), 0, 1000);
    let read = rows(&batch(0, 0, 2, 1, &[padded, filler].concat()));
    assert_eq!((&read[0].key, &read[0].value), (&None, &None));
    assert_eq!(read[0].headers, vec![("h".to_owned(), None)]);
}

#[test]
fn the_count_must_match_the_records_and_the_last_offset_need_not() {
    let payload: Vec<u8> = (0..3)
        .flat_map(|i| record(&row(i, 1000, None, Some("v")), 0, 1000))
        .collect();
    for count in [-1, 2, 4] {
        assert_eq!(
            first_error(&batch(0, 0, count, 2, &payload)).kind,
            ErrorKind::Corrupt,
            "{count}"
        );
    }
    for last_offset_delta in [2, 99] {
        assert_eq!(rows(&batch(0, 0, 3, last_offset_delta, &payload)).len(), 3);
    }
}

#[test]
fn an_unknown_codec_is_unsupported_and_names_where_the_next_batch_starts() {
    for codec in 5..8 {
        let bytes = batch(9, codec, 1, 0, &record(&row(9, 1000, None, None), 9, 1000));
        let error = first_error(&bytes);
        assert_eq!(
            (error.kind, error.base_offset),
            (ErrorKind::Unsupported, Some(9))
        );
    }
}

#[test]
fn framing_is_judged_before_anything_is_read() {
    let sound = batch(0, 0, 1, 0, &record(&row(0, 1000, None, None), 0, 1000));
    for (length, kind) in [
        (-1, ErrorKind::Corrupt),
        (0, ErrorKind::Corrupt),
        (13, ErrorKind::Corrupt),
        (48, ErrorKind::Corrupt),
        (i32::MAX, ErrorKind::Corrupt),
    ] {
        let mut bytes = sound.clone();
        bytes[8..12].copy_from_slice(&i32::to_be_bytes(length));
        assert_eq!(first_error(&bytes).kind, kind, "length {length}");
    }
    for magic in [3, 37, 0x7f, 0x80, 0xff] {
        let mut bytes = sound.clone();
        bytes[16] = magic;
        assert_eq!(
            first_error(&bytes).kind,
            ErrorKind::Unsupported,
            "magic {magic}"
        );
    }
}

#[test]
fn a_damaged_batch_loses_all_its_rows_and_none_before_it() {
    let good: Vec<u8> = (0..3)
        .flat_map(|i| record(&row(i, 1000, Some("k"), Some("v")), 0, 1000))
        .collect();
    let bad = [good.clone(), vec![0x7f]].concat();
    let log = [batch(0, 0, 3, 2, &good), batch(3, 0, 4, 3, &bad)].concat();
    for plain in [true, false] {
        let (rows, error) = read(&log, &mut everything(), plain);
        assert_eq!(rows.len(), 3);
        assert_eq!(error.unwrap().base_offset, Some(3));
    }
}

#[test]
fn only_the_rows_asked_for_come_out() {
    let payload: Vec<u8> = (10..20)
        .flat_map(|i| record(&row(i, 1000 + i, None, Some("v")), 10, 1000))
        .collect();
    let bytes = batch(10, 0, 10, 9, &payload);
    let offsets = |choose: fn(&mut Selection)| -> Vec<i64> {
        let mut selection = Selection::new(&[]);
        choose(&mut selection);
        let mut fetch = Fetch::new(selection, true, 1 << 20);
        read(&bytes, &mut fetch, true)
            .0
            .iter()
            .map(|row| row.offset)
            .collect()
    };
    assert_eq!(offsets(|wanted| wanted.start_offset = 17), [17, 18, 19]);
    assert_eq!(offsets(|wanted| wanted.end_offset = 12), [10, 11]);
    assert_eq!(offsets(|wanted| wanted.start_offset = 20), [0i64; 0]);
    assert_eq!(offsets(|wanted| wanted.end_offset = 10), [0i64; 0]);
}

#[test]
fn a_transaction_is_dropped_between_its_first_offset_and_its_marker() {
    let one = |offset| {
        batch(
            offset,
            0x10,
            1,
            0,
            &record(&row(offset, 1000, None, Some("v")), offset, 1000),
        )
    };
    let log: Vec<u8> = [3, 5, 9, 12, 20].into_iter().flat_map(one).collect();
    let aborted = |producer_id, first_offset, last_offset| AbortedTransaction {
        producer_id,
        first_offset,
        last_offset,
    };
    let kept = |ranges: &[AbortedTransaction]| -> Vec<i64> {
        let mut fetch = Fetch::new(Selection::new(ranges), true, 1 << 20);
        read(&log, &mut fetch, true)
            .0
            .iter()
            .map(|row| row.offset)
            .collect()
    };
    assert_eq!(kept(&[aborted(7, 5, 10)]), [3, 12, 20]);
    assert_eq!(
        kept(&[aborted(7, 12, 15), aborted(7, 3, 4)]),
        [5, 9, 20],
        "in any order"
    );
    assert_eq!(
        kept(&[aborted(7, 3, 15), aborted(7, 5, 6), aborted(7, 4, 10)]),
        [20],
        "one within another, as a damaged log may have them"
    );
    assert_eq!(
        kept(&[aborted(8, 0, 100)]),
        [3, 5, 9, 12, 20],
        "another producer's"
    );
}

#[test]
fn both_ways_agree_on_every_shape_of_record() {
    let text = |length: usize| "k".repeat(length);
    let mut all: Vec<Row> = Vec::new();
    for key in [
        None,
        Some(0),
        Some(1),
        Some(16),
        Some(17),
        Some(63),
        Some(64),
        Some(128),
        Some(129),
        Some(9000),
    ] {
        for value in [
            None,
            Some(0),
            Some(15),
            Some(16),
            Some(100),
            Some(128),
            Some(200),
            Some(70_000),
        ] {
            // Miri takes minutes for the long ones.
            if cfg!(miri) && (key > Some(1000) || value > Some(1000)) {
                continue;
            }
            for headers in 0..3 {
                let mut one = row(all.len() as i64, 1000 + 37 * all.len() as i64, None, None);
                one.key = key.map(|length| text(length).into_bytes());
                one.value = value.map(|length| text(length).into_bytes());
                one.headers = [
                    ("source".to_owned(), Some(b"orders".to_vec())),
                    ("\u{e4}\u{20ac} not ascii".to_owned(), None),
                ][..headers]
                    .to_vec();
                all.push(one);
            }
        }
    }
    // They are far apart, so that deltas of every size occur.
    let last = all.len();
    all[last - 2].timestamp = 1000 - (1 << 40);
    all[last - 1].timestamp = i64::from(i32::MAX) * 4000;
    let payload: Vec<u8> = all.iter().flat_map(|row| record(row, 0, 1000)).collect();
    let bytes = batch(0, 0, last as i32, last as i32 - 1, &payload);
    assert_eq!(rows(&bytes), all);
}

#[test]
fn a_bit_that_makes_a_batch_look_empty_or_control_is_noticed() {
    let payload = record(&row(0, 1000, None, Some("v")), 0, 1000);
    let good = batch(0, 0, 1, 0, &payload);
    for (at, bit) in [(22, 0x20), (60, 0x01)] {
        let mut bytes = good.clone();
        bytes[at] ^= bit;
        assert!(
            first_error(&bytes).message.contains("crc mismatch"),
            "byte {at}"
        );
    }
}

#[test]
fn very_many_records_come_in_parts_and_the_error_with_the_first() {
    let count = 600_000;
    let one = framed(&[vec![0, 0, 0], varint(-1), varint(-1), varint(0)].concat());
    let payload = one.repeat(count);
    let bytes = batch(0, 0, count as i32, 0, &payload);
    assert_eq!(rows(&bytes).len(), count);
    let bad = [&payload[..], &[0x7f]].concat();
    assert_eq!(
        first_error(&batch(0, 0, count as i32 + 1, 0, &bad)).kind,
        ErrorKind::Corrupt
    );
}
