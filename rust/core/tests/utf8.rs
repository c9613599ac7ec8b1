//! Text decodes as in Java 17. Otherwise header keys and printed payloads with bad bytes would differ from those of
//! Kafka's own clients and tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use brokerless_core::{crc32c, java_utf8};

/// Bytes, and `new String(bytes, UTF_8).getBytes(UTF_8)`; `.` stands for U+FFFD.
const CASES: [(&str, &str); 51] = [
    ("80", "."),
    ("bf", "."),
    ("c0", "."),
    ("c1", "."),
    ("c2", "."),
    ("c280", "c280"),
    ("c241", ".41"),
    ("c080", ".."),
    ("e0", "."),
    ("e080", ".."),
    ("e09f", ".."),
    ("e0a0", "."),
    ("e0a041", ".41"),
    ("e0a080", "e0a080"),
    ("e28241", ".41"),
    ("e282", "."),
    ("e1ff80", "..."),
    ("ed", "."),
    ("ed9f", "."),
    ("ed9fbf", "ed9fbf"),
    ("eda0", "."),
    ("eda041", ".41"),
    ("eda080", "."),
    ("edbfbf", "."),
    ("eda0ff", ".."),
    ("edbfbfbf", ".."),
    ("eda080edb080", ".."),
    ("eda0e282ac", ".e282ac"),
    ("edededa0", "..."),
    ("eda0c3a9", ".c3a9"),
    ("edbf80c3", ".."),
    ("ee8080", "ee8080"),
    ("efbfbe", "efbfbe"),
    ("f0", "."),
    ("f08f", ".."),
    ("f08fbfbf", "...."),
    ("f090", "."),
    ("f09080", "."),
    ("f0908080", "f0908080"),
    ("f0908041", ".41"),
    ("f09041", ".41"),
    ("f48f", "."),
    ("f48fbfbf", "f48fbfbf"),
    ("f490", ".."),
    ("f4908080", "...."),
    ("f5808080", "...."),
    ("f8808080", "...."),
    ("fe", "."),
    ("6180ff62", "61..62"),
    ("c3a9ff", "c3a9."),
    ("00", "00"),
];

/// The results of Java 17.0.15 for every sequence of one, two and three bytes, in numerical order. Each is decoded
/// alone, before an `x`, and after a euro sign, and every text is followed by a byte FF. Each number is the CRC-32C
/// over the big-endian CRC-32Cs of the texts of 65536 sequences each.
const ALL_SEQUENCES: [u32; 3] = [0x697f_fb27, 0x3fc1_9fe5, 0xbfa9_d402];

const EURO: &[u8] = "\u{20ac}".as_bytes();

/// The CRC-32C of the texts of every sequence of four of `EDGES`, each alone, in the order of `EDGES`.
const FOUR_EDGES: u32 = 0x9aa6e6cd;

/// The bytes at which the rules change.
const EDGES: [u8; 25] = [
    0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec,
    0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
];

#[test]
fn malformed_bytes_are_replaced_as_java_replaces_them() {
    for (bytes, expected) in CASES {
        let bytes: Vec<u8> = (0..bytes.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap())
            .collect();
        let text: String = java_utf8(&bytes)
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(text.replace("efbfbd", "."), expected, "{bytes:02x?}");
    }
}

#[test]
fn every_short_sequence_decodes_as_in_java() {
    for (length, expected) in (1..).zip(ALL_SEQUENCES) {
        let mut checksums = Vec::new();
        let mut texts = Vec::new();
        let end = 1u32 << (8 * length);
        for value in 0..end {
            let sequence = &value.to_be_bytes()[4 - length..];
            let (before_x, after_euro) = ([sequence, b"x"].concat(), [EURO, sequence].concat());
            for bytes in [sequence, &before_x, &after_euro] {
                texts.extend_from_slice(java_utf8(bytes).as_bytes());
                texts.push(0xff);
            }
            if (value + 1) % 65536 == 0 || value + 1 == end {
                checksums.extend(crc32c(&texts).to_be_bytes());
                texts.clear();
            }
        }
        assert_eq!(crc32c(&checksums), expected, "sequences of {length}");
    }
}

#[test]
fn every_sequence_of_four_edge_bytes_decodes_as_in_java() {
    let mut texts = Vec::new();
    for at in 0..EDGES.len().pow(4) {
        let edge = |place: u32| EDGES[at / EDGES.len().pow(place) % EDGES.len()];
        texts.extend_from_slice(java_utf8(&[edge(3), edge(2), edge(1), edge(0)]).as_bytes());
        texts.push(0xff);
    }
    assert_eq!(crc32c(&texts), FOUR_EDGES);
}

#[test]
fn valid_text_is_borrowed() {
    for text in ["", "plain", "caf\u{e9} \u{20ac} \u{1f600}"] {
        assert!(matches!(java_utf8(text.as_bytes()), Cow::Borrowed(same) if same == text));
    }
}
