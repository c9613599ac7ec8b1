//! A request is checked as a whole before anything allocates the announced sizes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use brokerless_core::{ErrorKind, check_request};

const METADATA: i16 = 3;
const FETCH: i16 = 1;

/// Metadata of the topic `t`: version 1, and version 9 with compact lengths and tagged fields.
fn requests() -> [(i16, Vec<u8>); 2] {
    let plain = [&1_i32.to_be_bytes()[..], &1_i16.to_be_bytes(), b"t"].concat();
    // two: one topic; two: one letter; no tags of the topic; three booleans; no tags
    let compact = [2, 2, b't', 0, 1, 0, 0, 0].to_vec();
    [(1, plain), (9, compact)]
}

#[test]
fn whole_requests_are_sound() {
    for (version, body) in requests() {
        assert_eq!(check_request(METADATA, version, &body).unwrap(), 1);
    }
}

#[test]
fn elements_are_counted_also_those_of_a_byte_and_unknown_tagged_fields() {
    let letters = [&1_000_i32.to_be_bytes()[..], &[0; 2_000]].concat();
    assert_eq!(check_request(METADATA, 1, &letters).unwrap(), 1_000);
    // No topics, three booleans, two tags of no bytes.
    let tags = [1, 0, 0, 0, 2, 5, 0, 6, 0];
    assert_eq!(check_request(METADATA, 9, &tags).unwrap(), 2);
}

#[test]
fn a_request_that_is_cut_at_any_byte_is_not() {
    for (version, body) in requests() {
        for end in 0..body.len() {
            let error = check_request(METADATA, version, &body[..end]).unwrap_err();
            assert_eq!(
                error.kind,
                ErrorKind::Corrupt,
                "version {version} cut at {end}"
            );
        }
    }
}

#[test]
fn bytes_behind_a_request_are_ignored() {
    // All topics, as librdkafka 2.16 asks for them.
    check_request(METADATA, 13, &[0, 0, 0, 0, 1, 0, 0]).unwrap();
}

#[test]
fn a_number_of_elements_above_the_bytes_is_refused() {
    for (version, body) in [
        (1, i32::MAX.to_be_bytes().to_vec()),
        (9, vec![0xff, 0xff, 0xff, 0xff, 0x07]),
    ] {
        let error = check_request(METADATA, version, &body).unwrap_err();
        assert!(
            error.message.contains("elements, but only 0 bytes left"),
            "{}",
            error.message
        );
    }
}

#[test]
fn unknown_requests_and_versions_are_refused() {
    for (api, version) in [(999, 0), (FETCH, 99), (FETCH, -1)] {
        let error = check_request(api, version, &[]).unwrap_err();
        assert_eq!(
            error.kind,
            ErrorKind::Unsupported,
            "{api} version {version}"
        );
    }
}
