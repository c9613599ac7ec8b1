//! Searches leave out batches that hold no sought record, and check the others whole.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use brokerless_core::{Criterion, Fetch, Search, SearchedPart, Test, TextTest};
use support::{Row, batch, everything, message, read, record, row, wrapper};

fn texts(texts: &[&str]) -> TextTest {
    TextTest {
        texts: texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
        ..TextTest::default()
    }
}

fn search(part: SearchedPart, test: TextTest) -> Arc<Search> {
    let criterion = Criterion::new(part, Test::Texts(test)).unwrap();
    Arc::new(Search::new(vec![criterion], false, Vec::new()))
}

fn searching(search: &Arc<Search>) -> Fetch {
    let mut fetch = everything();
    fetch.search = Some(search.clone());
    fetch
}

fn of_rows(base_offset: i64, rows: &[Row]) -> Vec<u8> {
    let records: Vec<u8> = rows
        .iter()
        .flat_map(|row| record(row, base_offset, 1000))
        .collect();
    let count = rows.len() as i32;
    batch(base_offset, 0, count, count - 1, &records)
}

#[test]
fn rows_of_all_formats_are_found_and_counted() {
    let log = [
        message(0, 0, 0, -1, Some(b"a"), Some(b"needle")),
        wrapper(
            1,
            2,
            1000,
            0,
            &[
                message(1, 0, 0, 1000, None, Some(b"hay")),
                message(1, 0, 1, 1000, Some(b"needles"), None),
            ],
        ),
        of_rows(
            3,
            &[row(3, 1000, None, Some("hay")), row(4, 1000, None, None)],
        ),
        of_rows(
            5,
            &[
                row(5, 1000, None, Some("needle")),
                row(6, 1000, None, Some("hay")),
            ],
        ),
    ]
    .concat();
    for plain in [true, false] {
        let search = search(SearchedPart::Any, texts(&["needle"]));
        let (found, error) = read(&log, &mut searching(&search), plain);
        let offsets: Vec<i64> = found.iter().map(|row| row.offset).collect();
        assert_eq!((offsets, error), (vec![0, 2, 5], None));
        assert_eq!(search.progress().0, 7);
    }
}

#[test]
fn a_text_that_spans_two_fields_or_two_records_is_not_found() {
    let log = of_rows(
        0,
        &[
            row(0, 1000, Some("nee"), Some("dle")),
            row(1, 1000, None, None),
        ],
    );
    // What lies between the key and the value is the length of the value.
    for text in ["needle", "nee\u{6}dle"] {
        let search = search(SearchedPart::Any, texts(&[text]));
        assert_eq!(read(&log, &mut searching(&search), true), (vec![], None));
    }
}

#[test]
fn a_batch_that_has_the_text_is_checked_whole() {
    let mut records = record(&row(0, 1000, None, Some("needle")), 0, 1000);
    records.extend([0x7f, 0]);
    let malformed = batch(0, 0, 2, 1, &records);
    let found = search(SearchedPart::Value, texts(&["needle"]));
    let (rows, error) = read(&malformed, &mut searching(&found), true);
    assert_eq!(rows, vec![]);
    assert!(error.unwrap().message.starts_with("record 1 of 2: "));
    let absent = search(SearchedPart::Value, texts(&["absent"]));
    assert_eq!(
        read(&malformed, &mut searching(&absent), true),
        (vec![], None)
    );
}

#[test]
fn a_damaged_batch_is_an_error_though_it_has_no_text() {
    let mut log = of_rows(0, &[row(0, 1000, None, Some("hay"))]);
    *log.last_mut().unwrap() ^= 1;
    let absent = search(SearchedPart::Any, texts(&["absent"]));
    let (_, error) = read(&log, &mut searching(&absent), true);
    assert!(error.unwrap().message.contains("crc"));
}

#[test]
fn names_of_headers_are_compared_as_readers_show_them() {
    let mut named = row(0, 1000, None, None);
    named.headers = vec![
        ("id".to_owned(), Some(b"7".to_vec())),
        ("id".to_owned(), None),
    ];
    let log = of_rows(0, &[named.clone()]);
    let rows = |part, test| read(&log, &mut searching(&search(part, test)), true).0;
    let id = || SearchedPart::Header(b"id".to_vec());
    assert_eq!(rows(id(), texts(&["7"])), vec![named.clone()]);
    assert_eq!(rows(id(), texts(&["8"])), vec![]);
    assert_eq!(
        rows(SearchedPart::Header(b"i".to_vec()), texts(&["7"])),
        vec![]
    );
    let present = Criterion::new(id(), Test::Present).unwrap();
    let search = Arc::new(Search::new(vec![present], false, Vec::new()));
    assert_eq!(read(&log, &mut searching(&search), true).0, vec![named]);
}

#[test]
fn a_pattern_may_end_with_a_comment() {
    let log = of_rows(0, &[row(0, 1000, None, Some("needle"))]);
    let test = TextTest {
        are_patterns: true,
        is_whole: true,
        ..texts(&["(?x) need le # a comment", "hay"])
    };
    let found = search(SearchedPart::Value, test);
    assert_eq!(read(&log, &mut searching(&found), true).0.len(), 1);
}

#[test]
fn a_pattern_that_does_not_compile_is_refused_in_one_line() {
    for (pattern, reason) in [
        ("(", "unclosed group"),
        ("a{2,1}", "invalid repetition count range"),
    ] {
        let test = TextTest {
            are_patterns: true,
            ..texts(&[pattern])
        };
        let error = Criterion::new(SearchedPart::Any, Test::Texts(test)).unwrap_err();
        assert!(error.message.contains(reason), "{}", error.message);
        assert_eq!(error.message.lines().count(), 1);
    }
}
