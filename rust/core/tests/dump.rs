//! Dumps equal those of Kafka 4.1's own tool. `data/dump.log` has contents that golden logs lack: unusual text, KRaft
//! and unknown control records, wrapping sequences, a LogAppendTime batch, a delete horizon, mixed magics, gaps, a bad
//! inner checksum. `data/dump.txt` is the tool's output for it with `--print-data-log`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use brokerless_core::{BytesFormat, ErrorKind, JsonDump, LogDump, crc32c};

const LOG: &[u8] = include_bytes!("data/dump.log");
const TEXT: &str = include_str!("data/dump.txt");

/// Feeds windows of `window` bytes, or larger ones if a batch needs it.
fn lines(dump: &mut LogDump, log: &[u8], window: usize) -> String {
    let (mut out, mut position, mut size) = (Vec::new(), 0, window);
    while position < log.len() {
        let end = log.len().min(position + size);
        let mut text = Vec::new();
        let consumed = dump
            .feed(&log[position..end], position as u64, &mut text)
            .unwrap();
        out.extend(text);
        size = if consumed == 0 { size * 2 } else { window };
        position += consumed;
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn every_line_is_the_tools_whatever_the_window() {
    for window in [1, 61, 100, 1 << 20] {
        let mut dump = LogDump::new(true, true, false, 1 << 20);
        assert_eq!(lines(&mut dump, LOG, window), TEXT, "{window}");
    }
}

#[test]
fn less_is_shown_on_request() {
    let shallow: String = TEXT
        .lines()
        .filter(|line| !line.starts_with('|'))
        .map(|line| format!("{line}\n"))
        .collect();
    // One payload contains a line break.
    let shallow = shallow.replace("\0x\n", "");
    assert_eq!(
        lines(
            &mut LogDump::new(false, false, false, 1 << 20),
            LOG,
            1 << 20
        ),
        shallow
    );
    let deep = lines(&mut LogDump::new(true, false, false, 1 << 20), LOG, 1 << 20);
    assert!(deep.lines().all(|line| !line.contains(" payload: ")));
    assert_eq!(deep.lines().count(), TEXT.lines().count() - 1);
    let bare = lines(&mut LogDump::new(true, true, true, 1 << 20), LOG, 1 << 20);
    assert!(bare.contains("\n| key: k\n"), "a key alone");
    assert!(
        bare.contains("\n payload: v\n"),
        "a value alone comes without the bar"
    );
    assert!(
        bare.contains("isvalid: true\n\n"),
        "neither leaves an empty line"
    );
}

#[test]
fn gaps_are_noted_in_log_order() {
    let mut dump = LogDump::new(true, false, false, 1 << 20);
    lines(&mut dump, LOG, 1 << 20);
    assert_eq!(dump.gaps()[..4], [(3, 10), (12, 14), (14, 20), (22, 30)]);
    let mut dump = LogDump::new(false, false, false, 1 << 20);
    lines(&mut dump, LOG, 1 << 20);
    assert_eq!(dump.gaps(), []);
}

/// Two batches. The last record of the second one is cut, under a right checksum.
fn damaged() -> (Vec<u8>, usize) {
    let good = LOG[..12 + i32::from_be_bytes(LOG[8..12].try_into().unwrap()) as usize].to_vec();
    let mut bad = good.clone();
    bad.pop();
    let length = bad.len() as u32 - 12;
    bad[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c(&bad[21..]);
    bad[17..21].copy_from_slice(&crc.to_be_bytes());
    let at = good.len();
    ([good, bad].concat(), at)
}

#[test]
fn what_can_be_read_of_a_damaged_batch_is_shown_before_its_error() {
    let (log, at) = damaged();
    let mut dump = LogDump::new(true, true, false, 1 << 20);
    let mut text = Vec::new();
    assert_eq!(dump.feed(&log, 0, &mut text), Ok(at));
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(text.matches("| offset: ").count(), 4 + 3);
    assert!(text.ends_with("x\n"), "no half line: {text}");
    let error = dump
        .feed(&log[at..], at as u64, &mut Vec::new())
        .unwrap_err();
    assert_eq!(
        (error.kind, error.position),
        (ErrorKind::Corrupt, at as u64)
    );
    assert_eq!(error.next_position, Some(log.len() as u64));

    // The same without a batch before it: text without progress.
    let mut dump = LogDump::new(true, true, false, 1 << 20);
    let mut text = Vec::new();
    assert_eq!(dump.feed(&log[at..], at as u64, &mut text), Ok(0));
    assert!(!text.is_empty());
    assert_eq!(dump.feed(&log[at..], at as u64, &mut text), Err(error));
}

#[test]
fn json_of_a_damaged_batch_has_no_records_but_its_header() {
    let (log, at) = damaged();
    let mut dump = JsonDump::new(true, BytesFormat::Utf8, 1 << 20);
    let mut text = Vec::new();
    assert_eq!(dump.feed(&log, 0, &mut text), Ok(at));
    let text = String::from_utf8(text).unwrap();
    let second = text.lines().nth(1).unwrap();
    assert!(second.starts_with("{\"position\":"), "{second}");
    assert!(
        second.ends_with(",\"is_valid\":true,\"records\":null}"),
        "{second}"
    );
    assert_eq!(
        dump.feed(&log[at..], at as u64, &mut Vec::new())
            .unwrap_err()
            .kind,
        ErrorKind::Corrupt
    );
}

#[test]
fn json_keeps_null_empty_and_markers_apart() {
    let mut dump = JsonDump::new(true, BytesFormat::Hex, 1 << 20);
    let mut text = Vec::new();
    assert_eq!(dump.feed(LOG, 0, &mut text), Ok(LOG.len()));
    let text = String::from_utf8(text).unwrap();
    for expected in [
        r#""sequence":-1,"key":null,"value":null,"headers":[]}"#,
        r#""sequence":-1,"key":"","value":"","headers":[]}"#,
        "\"headers\":[[\"h\u{fffd}\",\"31\"],[\"\",null],[\"h\",\"\"]]}",
        r#""control_type":"COMMIT","coordinator_epoch":11,"headers":[]}"#,
        r#""control_type":"KRAFT_VERSION","value":{"version":0,"kRaftVersion":1},"headers":[]}"#,
        r#""control_type":"UNKNOWN","control_type_id":77,"headers":[]}"#,
        r#""is_valid":false,"key":"6b","value":"76"}"#,
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let first = text.lines().next().unwrap();
    assert_eq!(
        &first[..first.find(",\"records\":").unwrap()],
        "{\"position\":0,\"size\":111,\"base_offset\":0,\"last_offset\":3,\"batch_length\":99,\
         \"partition_leader_epoch\":4,\"magic\":2,\"crc\":1534163198,\"attributes\":0,\
         \"compression\":\"none\",\"timestamp_type\":\"CreateTime\",\"is_transactional\":false,\
         \"is_control\":false,\"delete_horizon_ms\":null,\"last_offset_delta\":3,\
         \"base_timestamp\":1700000000000,\"max_timestamp\":1700000000000,\"producer_id\":-1,\
         \"producer_epoch\":-1,\"base_sequence\":-1,\"last_sequence\":-1,\"records_count\":4,\
         \"is_valid\":true"
    );
}

#[test]
fn a_batch_that_blows_up_is_refused_not_written() {
    let refusal = |max_batch_bytes, deep_iteration| {
        let mut dump = LogDump::new(deep_iteration, true, false, max_batch_bytes);
        let mut text = Vec::new();
        let consumed = dump.feed(LOG, 0, &mut text).unwrap();
        let error = dump
            .feed(&LOG[consumed..], consumed as u64, &mut Vec::new())
            .err();
        (text.len(), error.map(|error| error.kind))
    };
    let (length, kind) = refusal(100, true);
    assert!(length < 1000, "{length}");
    assert_eq!(kind, Some(ErrorKind::Unsupported));
    assert_eq!(refusal(100, false).1, None);
}
