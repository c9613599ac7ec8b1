//! JSON output parses back to the same bytes.
#![allow(clippy::unwrap_used)]

use brokerless_core::{BytesFormat, Json};

fn bytes(value: Option<&[u8]>, format: BytesFormat) -> String {
    let mut out = Vec::new();
    Json::new(&mut out).bytes(value, format);
    String::from_utf8(out).unwrap()
}

#[test]
fn strings_are_escaped_wherever_the_special_byte_stands() {
    for length in 0..70 {
        for at in 0..length {
            for (byte, escaped) in [
                ("\"", "\\\""),
                ("\\", "\\\\"),
                ("\n", "\\n"),
                ("\r", "\\r"),
                ("\t", "\\t"),
                ("\u{8}", "\\b"),
                ("\u{c}", "\\f"),
                ("\0", "\\u0000"),
                ("\u{1f}", "\\u001F"),
                ("\u{7f}", "\u{7f}"),
                ("/", "/"),
            ] {
                let (before, after) = ("a".repeat(at), "b".repeat(length - at - 1));
                let text = format!("{before}{byte}{after}");
                let expected = format!("\"{before}{escaped}{after}\"");
                assert_eq!(bytes(Some(text.as_bytes()), BytesFormat::Utf8), expected);
            }
        }
    }
}

#[test]
fn bytes_keep_null_empty_and_invalid_text_apart() {
    for (value, utf8, base64, hex) in [
        (None, "null", "null", "null"),
        (Some(&b""[..]), r#""""#, r#""""#, r#""""#),
        (Some(b"a"), r#""a""#, r#""YQ==""#, r#""61""#),
        (Some(b"\xc3\xa9"), "\"\u{e9}\"", r#""w6k=""#, r#""c3a9""#),
        (
            Some(b"ab\xff"),
            r#"{"base64":"YWL/"}"#,
            r#""YWL/""#,
            r#""6162ff""#,
        ),
    ] {
        assert_eq!(bytes(value, BytesFormat::Utf8), utf8);
        assert_eq!(bytes(value, BytesFormat::Base64), base64);
        assert_eq!(bytes(value, BytesFormat::Hex), hex);
    }
}

#[test]
fn commas_stand_between_and_nowhere_else() {
    let mut out = Vec::new();
    let mut json = Json::new(&mut out);
    json.begin_object();
    json.key("empty");
    json.begin_array();
    json.end_array();
    json.key("pairs");
    json.begin_array();
    for value in [None, Some(&b"v"[..])] {
        json.begin_array();
        json.string("k");
        json.bytes(value, BytesFormat::Utf8);
        json.end_array();
    }
    json.end_array();
    json.key("n");
    json.int(-1i64);
    json.key("yes");
    json.bool(true);
    json.end_object();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        r#"{"empty":[],"pairs":[["k",null],["k","v"]],"n":-1,"yes":true}"#
    );
}
