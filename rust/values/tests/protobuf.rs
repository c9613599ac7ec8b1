//! Protobuf bodies as JSON text.
//!
//! `protobuf.jsonl` has schemas of a registry, keys and values that serializers wrote with them, and what deserializers
//! gave: `json` in Python, and `full` in Java, which also writes the fields that are zero or empty. Names and 64-bit
//! integers are written as here. In Java, the deserializer of the topic `proto-legacy` lost its groups.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::HashMap;

use brokerless_core::Framed;
use brokerless_values::{ProtobufSchema, Schema};
use serde_json::{Value, json};

struct Vector {
    plain: ProtobufSchema,
    full: ProtobufSchema,
    header: Option<Vec<u8>>,
    payload: Vec<u8>,
    /// The value that the deserializers gave: none if they refused the payload.
    json: Option<Value>,
    full_json: Option<Value>,
}

impl Vector {
    fn decoded(&self, payload: &[u8]) -> Result<Value, String> {
        decoded(&self.plain, payload, self.header.as_deref())
    }

    /// The position of the message.
    fn start(&self) -> usize {
        let framed = Framed::split(&self.payload, self.header.as_deref());
        self.payload.len() - framed.message_indexes(|_| ()).unwrap().len()
    }
}

fn vectors() -> Vec<Vector> {
    let mut schemas = HashMap::new();
    let mut vectors = Vec::new();
    for line in include_str!("protobuf.jsonl").lines() {
        let mut one: Value = serde_json::from_str(line).unwrap();
        let id = one["id"].as_i64().unwrap();
        if one["schema"].is_string() {
            let references: Vec<(String, String)> =
                serde_json::from_value(one["references"].take()).unwrap();
            schemas.insert(id, (one["schema"].as_str().unwrap().to_owned(), references));
            continue;
        }
        let (schema, references) = &schemas[&id];
        let parsed = || ProtobufSchema::parse(schema, references).unwrap();
        vectors.push(Vector {
            plain: parsed(),
            full: parsed().with_defaults(),
            header: one["header"].as_str().map(bytes),
            payload: bytes(one["payload"].as_str().unwrap()),
            json: one.get_mut("json").map(Value::take),
            full_json: one.get_mut("full").map(Value::take),
        });
    }
    vectors
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Decodes a key or value after other output, which must stay.
fn decoded(
    schema: &ProtobufSchema,
    payload: &[u8],
    header: Option<&[u8]>,
) -> Result<Value, String> {
    let mut out = b"before".to_vec();
    match schema.write_json(&Framed::split(payload, header), &mut out) {
        Ok(left) => {
            assert_eq!(left, 0);
            let text = std::str::from_utf8(&out[6..]).unwrap();
            Ok(serde_json::from_str(text).unwrap())
        }
        Err(error) => {
            assert_eq!(out, b"before");
            Err(error.to_string())
        }
    }
}

/// Parses a schema without references.
fn schema(text: &str) -> ProtobufSchema {
    ProtobufSchema::parse(text, &[]).unwrap()
}

fn proto3(text: &str) -> ProtobufSchema {
    schema(&format!("syntax = \"proto3\"; {text}"))
}

/// Decodes the first message of a schema.
fn first(schema: &ProtobufSchema, body: &[u8]) -> Result<Value, String> {
    at(schema, &[0], body)
}

/// Decodes the message with these indexes.
fn at(schema: &ProtobufSchema, indexes: &[u8], body: &[u8]) -> Result<Value, String> {
    let indexes: Vec<u8> = indexes.iter().map(|index| 2 * index).collect();
    let prefix = [0, 0, 0, 0, 1, 2 * indexes.len() as u8];
    decoded(schema, &[&prefix, &indexes[..], body].concat(), None)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn tag(number: u64, wire: u64) -> Vec<u8> {
    varint(number << 3 | wire)
}

/// A field with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [tag(field, 0), varint(value)].concat()
}

/// A field with bytes: text or a message.
fn sized(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [tag(field, 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn group(field: u64, body: impl AsRef<[u8]>) -> Vec<u8> {
    [tag(field, 3), body.as_ref().to_vec(), tag(field, 4)].concat()
}

#[test]
fn bodies_of_real_serializers_are_what_their_deserializers_gave() {
    let vectors = vectors();
    assert!(vectors.len() > 80);
    for one in vectors {
        assert_eq!(one.decoded(&one.payload).ok(), one.json);
        if let Some(full) = &one.full_json {
            let decoded = decoded(&one.full, &one.payload, one.header.as_deref());
            assert_eq!(decoded.as_ref(), Ok(full));
        }
    }
}

/// Encodes JSON as the first message, after other output, which must stay; returns the body.
fn encoded(schema: &ProtobufSchema, json: &Value) -> Result<Vec<u8>, String> {
    let mut out = b"before".to_vec();
    let result = schema.encode(json.to_string().as_bytes(), "value", &mut out);
    assert!(out.starts_with(b"before"));
    if let Err(error) = result {
        assert_eq!(out, b"before");
        return Err(error.to_string());
    }
    Ok(out.split_off(6))
}

#[test]
fn what_deserializers_gave_is_encoded_to_the_same() {
    let mut count = 0;
    for one in vectors() {
        let Some(json) = one.json else {
            continue;
        };
        let framed = Framed::split(&one.payload, one.header.as_deref());
        let mut indexes = Vec::new();
        framed.message_indexes(|index| indexes.push(index)).unwrap();
        if indexes != [0] {
            continue;
        }
        let body = encoded(&one.plain, &json).unwrap();
        assert_eq!(first(&one.plain, &body), Ok(json));
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn every_form_of_a_field_is_encoded() {
    let all = schema(
        r#"syntax = "proto2"; package p; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
        message M {
            required int32 id = 3; optional group G = 2 { optional bool b = 1; } repeated sint32 n = 4;
            oneof one { string s = 5; google.protobuf.Value v = 6; } map<int64, E> m = 7; extensions 100 to 200;
            optional google.protobuf.Any a = 8; optional google.protobuf.NullValue z = 9;
        }
        enum E { option allow_alias = true; A = 0; B = 1; C = 1; } extend M { optional bytes x = 100; }
        message N { optional string s = 1; }"#,
    );
    for (json, body) in [
        (json!({"id": 0}), number(3, 0)),
        (
            json!({"g": {"b": true}, "id": 1, "s": null, "n": []}),
            [group(2, number(1, 1)), number(3, 1)].concat(),
        ),
        (
            json!({"id": 1, "n": [-1, 1], "m": {"-5": "B", "6": "C", "7": -3}}),
            [
                number(3, 1),
                sized(4, [1, 2]),
                sized(7, [number(1, -5_i64 as u64), number(2, 1)].concat()),
                sized(7, [number(1, 6), number(2, 1)].concat()),
                sized(7, [number(1, 7), number(2, -3_i64 as u64)].concat()),
            ]
            .concat(),
        ),
        (
            json!({"id": 1, "v": null, "z": null, "[p.x]": "YQ=="}),
            [
                number(3, 1),
                sized(6, number(1, 0)),
                number(9, 0),
                sized(100, "a"),
            ]
            .concat(),
        ),
        (
            json!({"id": 1, "v": [true]}),
            [number(3, 1), sized(6, sized(6, sized(1, number(4, 1))))].concat(),
        ),
        (
            json!({"id": 1, "a": {"@type": "x/p.N", "s": "t"}}),
            [
                number(3, 1),
                sized(8, [sized(1, "x/p.N"), sized(2, sized(1, "t"))].concat()),
            ]
            .concat(),
        ),
    ] {
        assert_eq!(encoded(&all, &json), Ok(body), "{json}");
    }
    for (json, error) in [
        (json!({}), ": the field id is required, and is missing here"),
        (
            json!({"id": null}),
            ": the field id is required, and is missing here",
        ),
        (
            json!({"id": 1_u64 << 31}),
            ".id: int32 is expected, not this number",
        ),
        (
            json!({"id": 1, "x": 1}),
            ".x: the message has no such field",
        ),
        (
            json!({"id": 1, "g": []}),
            ".g: an object is expected, not an array",
        ),
        (
            json!({"id": 1, "n": [1, null]}),
            ".n[1]: sint32 is expected, not null",
        ),
        (
            json!({"id": 1, "m": {"x": "A"}}),
            ".m[\"x\"].key: int64 is expected, not null",
        ),
        (
            json!({"id": 1, "m": {"1": "D"}}),
            ".m[\"1\"]: a name of the enum, or an int32, is expected, not this text",
        ),
        (
            json!({"id": 1, "s": "", "v": 1}),
            ".v: another field of the same oneof is set, too",
        ),
        (
            json!({"id": 1, "a": {"@type": "x/p.O"}}),
            ".a.@type: the name of a message of the schema is expected, not this text",
        ),
    ] {
        assert_eq!(encoded(&all, &json), Err(format!("value{error}")));
    }
    let editions = schema(
        r#"edition = "2023"; option features.message_encoding = DELIMITED;
        message M { M m = 1; M n = 2 [features.message_encoding = LENGTH_PREFIXED];
        int32 r = 3 [features.field_presence = LEGACY_REQUIRED]; }"#,
    );
    let inner = json!({"r": 0});
    assert_eq!(
        encoded(&editions, &json!({"m": inner, "n": inner, "r": 1})),
        Ok([group(1, number(3, 0)), sized(2, number(3, 0)), number(3, 1)].concat())
    );
    assert!(encoded(&editions, &json!({})).is_err());
}

#[test]
fn a_message_is_chosen_by_its_full_name() {
    let text = r#"syntax = "proto3"; package a.b;
        message M { int32 x = 1; message N { message M { bool x = 1; } } }
        message MN { string x = 1; map<string, M> m = 2; message O {} }"#;
    for (name, indexes, json, body) in [
        ("a.b.M", &[0][..], json!({"x": 1}), number(1, 1)),
        ("a.b.M.N", &[4, 0, 0], json!({}), vec![]),
        ("a.b.M.N.M", &[6, 0, 0, 0], json!({"x": true}), number(1, 1)),
        ("a.b.MN", &[2, 2], json!({"x": "a"}), sized(1, "a")),
        ("a.b.MN.O", &[4, 2, 0], json!({}), vec![]),
    ] {
        let chosen = schema(text).with_message(name).unwrap();
        assert_eq!(chosen.message_indexes(), indexes, "{name}");
        assert_eq!(encoded(&chosen, &json), Ok(body), "{name}");
    }
    let known = "has a.b.M, a.b.M.N, a.b.M.N.M, a.b.MN, a.b.MN.O";
    for name in [
        "",
        "M",
        "a.b",
        "a.b.",
        "a.b.M.",
        "a.b.M.O",
        "a.b.MNO",
        "a.b.MN.MEntry",
        ".a.b.M",
    ] {
        let error = schema(text).with_message(name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no message {name} is in the schema, which {known}")
        );
    }
    let many: String = (0..50).map(|at| format!("message M{at} {{}}")).collect();
    let error = schema(&many).with_message("N").unwrap_err().to_string();
    assert!(error.ends_with("M18, M19, perhaps more"), "{error}");
    let none = schema("syntax = \"proto3\";")
        .with_message("N")
        .unwrap_err();
    assert_eq!(none.to_string(), "the schema has no message");
}

/// The lengths of a message up to the end of each of its fields, none of which is a group.
fn boundaries(body: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, vec![0]);
    let read = |at: &mut usize| {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = body[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    };
    while at < body.len() {
        let tag = read(&mut at);
        match tag & 7 {
            0 => {
                read(&mut at);
            }
            1 => at += 8,
            2 => at += read(&mut at) as usize,
            5 => at += 4,
            3 => {
                while read(&mut at) & 7 != 4 {
                    read(&mut at);
                }
            }
            other => panic!("{other}"),
        }
        found.push(at);
    }
    found
}

#[test]
fn a_body_that_is_cut_within_a_field_is_refused() {
    let mut refused = 0;
    for one in vectors().iter().filter(|one| one.json.is_some()) {
        let start = one.start();
        let boundaries = boundaries(&one.payload[start..]);
        for length in 0..one.payload.len() {
            let cut = one.decoded(&one.payload[..length]);
            let is_whole = length >= start && boundaries.contains(&(length - start));
            assert_eq!(cut.is_ok(), is_whole, "{length}: {cut:?}");
            refused += usize::from(cut.is_err());
        }
    }
    assert!(refused > 2000);
}

#[test]
fn fields_after_a_body_are_skipped_and_other_bytes_refused() {
    for one in vectors().iter().filter(|one| one.json.is_some()) {
        for more in [
            number(18_999, 7),
            sized(18_999, "text"),
            group(18_999, group(3, number(1, 1))),
        ] {
            let longer = [&one.payload[..], &more].concat();
            assert_eq!(one.decoded(&longer).ok(), one.json);
        }
        for more in [0xff, 0, 0x0e, 0x0c] {
            let longer = [&one.payload[..], &[more]].concat();
            assert!(one.decoded(&longer).is_err());
        }
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
    for one in vectors().iter().filter(|one| !one.payload.is_empty()) {
        for _ in 0..200 {
            let mut payload = one.payload.clone();
            for _ in 0..=next(3) {
                let at = next(payload.len());
                payload[at] = next(256) as u8;
            }
            refused += usize::from(one.decoded(&payload).is_err());
        }
    }
    assert!(refused > 5000);
}

#[test]
fn a_schema_of_a_registry_is_found_by_its_type() {
    let references = [(
        "money.proto".to_owned(),
        "syntax = 'proto3'; package m; message Money { int64 units = 1; }".to_owned(),
    )];
    let text = "syntax = 'proto3'; import 'money.proto'; message A { m.Money price = 1; }";
    let schema = Schema::parse("PROTOBUF", text, &references).unwrap();
    assert_eq!(schema.types(), 4);
    let payload = [vec![0, 0, 0, 0, 1, 0], sized(1, number(1, 5))].concat();
    let mut out = Vec::new();
    assert_eq!(
        schema.write_json(&Framed::split(&payload, None), &mut out),
        Ok(0)
    );
    assert_eq!(out, br#"{"price":{"units":5}}"#);
}

#[test]
fn every_type_has_its_json() {
    let minus = u64::MAX;
    let kinds: [(&str, Vec<u8>, Value); 24] = [
        ("int32", number(1, minus), json!(-1)),
        ("int32", number(1, 1 << 32 | 5), json!(5)),
        ("int64", number(1, minus), json!(-1)),
        ("int64", number(1, 1 << 63), json!(i64::MIN)),
        ("uint32", number(1, u32::MAX.into()), json!(u32::MAX)),
        ("uint64", number(1, u64::MAX), json!(u64::MAX)),
        ("sint32", number(1, 3), json!(-2)),
        ("sint32", number(1, u32::MAX.into()), json!(i32::MIN)),
        ("sint64", number(1, u64::MAX), json!(i64::MIN)),
        (
            "fixed32",
            [tag(1, 5), vec![0xff; 4]].concat(),
            json!(u32::MAX),
        ),
        (
            "fixed64",
            [tag(1, 1), vec![0xff; 8]].concat(),
            json!(u64::MAX),
        ),
        ("sfixed32", [tag(1, 5), vec![0xff; 4]].concat(), json!(-1)),
        ("sfixed64", [tag(1, 1), vec![0xff; 8]].concat(), json!(-1)),
        (
            "float",
            [tag(1, 5), 0.1_f32.to_le_bytes().to_vec()].concat(),
            json!(0.1),
        ),
        (
            "float",
            [tag(1, 5), (-0.0_f32).to_le_bytes().to_vec()].concat(),
            json!(-0.0),
        ),
        (
            "float",
            [tag(1, 5), f32::NAN.to_le_bytes().to_vec()].concat(),
            json!("NaN"),
        ),
        (
            "double",
            [tag(1, 1), 0.1_f64.to_le_bytes().to_vec()].concat(),
            json!(0.1),
        ),
        (
            "double",
            [tag(1, 1), f64::NEG_INFINITY.to_le_bytes().to_vec()].concat(),
            json!("-Infinity"),
        ),
        ("bool", number(1, 1), json!(true)),
        ("bool", number(1, 1 << 63), json!(true)),
        ("string", sized(1, "a\"ü"), json!("a\"ü")),
        ("bytes", sized(1, [0xff, 0xfe]), json!("//4=")),
        ("E", number(1, 1), json!("ONE")),
        ("E", number(1, minus), json!(-1)),
    ];
    for (kind, body, value) in kinds {
        let types = "enum E { ZERO = 0; ONE = 1; UNO = 1; option allow_alias = true; }";
        let one = proto3(&format!("message A {{ {kind} x = 1; }} {types}"));
        assert_eq!(first(&one, &body), Ok(json!({"x": value})), "{kind}");
        let many = proto3(&format!("message A {{ repeated {kind} x = 1; }} {types}"));
        let twice = [&body[..], &body].concat();
        assert_eq!(first(&many, &twice), Ok(json!({"x": [value, value]})));
        // The same values in one field, without their tags.
        if !matches!(kind, "string" | "bytes") {
            let packed = sized(1, [&body[1..], &body[1..]].concat());
            let mixed = [&packed[..], &body].concat();
            assert_eq!(
                first(&many, &mixed),
                Ok(json!({"x": [value, value, value]}))
            );
            // No field that is not repeated is packed.
            assert_eq!(first(&one, &packed), Ok(json!({})));
            let cut = sized(1, [&body[1..], &[0x80]].concat());
            assert!(first(&many, &cut).is_err());
        }
    }
}

#[test]
fn only_fields_without_presence_are_left_out_if_they_are_zero() {
    let fields = "int32 a = 1; optional int32 b = 2; oneof o { int32 c = 3; string d = 4; }
        repeated int32 e = 5; map<string, int32> f = 6; A g = 7; string h = 8;";
    let plain = proto3(&format!("message A {{ {fields} }}"));
    let full = proto3(&format!("message A {{ {fields} }}")).with_defaults();
    let zeros = [
        number(1, 0),
        number(2, 0),
        number(3, 0),
        sized(5, ""),
        sized(8, ""),
    ]
    .concat();
    assert_eq!(first(&plain, &zeros), Ok(json!({"b": 0, "c": 0})));
    assert_eq!(
        first(&full, &zeros),
        Ok(json!({"a": 0, "b": 0, "c": 0, "e": [], "f": {}, "h": ""}))
    );
    assert_eq!(first(&plain, &[]), Ok(json!({})));
    assert_eq!(
        first(&full, &sized(7, "")),
        Ok(json!({"a": 0, "e": [], "f": {}, "g": {"a": 0, "e": [], "f": {}, "h": ""}, "h": ""}))
    );
    // All fields of proto2 have presence. A default is not in the body.
    let old =
        schema("message A { required int32 a = 1; optional string b = 2 [default = \"x\"]; }")
            .with_defaults();
    assert_eq!(first(&old, &[]), Ok(json!({})));
    assert_eq!(first(&old, &number(1, 0)), Ok(json!({"a": 0})));
}

#[test]
fn editions_set_the_presence_of_fields() {
    let fields = "int32 a = 1; int32 b = 2 [deprecated = true, features.field_presence = IMPLICIT];
        int32 c = 3 [features = { field_presence: EXPLICIT }]; repeated int32 d = 4; B e = 5 [features.message_encoding = DELIMITED];";
    let body = [
        number(1, 0),
        number(2, 0),
        number(3, 0),
        group(5, number(1, 0)),
    ]
    .concat();
    let edition = |option: &str| {
        schema(&format!(
            "edition = \"2023\"; {option} message A {{ {fields} }} export message B {{ int32 x = 1; }}"
        ))
    };
    assert_eq!(
        first(&edition(""), &body),
        Ok(json!({"a": 0, "c": 0, "e": {"x": 0}}))
    );
    assert_eq!(
        first(
            &edition("option features.field_presence = IMPLICIT;"),
            &body
        ),
        Ok(json!({"c": 0, "e": {}}))
    );
}

#[test]
fn of_several_values_the_last_one_counts_and_messages_are_merged() {
    let fields = "int32 a = 1; repeated int32 b = 2; A c = 3; string d = 4;";
    let schema = proto3(&format!("message A {{ {fields} }}"));
    let body = [
        sized(
            3,
            [number(1, 1), number(2, 1), sized(3, number(1, 5))].concat(),
        ),
        number(1, 1),
        number(2, 7),
        sized(4, "x"),
        group(
            3,
            [number(2, 2), sized(3, number(2, 6)), sized(4, "y")].concat(),
        ),
        number(1, 2),
        number(2, 8),
        sized(4, ""),
    ]
    .concat();
    let inner = json!({"a": 1, "b": [1, 2], "c": {"a": 5, "b": [6]}, "d": "y"});
    assert_eq!(
        first(&schema, &body),
        Ok(json!({"a": 2, "b": [7, 8], "c": inner}))
    );
}

#[test]
fn a_oneof_has_the_field_that_came_last() {
    let schema = proto3(
        "message A { oneof o { int32 a = 1; B b = 2; B c = 3; } int32 d = 4; oneof p { int32 e = 5; } }
         message B { repeated int32 x = 1; }",
    );
    let b = |value| sized(2, number(1, value));
    for (body, value) in [
        (vec![number(1, 5), b(1)], json!({"b": {"x": [1]}})),
        (vec![b(1), b(2)], json!({"b": {"x": [1, 2]}})),
        (
            vec![b(1), number(5, 3), number(4, 9), b(2)],
            json!({"b": {"x": [1, 2]}, "d": 9, "e": 3}),
        ),
        (vec![b(1), number(1, 0), b(2)], json!({"b": {"x": [2]}})),
        (vec![b(1), number(1, 0)], json!({"a": 0})),
        (vec![b(1), sized(3, ""), sized(3, "")], json!({"c": {}})),
        // Not a value of the field.
        (vec![b(1), sized(1, [1])], json!({"b": {"x": [1]}})),
    ] {
        assert_eq!(first(&schema, &body.concat()), Ok(value));
    }
}

#[test]
fn maps_are_objects_in_which_the_last_entry_of_a_key_counts() {
    let entry = |key: &[u8], value: &[u8]| sized(1, [key, value].concat());
    for (kind, keys, names) in [
        ("string", [sized(1, "a\""), sized(1, "ü")], ["a\"", "ü"]),
        ("bool", [number(1, 1), number(1, 0)], ["true", "false"]),
        ("int64", [number(1, u64::MAX), number(1, 7)], ["-1", "7"]),
        ("sint32", [number(1, 1), number(1, 2)], ["-1", "1"]),
        (
            "uint64",
            [number(1, u64::MAX), number(1, 7)],
            ["18446744073709551615", "7"],
        ),
    ] {
        // As a person writes it, and as a registry does.
        for text in [
            format!("message A {{ map<{kind}, int32> m = 1; }}"),
            format!(
                "message A {{ repeated MEntry m = 1; message MEntry {{ option map_entry = true; {kind} key = 1; int32 value = 2; }} }}"
            ),
        ] {
            let body = [
                entry(&keys[0], &number(2, 1)),
                entry(&keys[1], &number(2, 2)),
                entry(&number(2, 3), &keys[0]),
                entry(&keys[1], &[]),
            ]
            .concat();
            let expected = json!({"m": {names[0]: 3, names[1]: 0}});
            assert_eq!(first(&proto3(&text), &body), Ok(expected), "{text}");
        }
    }
    let schema = proto3(
        "message A { map<int32, A> m = 1; map<int32, E> e = 2; map<int32, bytes> b = 3; } enum E { ZERO = 0; ONE = 1; }",
    );
    let body = [
        sized(1, ""),
        sized(2, ""),
        sized(3, ""),
        sized(2, [number(1, 1), number(2, 1)].concat()),
        sized(
            1,
            [number(1, 2), sized(2, sized(2, "")), sized(2, sized(3, ""))].concat(),
        ),
    ]
    .concat();
    let inner = json!({"e": {"0": "ZERO"}, "b": {"0": ""}});
    assert_eq!(
        first(&schema, &body),
        Ok(json!({"m": {"0": {}, "2": inner}, "e": {"0": "ZERO", "1": "ONE"}, "b": {"0": ""}}))
    );
    // A message that is no entry stays one.
    let schema = proto3(
        "message A { repeated B b = 1; message B { option map_entry = true; bytes key = 1; int32 value = 2; } }",
    );
    assert_eq!(first(&schema, &sized(1, "")), Ok(json!({"b": [{}]})));
}

#[test]
fn groups_are_messages_and_messages_may_be_groups() {
    let text = "message A { repeated group Item = 1 { optional int32 n = 4; } optional B b = 2;
        oneof o { group Other = 3 { optional int32 m = 1; } } message Nested { optional int32 k = 1; } }
        message B { repeated A a = 1; }";
    let body = [
        group(1, number(4, 1)),
        group(1, []),
        sized(1, number(4, 2)),
        group(2, sized(1, group(1, number(4, 3)))),
        group(3, number(1, 5)),
    ]
    .concat();
    let expected = json!({
        "item": [{"n": 1}, {}, {"n": 2}], "b": {"a": [{"item": [{"n": 3}]}]}, "other": {"m": 5}
    });
    assert_eq!(first(&schema(text), &body), Ok(expected));
    // The types of groups are no messages of their own.
    assert_eq!(
        at(&schema(text), &[0, 0], &number(1, 7)),
        Ok(json!({"k": 7}))
    );
}

#[test]
fn extensions_have_their_full_names() {
    let references = [(
        "more.proto".to_owned(),
        "syntax = 'proto3'; package more; import 'base.proto'; extend .base.A { int32 one = 100; } extend google.protobuf.FieldOptions { string doc = 50000; }".to_owned(),
    ),
    (
        "base.proto".to_owned(),
        "package base; message A { optional int32 own = 1; extensions 100 to max; }".to_owned(),
    )];
    let text = "package main; import 'more.proto'; message M { optional base.A a = 1;
        extend base.A { repeated M two = 101; optional group Three = 102 { optional int32 x = 1; } } }";
    let schema = ProtobufSchema::parse(text, &references).unwrap();
    let inner = [
        number(100, 0),
        sized(101, ""),
        group(102, number(1, 1)),
        number(1, 5),
    ]
    .concat();
    let expected = json!({"a": {
        "own": 5, "[more.one]": 0, "[main.M.two]": [{}], "[main.M.three]": {"x": 1}
    }});
    assert_eq!(first(&schema, &sized(1, inner)), Ok(expected));
}

#[test]
fn known_types_have_the_json_that_they_stand_for() {
    let known = |kind: &str, file: &str| {
        proto3(&format!(
            "import \"google/{file}.proto\"; message A {{ {kind} x = 1; }}"
        ))
    };
    let shown = |kind: &str, file: &str, body: &[u8]| {
        first(
            &known(&format!("google.protobuf.{kind}"), file),
            &sized(1, body),
        )
        .map(|mut all| all["x"].take())
    };
    let time =
        |seconds: i64, nanos: i32| [number(1, seconds as u64), number(2, nanos as u64)].concat();
    for (seconds, nanos, timestamp, duration) in [
        (0, 0, "1970-01-01T00:00:00Z", "0s"),
        (1, 500_000_000, "1970-01-01T00:00:01.500Z", "1.500s"),
        (-1, 1_000, "1969-12-31T23:59:59.000001Z", "-0.999999s"),
        (-2, -1, "1969-12-31T23:59:57.999999999Z", "-2.000000001s"),
        (-62_135_596_800, 0, "0001-01-01T00:00:00Z", "-62135596800s"),
        (
            253_402_300_799,
            999_999_999,
            "9999-12-31T23:59:59.999999999Z",
            "253402300799.999999999s",
        ),
        // Neither is allowed, and neither is lost.
        (
            253_402_300_800,
            0,
            "+10000-01-01T00:00:00Z",
            "253402300800s",
        ),
        (
            0,
            2_000_000_001,
            "1970-01-01T00:00:02.000000001Z",
            "2.000000001s",
        ),
        (
            i64::MIN,
            i32::MIN,
            "-292277022657-01-27T08:29:52.852516352Z",
            "-9223372036854775810.147483648s",
        ),
        (
            i64::MAX,
            i32::MAX,
            "+292277026596-12-04T15:30:07.147483647Z",
            "9223372036854775809.147483647s",
        ),
    ] {
        let body = time(seconds, nanos);
        let found = shown("Timestamp", "protobuf/timestamp", &body);
        assert_eq!(found, Ok(json!(timestamp)));
        let found = shown("Duration", "protobuf/duration", &body);
        assert_eq!(found, Ok(json!(duration)));
    }
    for (kind, body, value) in [
        ("StringValue", sized(1, "x"), json!("x")),
        ("StringValue", vec![], json!("")),
        ("Int64Value", number(1, u64::MAX), json!(-1)),
        ("BoolValue", number(1, 0), json!(false)),
        ("BytesValue", sized(1, "x"), json!("eA==")),
        ("FloatValue", vec![], json!(0.0)),
    ] {
        assert_eq!(shown(kind, "protobuf/wrappers", &body), Ok(value), "{kind}");
    }
    let value = |body: Vec<u8>| sized(1, body);
    let field = |name: &str, body: Vec<u8>| sized(1, [sized(1, name), sized(2, body)].concat());
    for (kind, body, expected) in [
        ("Value", vec![], json!(null)),
        ("Value", number(1, 0), json!(null)),
        ("Value", [number(4, 1), sized(3, "x")].concat(), json!("x")),
        (
            "Value",
            [vec![0x11], 2_f64.to_le_bytes().to_vec()].concat(),
            json!(2.0),
        ),
        ("Value", sized(6, ""), json!([])),
        ("ListValue", vec![], json!([])),
        (
            "ListValue",
            [value(number(4, 0)), value(vec![])].concat(),
            json!([false, null]),
        ),
        ("Struct", vec![], json!({})),
        (
            "Struct",
            [
                field("a", sized(5, field("b", sized(3, "c")))),
                field("", vec![]),
            ]
            .concat(),
            json!({"a": {"b": "c"}, "": null}),
        ),
    ] {
        assert_eq!(
            shown(kind, "protobuf/struct", &body),
            Ok(expected),
            "{kind}"
        );
    }
    assert_eq!(
        shown(
            "FieldMask",
            "protobuf/field_mask",
            &[sized(1, "a_b.c"), sized(1, "d__e_")].concat()
        ),
        Ok(json!("aB.c,dE"))
    );
    assert_eq!(shown("Empty", "protobuf/empty", &[]), Ok(json!({})));
    let nulls = known("repeated google.protobuf.NullValue", "protobuf/struct");
    assert_eq!(first(&nulls, &number(1, 0)), Ok(json!({"x": [null]})));
    for (kind, file) in [
        ("google.type.Money", "type/money"),
        ("google.protobuf.Api", "protobuf/api"),
        ("google.protobuf.FileDescriptorProto", "protobuf/descriptor"),
    ] {
        assert_eq!(
            first(&known(kind, file), &sized(1, "")),
            Ok(json!({"x": {}}))
        );
    }
    let decimal = proto3("import 'confluent/type/decimal.proto'; import 'confluent/meta.proto';
        message A { confluent.type.Decimal x = 1 [(confluent.field_meta) = { params: [{ key: \"precision\", value: \"8\" }] }]; }");
    assert_eq!(
        first(&decimal, &sized(1, number(3, 2))),
        Ok(json!({"x": {"scale": 2}}))
    );
}

#[test]
fn a_type_that_only_has_the_name_of_a_known_one_is_an_object() {
    let schema = proto3("package google.protobuf; message Timestamp { string text = 1; }");
    assert_eq!(first(&schema, &sized(1, "x")), Ok(json!({"text": "x"})));
}

#[test]
fn an_any_is_the_message_in_it_if_the_schema_has_its_type() {
    let schema = proto3(
        "package p; import 'google/protobuf/any.proto'; import 'google/protobuf/wrappers.proto';
         message A { google.protobuf.Any x = 1; int32 n = 2; }",
    );
    let any = |url: &str, value: Vec<u8>| sized(1, [sized(1, url), sized(2, value)].concat());
    for (body, value) in [
        (
            any("type.googleapis.com/p.A", number(2, 5)),
            json!({"@type": "type.googleapis.com/p.A", "n": 5}),
        ),
        (
            any("p.A", any("x/p.A", vec![])),
            json!({"@type": "p.A", "x": {"@type": "x/p.A"}}),
        ),
        (
            any("x/google.protobuf.StringValue", sized(1, "s")),
            json!({"@type": "x/google.protobuf.StringValue", "value": "s"}),
        ),
        (
            any("x/other.B", vec![0xff]),
            json!({"type_url": "x/other.B", "value": "/w=="}),
        ),
        (sized(1, ""), json!({})),
        (sized(1, sized(1, "x/p.A")), json!({"@type": "x/p.A"})),
    ] {
        assert_eq!(first(&schema, &body), Ok(json!({"x": value})));
    }
    assert!(first(&schema, &any("x/p.A", vec![0xff])).is_err());
}

#[test]
fn nesting_is_limited() {
    let schema = schema(
        "import 'google/protobuf/struct.proto'; import 'google/protobuf/any.proto'; message A { optional A a = 1; map<int32, A> m = 2;
         optional google.protobuf.Value v = 3; optional google.protobuf.Any x = 4; repeated A r = 5; }",
    );
    let too_deep = Err("values are nested more than 200 levels deep".to_owned());
    let nested = |depth: usize, wrap: fn(Vec<u8>) -> Vec<u8>| {
        (0..depth).fold(Vec::new(), |body, _| wrap(body))
    };
    type Wrap = fn(Vec<u8>) -> Vec<u8>;
    let wraps: [(Wrap, usize); 5] = [
        (|body| sized(1, body), 200),
        (|body| group(1, body), 200),
        (|body| sized(2, sized(2, body)), 200),
        (
            |body| sized(4, [sized(1, "A"), sized(2, body)].concat()),
            100,
        ),
        (|body| sized(5, body), 200),
    ];
    for (wrap, most) in wraps {
        // The parser of this test does not read what is as deep as it may be.
        let payload = [vec![0, 0, 0, 0, 1, 0], nested(most, wrap)].concat();
        let framed = Framed::split(&payload, None);
        assert_eq!(schema.write_json(&framed, &mut Vec::new()), Ok(0));
        assert_eq!(first(&schema, &nested(most + 1, wrap)), too_deep);
        assert_eq!(first(&schema, &nested(2_000, wrap)), too_deep);
    }
    // Of lists of values, and of fields that the schema does not have.
    let lists = (0..2_000).fold(Vec::new(), |body, _| sized(6, sized(1, body)));
    assert_eq!(first(&schema, &sized(3, lists)), too_deep);
    assert_eq!(
        first(&schema, &nested(2_000, |body| group(9, body))),
        too_deep
    );
    assert_eq!(first(&schema, &tag(1, 3).repeat(1_000_000)), too_deep);
}

#[test]
fn lengths_numbers_and_groups_are_checked() {
    let schema =
        proto3("message A { string s = 1; A a = 2; repeated fixed32 f = 3; bytes b = 4; }");
    let overlong = "the body ends within a number, or the number has more than ten bytes";
    for (body, reason) in [
        (
            [tag(1, 2), varint(u64::MAX)].concat(),
            "a value has 18446744073709551615 bytes, but 0 are left",
        ),
        (
            [tag(4, 2), varint(1 << 40), vec![1]].concat(),
            "a value has 1099511627776 bytes, but 1 are left",
        ),
        (
            sized(2, [tag(1, 2), vec![1]].concat()),
            "a value has 1 bytes, but 0 are left",
        ),
        (sized(1, [0xff]), "a string is not UTF-8"),
        (sized(3, [0; 7]), "a value has 4 bytes, but 3 are left"),
        ([tag(9, 0), vec![0xff; 11]].concat(), overlong),
        (vec![0xff], overlong),
        (tag(9, 0), overlong),
        (tag(9, 5), "a value has 4 bytes, but 0 are left"),
        (
            varint(1 << 32 | 8),
            "the number of a field has more than 29 bits",
        ),
        (vec![0, 0], "the number of a field is 0"),
        (vec![0x0e], "a value has the unknown form 6"),
        (tag(2, 4), "a group ends that has not begun"),
        (tag(2, 3), "the body ends within a group"),
        (
            [tag(2, 3), tag(3, 4)].concat(),
            "a group ends with the number of another one",
        ),
        (
            sized(2, [tag(2, 3), tag(3, 3), tag(2, 4)].concat()),
            "a group ends with the number of another one",
        ),
        (
            [sized(2, tag(2, 3)), tag(2, 4)].concat(),
            "a group ends that has not begun",
        ),
    ] {
        assert_eq!(first(&schema, &body), Err(reason.to_owned()));
    }
    // Values of another form are those of a field that is not known.
    let other = [
        number(1, 5),
        [tag(2, 5), vec![1; 4]].concat(),
        number(3, 1),
        group(4, []),
    ]
    .concat();
    assert_eq!(first(&schema, &other), Ok(json!({})));
}

#[test]
fn the_output_is_limited() {
    let name = "n".repeat(500);
    let text = format!("message A {{ repeated B b = 1; }} message B {{ int32 {name} = 1; }}");
    let schema = proto3(&text).with_defaults();
    assert!(first(&schema, &sized(1, "").repeat(1_000)).is_ok());
    let error = first(&schema, &sized(1, "").repeat(200_000)).unwrap_err();
    assert_eq!(error, "the decoded body takes more than 64 MiB");
    let numbers = proto3("message A { repeated int32 n = 1; }");
    let error = first(&numbers, &number(1, 5).repeat(17_000_000)).unwrap_err();
    assert_eq!(error, "the body has more than 16777216 values");
    // The highest number of a field takes no memory.
    let high = proto3("message A { int32 n = 536870911; }");
    assert_eq!(first(&high, &number(536_870_911, 5)), Ok(json!({"n": 5})));
}

#[test]
fn indexes_count_the_messages_that_the_text_declares() {
    let schema = proto3(
        "enum E { ZERO = 0; } message A { map<int32, int32> m = 1; message B { enum F { NIL = 0; } message C { int32 c = 1; } int32 b = 1; }
         message D { int32 d = 1; } } message G { int32 g = 1; }",
    );
    let body = number(1, 3);
    assert_eq!(at(&schema, &[1], &body), Ok(json!({"g": 3})));
    assert_eq!(at(&schema, &[0, 0], &body), Ok(json!({"b": 3})));
    assert_eq!(at(&schema, &[0, 0, 0], &body), Ok(json!({"c": 3})));
    assert_eq!(at(&schema, &[0, 1], &body), Ok(json!({"d": 3})));
    for wrong in [&[2][..], &[0, 2], &[1, 0], &[0, 0, 0, 0]] {
        let error = at(&schema, wrong, &body).unwrap_err();
        assert_eq!(error, "the schema has no message with these indexes");
    }
    // The index -1, and none at all.
    for payload in [
        &[0, 0, 0, 0, 1, 2, 1][..],
        &[0, 0, 0, 0, 1],
        &[0, 0, 0, 0, 1, 8, 0],
    ] {
        assert!(decoded(&schema, payload, None).is_err());
    }
    assert!(first(&self::schema("import 'x.proto';"), &[]).is_err());
}

#[test]
fn names_are_those_of_the_innermost_scope() {
    let references = [
        ("b.proto".to_owned(), "syntax = 'proto3'; package a.b; message X { int32 far = 1; } message Only { int32 only = 1; }".to_owned()),
        ("c.proto".to_owned(), "syntax = 'proto3'; package c; import public 'b.proto'; enum E { V = 0; W = 1; }".to_owned()),
    ];
    let text = "syntax = 'proto3'; package a.z; import 'c.proto'; import 'absent.proto';
        message M { X near = 1; b.X far = 2; .a.b.X full = 3; a.b
            .Only split = 4; M.X own = 5; c.E e = 6; message X { int32 near = 1; } }
        message X { int32 outer = 1; } message N { X outer = 1; }";
    let schema = ProtobufSchema::parse(text, &references).unwrap();
    let body: Vec<_> = (1..=5)
        .flat_map(|field| sized(field, number(1, field)))
        .chain(number(6, 1))
        .collect();
    let expected = json!({
        "near": {"near": 1}, "far": {"far": 2}, "full": {"far": 3}, "split": {"only": 4}, "own": {"near": 5}, "e": "W"
    });
    assert_eq!(first(&schema, &body), Ok(expected));
    assert_eq!(at(&schema, &[1], &number(1, 1)), Ok(json!({"outer": 1})));
    assert_eq!(
        at(&schema, &[2], &sized(1, number(1, 1))),
        Ok(json!({"outer": {"outer": 1}}))
    );
}

#[test]
fn what_does_not_change_a_body_is_skipped() {
    let schema = schema(
        "\u{feff}// a { comment\n/* and /* another */ syntax = \"proto2\"; ;
         option java_package = \"a;}\\\"b\"; option (custom).name = { text: 'it''s' # no quote: '\n list: [1, -2e3] inner { a: 1; b <c: 2> } };
         service S { rpc Get(A) returns (stream A) { option (http) = { get: '/v1/{name=*}' }; } rpc Put(A) returns (A); }
         message A {
           reserved 2, 15, 9 to 11; reserved \"foo\", 'bar'; extensions 100, 200 to max [declaration = { number: 4, type: '.x;' }];
           option deprecated = true;
           optional string message = 0x1 [json_name = \"other\", (a).b = -inf, default = \"]; }\"];
           optional E option = 010;
           enum E { option allow_alias = true; reserved 5 to 6; A = 1 [deprecated = true]; B = 0x2; C = -3; D = 0; }
         };",
    );
    let body = [sized(1, "x"), number(8, 2)].concat();
    let expected = json!({"message": "x", "option": "B"});
    assert_eq!(first(&schema, &body), Ok(expected));
}

#[test]
fn a_schema_that_is_none_is_refused() {
    for (text, reason) in [
        ("{}", "line 1: a declaration was expected, not '{'"),
        ("\n\nmessage A", "line 3: '{' was expected, not the end"),
        (
            "message A { B b = 1; }",
            "the type B of the field b is not defined",
        ),
        (
            "message A { x.B b = 1; }",
            "the type x.B of the field b is not defined",
        ),
        (
            "package a.b; message M { a.b b = 1; }",
            "the type a.b of the field b is not defined",
        ),
        (
            "message A { int32 a = 0; }",
            "the field a has no valid number",
        ),
        (
            "message A { int32 a = 536870912; }",
            "the field a has no valid number",
        ),
        (
            "message A { int32 a = -1; }",
            "the field a has no valid number",
        ),
        (
            "message A { int32 a = 08; }",
            "line 1: a whole number was expected, not \"08\"",
        ),
        (
            "message A { int32 z = 3; int32 a = 1; oneof o { string b = 1; } }",
            "two fields of a message have the number 1: a and b",
        ),
        (
            "message A { int32 a = 1; message B { int32 b = 1; string b = 2; } }",
            "a message has two fields with the name b",
        ),
        (
            "message A {} extend A { repeated A a = 5; int32 b = 5; }",
            "two fields of a message have the number 5: [a] and [b]",
        ),
        (
            "message A { int32 a b; }",
            "line 1: '=' was expected, not \"b\"",
        ),
        (
            "message A { int32 .a = 1; }",
            "line 1: a name was expected, not '='",
        ),
        ("enum E { A = 2147483648; }", "A has more than 32 bits"),
        ("syntax = \"proto4\";", "the syntax \"proto4\" is not known"),
        ("import \"a", "line 1: text in quotes does not end"),
        ("/* a *", "line 1: a comment does not end"),
        (
            "message A { option x = { a: 1 };",
            "line 1: a field was expected, not the end",
        ),
        (
            "message A { option x = 1 }",
            "line 1: the end of an option was expected",
        ),
        ("option x = ];", "line 1: the end of an option was expected"),
        (
            "service S { rpc",
            "line 1: the end of a declaration was expected",
        ),
        (
            "message \u{fc} {}",
            "line 1: a character stands outside of quotes",
        ),
        (
            "message A { message B { import 'x'; } }",
            "line 1: a name was expected",
        ),
    ] {
        let error = ProtobufSchema::parse(text, &[]).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{text}: {error}");
    }
    let references = [("b.proto".to_owned(), "message {".to_owned())];
    let error = ProtobufSchema::parse("import 'b.proto';", &references).unwrap_err();
    assert_eq!(
        error.to_string(),
        "b.proto: line 1: a name was expected, not '{'"
    );
}

#[test]
fn a_hostile_schema_is_read_or_refused_without_much_memory() {
    let deep = "messages are nested more than 32 levels deep";
    let refused = |text: String| ProtobufSchema::parse(&text, &[]).unwrap_err().to_string();
    assert_eq!(refused("message A {".repeat(100_000)), deep);
    assert_eq!(
        refused(format!(
            "message A {{ {}",
            "optional group G = 1 {".repeat(100_000)
        )),
        deep
    );
    assert_eq!(
        refused(format!("package {}b;", "a.".repeat(1_000_000))),
        "a name has more than 512 bytes"
    );
    assert_eq!(
        refused(format!("package a{};", " .a".repeat(1_000_000))),
        "a name has more than 512 bytes"
    );
    // They are skipped, however deep they are, and whatever they repeat.
    let ranges = (1..20_000).map(|at| format!("{at}, ")).collect::<String>();
    schema(&format!(
        "message A {{ extensions {ranges} 20000 [a = \"{}\"]; option b = {} {}; }}",
        "x".repeat(1_000_000),
        "{[".repeat(100_000),
        "]}".repeat(100_000),
    ));
    // Files that import each other, and one that imports itself.
    let references = [
        (
            "a.proto".to_owned(),
            "import 'b.proto'; import 'a.proto'; message A { B b = 1; }".to_owned(),
        ),
        (
            "b.proto".to_owned(),
            "import 'a.proto'; message B { A a = 1; }".to_owned(),
        ),
    ];
    let schema = ProtobufSchema::parse("import 'a.proto'; message C { A a = 1; }", &references);
    assert_eq!(
        first(&schema.unwrap(), &sized(1, sized(1, sized(1, [])))),
        Ok(json!({"a": {"b": {"a": {}}}}))
    );
}

#[test]
fn a_changed_schema_is_read_or_refused() {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let parts = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        ";",
        "=",
        ".",
        ",",
        "'",
        "\"",
        "/*",
        "*/",
        "//",
        "\\",
        "\n",
        "-",
        "message",
        "group",
        "map",
        "option",
        "oneof",
        "extend",
        "import",
        "package",
        "0",
        "536870911",
        "features",
        "\u{fc}",
    ];
    let mut refused = 0;
    for line in include_str!("protobuf.jsonl").lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let Some(text) = one["schema"].as_str() else {
            continue;
        };
        for _ in 0..1_000 {
            let mut text = text.as_bytes().to_vec();
            for _ in 0..=next(3) {
                let at = next(text.len());
                let part = parts[next(parts.len())].as_bytes();
                text.splice(at..(at + next(8)).min(text.len()), part.iter().copied());
            }
            let text = String::from_utf8_lossy(&text);
            if let Ok(schema) = ProtobufSchema::parse(&text, &[]) {
                let _ = first(&schema, &number(1, 1));
            } else {
                refused += 1;
            }
        }
    }
    assert!(refused > 2_000);
}

/// `message M { message N { repeated string s = 1; } N n = 1; oneof o { sint32 a = 2; E e = 3; } }` of the package `p`,
/// and `enum E { Z = 0; MINUS = -1; }`, as Python's protobuf serialises its descriptor.
const DESCRIPTOR: &str = "CgdtLnByb3RvEgFwIksKAU0SEQoBbhgBIAEoCzIGLnAuTS5OEgsKAWEYAiABKBFIABIRCgFlGAMgASgOMgQucC5F\
    SAAaDgoBThIJCgFzGAEgAygJQgMKAW8qHgoBRRIFCgFaEAASEgoFTUlOVVMQ////////////AWIGcHJvdG8z";

#[test]
fn a_descriptor_in_base64_is_a_schema() {
    let schema = schema(DESCRIPTOR);
    let body = [sized(1, sized(1, "x")), number(2, 3), number(3, u64::MAX)].concat();
    let wanted = json!({"n": {"s": ["x"]}, "e": "MINUS"});
    assert_eq!(first(&schema, &body), Ok(wanted));
    assert_eq!(
        at(&schema, &[0, 0], &sized(1, "y")),
        Ok(json!({"s": ["y"]}))
    );
    let cut = &DESCRIPTOR[..DESCRIPTOR.len() - 8];
    let error = ProtobufSchema::parse(cut, &[]).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the schema is no .proto file, and as base64 it is no FileDescriptorProto: "
        )
    );
}
