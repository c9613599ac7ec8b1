//! Messages of magic 0 and 1 and their wrappers: offsets, timestamps and refusals.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::ErrorKind;
use support::{batch, first_error, message, rows, wrapper};

#[test]
fn inner_offsets_follow_the_wrappers_magic() {
    let inner = |magic, offsets: &[i64]| -> Vec<Vec<u8>> {
        offsets
            .iter()
            .map(|&offset| message(magic, 0, offset, 50 + offset, None, Some(b"v")))
            .collect()
    };
    let offsets = |bytes: &[u8]| rows(bytes).iter().map(|row| row.offset).collect::<Vec<_>>();
    assert_eq!(
        offsets(&wrapper(1, 12, 52, 0, &inner(1, &[0, 1, 2]))),
        [10, 11, 12]
    );
    assert_eq!(
        offsets(&wrapper(1, 12, 52, 0, &inner(1, &[0, 2, 5]))),
        [7, 9, 12],
        "gaps after compaction"
    );
    assert_eq!(
        offsets(&wrapper(1, 12, 52, 0, &inner(1, &[10, 11, 12]))),
        [10, 11, 12],
        "absolute ones"
    );
    assert_eq!(
        offsets(&wrapper(1, 0, 52, 0, &inner(1, &[0, 1, 2]))),
        [0, 1, 2],
        "wrapper offset 0"
    );
    assert_eq!(
        offsets(&wrapper(0, 99, -1, 0, &inner(0, &[3, 4, 5]))),
        [3, 4, 5],
        "magic 0 is absolute"
    );
    assert_eq!(
        offsets(&wrapper(1, 12, 52, 0, &inner(0, &[0, 1, 2]))),
        [10, 11, 12],
        "KAFKA-4298"
    );
}

#[test]
fn the_wrappers_log_append_time_counts_except_for_magic_0_inside() {
    let inner = |magic| [message(magic, 0, 0, 50, None, Some(b"v"))];
    assert_eq!(rows(&wrapper(1, 0, 777, 8, &inner(1)))[0].timestamp, 777);
    assert_eq!(rows(&wrapper(1, 0, 777, 8, &inner(0)))[0].timestamp, -1);
    assert_eq!(rows(&wrapper(1, 0, 777, 0, &inner(1)))[0].timestamp, 50);
}

#[test]
fn broken_wrappers_are_refused() {
    let inner = message(1, 0, 0, 50, None, Some(b"value"));
    let nested = wrapper(1, 0, 50, 0, std::slice::from_ref(&inner));
    let mut bad_crc = inner.clone();
    *bad_crc.last_mut().unwrap() ^= 1;
    let cases = [
        ("null value", message(1, 2, 0, 50, None, None)),
        ("no message inside", wrapper(1, 0, 50, 0, &[])),
        ("nested", wrapper(1, 0, 50, 0, &[nested])),
        (
            "cut inner tail",
            wrapper(1, 0, 50, 0, &[inner.clone(), inner[..20].to_vec()]),
        ),
        ("inner crc", wrapper(1, 0, 50, 0, &[bad_crc])),
        (
            "inner magic 2",
            wrapper(1, 0, 50, 0, &[batch(0, 0, 0, 0, &[])]),
        ),
        (
            "offset below the last inner one",
            wrapper(1, 3, 50, 0, &[message(1, 0, 5, 50, None, None)]),
        ),
        ("zstd", message(1, 4, 0, 50, None, Some(b"x"))),
    ];
    for (name, bytes) in cases {
        assert_eq!(first_error(&bytes).kind, ErrorKind::Corrupt, "{name}");
    }
}

#[test]
fn message_fields_are_held_against_the_message() {
    for (key_length, value_length) in [(100, 0), (0, 100), (i32::MAX, 0)] {
        let mut body = vec![0, 0];
        body.extend(i32::to_be_bytes(key_length));
        body.extend(i32::to_be_bytes(value_length));
        let mut bytes = 0i64.to_be_bytes().to_vec();
        bytes.extend((body.len() as i32 + 4).to_be_bytes());
        bytes.extend(brokerless_core::crc32(&body).to_be_bytes());
        bytes.extend(body);
        assert_eq!(first_error(&bytes).kind, ErrorKind::Corrupt);
    }
}
