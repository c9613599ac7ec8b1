//! Avro bodies as JSON text.
//!
//! `avro.jsonl` has bodies that serializers of Confluent's registry wrote, and what its deserializers gave.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use brokerless_values::{AvroSchema, json_document};
use serde_json::{Value, json};

struct Vector {
    schema: AvroSchema,
    body: Vec<u8>,
    json: Value,
}

fn vectors() -> Vec<Vector> {
    include_str!("avro.jsonl")
        .lines()
        .map(|line| {
            let mut one: Value = serde_json::from_str(line).unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let references: Vec<_> = one["references"]
                .as_array()
                .unwrap()
                .iter()
                .map(text)
                .collect();
            assert_eq!(one["trailing"], 0);
            Vector {
                schema: parsed(&text(&one["schema"]), &references),
                body: bytes(&text(&one["body"])),
                json: one["json"].take(),
            }
        })
        .collect()
}

fn parsed(schema: &str, references: &[String]) -> AvroSchema {
    AvroSchema::parse(schema, references.iter().map(String::as_str)).unwrap()
}

fn schema(value: &Value) -> AvroSchema {
    AvroSchema::parse(&value.to_string(), []).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Decodes a body after other output, which must stay; returns the JSON and the bytes left over.
fn decoded(schema: &AvroSchema, body: &[u8]) -> Result<(Value, usize), String> {
    let mut out = b"before".to_vec();
    match schema.write_json(body, &mut out) {
        Ok(left) => {
            let text = std::str::from_utf8(&out[6..]).unwrap();
            Ok((serde_json::from_str(text).unwrap(), left))
        }
        Err(error) => {
            assert_eq!(out, b"before");
            Err(error.to_string())
        }
    }
}

#[test]
fn bodies_of_real_serializers_are_what_their_deserializers_gave() {
    let vectors = vectors();
    assert!(vectors.len() > 40);
    for one in vectors {
        assert_eq!(decoded(&one.schema, &one.body), Ok((one.json, 0)));
    }
}

/// Encodes JSON after other output, which must stay.
fn encoded(schema: &AvroSchema, json: &Value) -> Result<Vec<u8>, String> {
    let mut out = b"before".to_vec();
    let result = schema.encode(json.to_string().as_bytes(), "value", &mut out);
    assert!(out.starts_with(b"before"));
    match result {
        Ok(()) => Ok(out.split_off(6)),
        Err(error) => {
            assert_eq!(out, b"before");
            Err(error.to_string())
        }
    }
}

#[test]
fn the_size_of_a_decimal_in_a_schema_takes_no_memory() {
    for (size, is_encoded) in [(4096, true), (4097, false), (u64::MAX / 2, false)] {
        let decimal = schema(
            &json!({"type": "fixed", "name": "F", "size": size, "logicalType": "decimal", "precision": 5}),
        );
        assert_eq!(encoded(&decimal, &json!("1")).is_ok(), is_encoded, "{size}");
    }
}

#[test]
fn what_deserializers_gave_becomes_the_bodies_of_real_serializers() {
    // The entries of a map have another order.
    let sorted = |mut body: Vec<u8>| {
        body.sort_unstable();
        body
    };
    for one in vectors() {
        let body = encoded(&one.schema, &one.json);
        assert_eq!(body.map(sorted), Ok(sorted(one.body)), "{}", one.json);
    }
}

#[test]
fn a_value_that_does_not_fit_is_named() {
    let order = schema(&json!({"type": "record", "name": "a.Order", "fields": [
        {"name": "id", "type": "int"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": ["null", {
            "type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": -1},
        {"name": "state", "type": ["string", {"type": "enum", "name": "State", "symbols": ["A"]},
            {"type": "record", "name": "Other", "fields": []}], "default": "new"},
    ]}));
    let again = |value: Value| decoded(&order, &encoded(&order, &value).unwrap());
    let lines = json!([{}, {"ä": "123.4"}, {"b": null}]);
    let at = "2024-05-01T00:00:00+02:00";
    let exact = json!({"id": 1, "lines": [{}, {"ä": "123.40"}, {"b": null}], "at": "2024-04-30T22:00:00.000000Z",
        "state": "A"});
    assert_eq!(
        again(json!({"id": 1, "lines": lines, "at": at, "state": "A"})),
        Ok((exact, 0))
    );
    let exact = json!({"id": -5, "lines": [], "at": "1969-12-31T23:59:59.999000Z", "state": "new"});
    assert_eq!(again(json!({"id": -5, "lines": []})), Ok((exact, 0)));
    for (value, error) in [
        (
            json!([]),
            ": an object for record a.Order is expected, not an array",
        ),
        (
            json!({"lines": []}),
            ": record a.Order has the field id, which is missing here",
        ),
        (
            json!({"id": 1_u64 << 31, "lines": []}),
            ".id: int is expected, not this number",
        ),
        (
            json!({"id": 1.0, "lines": []}),
            ".id: int is expected, not this number",
        ),
        (
            json!({"id": 1, "lines": [{}, {"x": 1.5}]}),
            ".lines[1][\"x\"]: one of null, decimal is expected, not this number",
        ),
        (
            json!({"id": 1, "lines": [{"x": "1.234"}]}),
            ".lines[0][\"x\"]: the text of a decimal of at most 5 digits, 2 of them after the point, is expected, \
             not this text",
        ),
        (
            json!({"id": 1, "lines": [], "at": 5}),
            ".at: the text of a timestamp of milliseconds, such as 2024-05-01T12:33:01.832Z, is expected, not this \
             number",
        ),
        (
            json!({"id": 1, "lines": [], "State": "A"}),
            ".State: record a.Order has no such field",
        ),
        (
            json!({"id": 1, "lines": [], "state": {"x": 1}}),
            ".state.x: record a.Other has no such field",
        ),
    ] {
        assert_eq!(encoded(&order, &value), Err(format!("value{error}")));
    }
    let error = order.encode(b"{", "value", &mut Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("value: no JSON: EOF"));
}

#[test]
fn the_branch_of_a_union_is_the_one_that_has_the_json() {
    let node = json!({"type": "record", "name": "N", "fields": [
        {"name": "x", "type": ["null", "N", "int", "double", "string"]}]});
    let date = json!({"type": "int", "logicalType": "date"});
    let ints = json!({"type": "map", "values": "int"});
    for (union, value, body) in [
        (json!(["double", "long"]), json!(1), vec![2, 2]),
        (
            json!(["long", "double"]),
            json!(0.5),
            [&[2][..], &0.5_f64.to_le_bytes()].concat(),
        ),
        (
            json!(["float", "double"]),
            json!(0.1),
            [&[2][..], &0.1_f64.to_le_bytes()].concat(),
        ),
        (
            json!(["float", "double"]),
            json!(0.5),
            [&[0][..], &0.5_f32.to_le_bytes()].concat(),
        ),
        (json!(["float", "null"]), json!(0), vec![0, 0, 0, 0, 0]),
        (json!(["bytes", "string"]), json!("YQ=="), vec![0, 2, b'a']),
        (
            json!(["bytes", "string"]),
            json!("YQ"),
            vec![2, 4, b'Y', b'Q'],
        ),
        (
            json!([date, "string"]),
            json!("5-1"),
            vec![2, 6, b'5', b'-', b'1'],
        ),
        (json!([date, "string"]), json!("1970-01-02"), vec![0, 2]),
        (
            json!(["null", ints, node]),
            json!({"x": 1}),
            vec![2, 2, 2, b'x', 2, 0],
        ),
        (
            json!(["null", ints, node]),
            json!({"x": {"x": null}}),
            vec![4, 2, 0],
        ),
        (json!(["int"]), json!(-1), vec![0, 1]),
    ] {
        assert_eq!(encoded(&schema(&union), &value), Ok(body), "{union}");
    }
}

#[test]
fn unions_that_are_tried_in_vain_end() {
    let named = |name: &str, union: Value, last: &str| {
        json!({"type": "record", "name": name, "fields": [
            {"name": "n", "type": union}, {"name": "x", "type": last}]})
    };
    let inner = named("B", json!(["null", "A", "B"]), "long");
    let outer = schema(&named("A", json!(["null", "A", inner]), "int"));
    let mut value = json!({"n": null, "x": "none"});
    for _ in 0..60 {
        value = json!({"n": value, "x": 1});
    }
    let error = encoded(&outer, &value).unwrap_err();
    assert!(error.contains("has too many types to try"), "{error}");
}

/// A schema that is `bytes` takes all that there is.
fn takes_all(one: &Vector) -> bool {
    decoded(&one.schema, &[0xff; 3]) == Ok((json!("////"), 0))
}

#[test]
fn a_body_that_is_cut_at_any_byte_is_refused() {
    for one in vectors().iter().filter(|one| !takes_all(one)) {
        for length in 0..one.body.len() {
            assert!(decoded(&one.schema, &one.body[..length]).is_err());
        }
    }
}

#[test]
fn bytes_after_a_body_are_counted_and_change_nothing() {
    for one in vectors().iter().filter(|one| !takes_all(one)) {
        let longer = [&one.body[..], &[0xff, 0, 7]].concat();
        assert_eq!(decoded(&one.schema, &longer), Ok((one.json.clone(), 3)));
    }
}

#[test]
fn a_changed_body_is_decoded_or_refused() {
    // A linear congruential generator: the bytes only have to differ.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut refused = 0;
    for one in vectors().iter().filter(|one| !one.body.is_empty()) {
        for _ in 0..200 {
            let mut body = one.body.clone();
            for _ in 0..=next(3) {
                let at = next(body.len());
                body[at] = next(256) as u8;
            }
            refused += usize::from(decoded(&one.schema, &body).is_err());
        }
    }
    assert!(refused > 500);
}

/// Zigzag and base 128, as Avro writes a long.
fn long(value: i64) -> Vec<u8> {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    let mut out = Vec::new();
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out
}

#[test]
fn items_that_take_no_bytes_are_limited() {
    for items in [
        json!("null"),
        json!({"type": "record", "name": "Empty", "fields": []}),
        json!({"type": "fixed", "name": "Nothing", "size": 0}),
    ] {
        let schema = schema(&json!({"type": "array", "items": items}));
        let few = [long(3), long(0)].concat();
        assert_eq!(
            decoded(&schema, &few).unwrap().0.as_array().unwrap().len(),
            3
        );
        for count in [i64::MAX, i64::MIN, 1 << 40] {
            let many = [long(count), long(1), long(0)].concat();
            let error = decoded(&schema, &many).unwrap_err();
            assert_eq!(error, "more than 10000 items take no bytes");
        }
    }
}

#[test]
fn nesting_is_limited() {
    let fields = json!([{"name": "next", "type": ["null", "Node"]}]);
    let schema = schema(&json!({"type": "record", "name": "Node", "fields": fields}));
    let nested = |depth| [vec![2; depth], vec![0]].concat();
    assert!(decoded(&schema, &nested(50)).is_ok());
    let error = decoded(&schema, &nested(1_000_000)).unwrap_err();
    assert_eq!(error, "values are nested more than 200 levels deep");
    // Neither a body nor a schema ends here.
    let fields = json!([{"name": "next", "type": "Endless"}]);
    let endless = json!({"type": "record", "name": "Endless", "fields": fields});
    assert!(decoded(&AvroSchema::parse(&endless.to_string(), []).unwrap(), &[]).is_err());
}

#[test]
fn lengths_and_numbers_are_checked() {
    let huge = long(i64::MAX);
    for (kind, body, reason) in [
        (
            "string",
            &huge[..],
            "a string has 9223372036854775807 bytes, but 0 are left",
        ),
        ("string", &[1], "the length of a string is negative"),
        ("string", &[2, 0xff], "a string is not UTF-8"),
        ("boolean", &[2], "a boolean is neither 0 nor 1"),
        ("int", &long(1 << 31), "an int has more than 32 bits"),
        ("float", &[0; 3], "a float has 4 bytes, but 3 are left"),
        (
            "long",
            &[0xff; 11],
            "the body ends within a number, or the number has more than ten bytes",
        ),
    ] {
        assert_eq!(decoded(&schema(&json!(kind)), body), Err(reason.to_owned()));
    }
    let symbols = schema(&json!({"type": "enum", "name": "E", "symbols": ["A"]}));
    assert_eq!(
        decoded(&symbols, &[2]),
        Err("1 is no symbol of an enum of 1".to_owned())
    );
    let union = schema(&json!(["null", "int"]));
    assert_eq!(
        decoded(&union, &[1]),
        Err("-1 is no branch of a union of 2".to_owned())
    );
}

#[test]
fn numbers_that_json_lacks_are_text() {
    for (value, text) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        let body = value.to_le_bytes();
        assert_eq!(
            decoded(&schema(&json!("double")), &body),
            Ok((json!(text), 0))
        );
        let body = (value as f32).to_le_bytes();
        assert_eq!(
            decoded(&schema(&json!("float")), &body),
            Ok((json!(text), 0))
        );
    }
}

#[test]
fn a_logical_type_that_does_not_fit_is_ignored() {
    for (kind, body, value) in [
        (
            json!({"type": "string", "logicalType": "date"}),
            &[2, b'x'][..],
            json!("x"),
        ),
        (
            json!({"type": "bytes", "logicalType": "decimal"}),
            &[1][..],
            json!("AQ=="),
        ),
        (
            json!({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 1, "scale": 2}),
            &[1],
            json!("AQ=="),
        ),
        (
            json!({"type": "long", "logicalType": "time-millis"}),
            &[2],
            json!(1),
        ),
    ] {
        assert_eq!(decoded(&schema(&kind), body), Ok((value, 0)));
    }
}

#[test]
fn names_are_found_in_their_namespace() {
    let inner =
        json!({"type": "record", "name": "a.b.Inner", "fields": [{"name": "x", "type": "int"}]});
    let outer = json!({"type": "record", "name": "Outer", "namespace": "a.b", "fields": [
        {"name": "near", "type": "Inner"}, {"name": "far", "type": "a.b.Inner"}]});
    let schema = AvroSchema::parse(&outer.to_string(), [inner.to_string().as_str()]).unwrap();
    let expected = json!({"near": {"x": 1}, "far": {"x": 2}});
    assert_eq!(decoded(&schema, &[2, 4]), Ok((expected, 0)));
}

#[test]
fn a_schema_that_is_none_is_refused() {
    for (text, reason) in [
        ("{", "the schema is no JSON"),
        ("7", "a type is neither a name, a list nor an object"),
        ("\"Absent\"", "the type Absent is not defined"),
        ("{\"type\": \"array\"}", "an array or map has no items"),
        (
            "{\"type\": \"record\", \"name\": \"R\"}",
            "a record has no fields",
        ),
        (
            "{\"type\": \"enum\", \"name\": \"E\", \"symbols\": [1]}",
            "symbols of an enum are not all text",
        ),
        (
            "{\"type\": \"fixed\", \"name\": \"F\", \"size\": -1}",
            "a fixed type has no size",
        ),
        ("{}", "a type has no name"),
    ] {
        let error = AvroSchema::parse(text, []).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    let deep = "[".repeat(100_000);
    assert!(AvroSchema::parse(&deep, []).is_err());
}

#[test]
fn json_bodies_are_checked_and_fit_a_line() {
    let mut out = Vec::new();
    json_document(
        b" { \"a b\" : [ 1 , \"x \\\" y\" ] ,\n \"c\": null }\n",
        &mut out,
    )
    .unwrap();
    assert_eq!(out, br#"{"a b":[1,"x \" y"],"c":null}"#);
    for body in [
        &b"{\"id\": 1"[..],
        b"",
        b"{} {}",
        b"\xff",
        b"\"\xff\"",
        b"{\"a\": [\"\xc3\"]}",
        &[b'['; 100_000],
    ] {
        let mut out = Vec::new();
        assert!(json_document(body, &mut out).is_err());
        assert_eq!(out, b"");
    }
}
