//! JSON Schemas as types of columns, and JSON text as their values.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::time::{Duration, Instant};

use brokerless_core::Framed;
use brokerless_values::{Bits, Column, Plan, Schema, Type, Values};
use serde_json::{Map, Value, json};

fn schema(value: &Value) -> Schema {
    Schema::parse("JSON", &value.to_string(), &[]).unwrap()
}

fn kind(value: &Value) -> Type {
    schema(value).column_type().unwrap()
}

fn list(items: Type) -> Type {
    Type::List(Box::new(items))
}

fn map(values: Type) -> Type {
    Type::Map(Box::new(Type::Utf8), Box::new(values))
}

fn fields(listed: &[(&str, Type)]) -> Type {
    let owned = listed
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
    Type::Struct(owned.collect())
}

/// An object without other members.
fn closed(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

#[test]
fn a_schema_of_one_type_has_it() {
    for (schema, expected) in [
        (
            json!({"type": "integer", "minimum": 3, "enum": [4, 5]}),
            Type::Int64,
        ),
        (json!({"type": "number"}), Type::Float64),
        (json!({"type": "string", "format": "date-time"}), Type::Utf8),
        (json!({"type": "boolean"}), Type::Boolean),
        (json!({"type": "null"}), Type::Null),
        (json!({"type": ["null", "integer"]}), Type::Int64),
        (json!({"type": ["string", "null"]}), Type::Utf8),
        (json!({"type": ["string"]}), Type::Utf8),
        (
            json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}),
            Type::Int64,
        ),
        (
            json!({"oneOf": [{"type": "boolean"}, {"type": "null"}], "default": null}),
            Type::Boolean,
        ),
        (json!({"enum": ["a", "b", null]}), Type::Utf8),
        (
            json!({"type": "array", "items": {"type": "number"}}),
            list(Type::Float64),
        ),
        (json!({"type": "array", "items": true}), list(Type::Json)),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            map(Type::Int64),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "object"}, "properties": {}}),
            map(Type::Json),
        ),
        (
            closed(json!({"z": {"type": "integer"}, "a": {"type": "string"}, "m": {}})),
            // serde_json, which writes the schema, sorts the names.
            fields(&[("a", Type::Utf8), ("m", Type::Json), ("z", Type::Int64)]),
        ),
        (
            json!({"type": "object", "properties": {"a": true}, "unevaluatedProperties": false}),
            fields(&[("a", Type::Json)]),
        ),
    ] {
        assert_eq!(kind(&schema), expected, "{schema}");
    }
    let text = r#"{"type": "object", "additionalProperties": false, "properties": {
        "z": {"type": "integer"}, "a": {"type": "string"}, "z": {"type": "number"}}}"#;
    let schema = Schema::parse("JSON", text, &[]).unwrap();
    assert_eq!(
        schema.column_type(),
        Ok(fields(&[("a", Type::Utf8), ("z", Type::Float64)]))
    );
}

#[test]
fn a_schema_without_one_type_is_json_text() {
    let open = json!({"a": {"type": "integer"}});
    for schema in [
        json!(true),
        json!({}),
        json!([]),
        json!({"type": "any"}),
        json!({"type": []}),
        json!({"type": 7}),
        json!({"type": ["integer", {"type": "string"}]}),
        json!({"type": ["integer", "string"]}),
        json!({"const": "a"}),
        json!({"enum": ["a", 1]}),
        json!({"enum": [null]}),
        json!({"allOf": [{"type": "integer"}]}),
        json!({"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"}]}),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "array"}),
        json!({"type": "array", "items": [{"type": "integer"}]}),
        json!({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": open}),
        json!({"type": "object", "properties": open, "additionalProperties": true}),
        json!({"type": "object", "properties": open, "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": open, "additionalProperties": true, "unevaluatedProperties": false}),
        json!({"type": "object", "properties": open, "unevaluatedProperties": false, "allOf": [{}]}),
        json!({"type": "object", "properties": open, "additionalProperties": false, "patternProperties": {"^x": {}}}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": {}}),
        json!({"properties": open, "additionalProperties": false}),
        closed(json!({"a\0b": {"type": "integer"}})),
        json!({"$ref": "#/$defs/absent", "$defs": {}}),
        json!({"$ref": "#anchor", "type": "integer"}),
        json!({"$ref": "#"}),
        json!({"$ref": 7}),
    ] {
        assert_eq!(kind(&schema), Type::Json, "{schema}");
    }
    for text in ["", "{", "\u{0}", "1e999", &"[".repeat(100_000)] {
        let schema = Schema::parse("JSON", text, &[]).unwrap();
        assert_eq!(schema.column_type(), Ok(Type::Json));
    }
}

#[test]
fn references_are_followed() {
    let text = |value: Value| value.to_string();
    let references = [
        (
            "http://example.com/line.json".to_owned(),
            text(
                json!({"$ref": "#/definitions/a~1 b", "definitions": {"a/ b": {"type": "integer"}}}),
            ),
        ),
        (
            "names".to_owned(),
            text(json!({"$id": "urn:n", "$defs": {"n": {"type": ["string", "null"]}}})),
        ),
        ("broken".to_owned(), "{".to_owned()),
    ];
    let root = json!({
        "$id": "http://example.com/order.json",
        "type": "array",
        "items": closed(json!({
            "absolute": {"$ref": "http://example.com/line.json"},
            "relative": {"$ref": "line.json#"},
            "escaped": {"$ref": "line.json#/definitions/a~1%20b"},
            "named": {"$ref": "names#/$defs/n"},
            "by_id": {"$ref": "urn:n#/$defs/n"},
            "own": {"$ref": "http://example.com/order.json#/$defs/x"},
            "broken": {"$ref": "broken"},
            "inner": {"$id": "inner", "$ref": "#/$defs/x", "$defs": {"x": {"type": "number"}}},
            "again": {"$ref": "#"},
        })),
        "$defs": {"x": {"type": "boolean"}},
    });
    let schema = Schema::parse("JSON", &text(root), &references).unwrap();
    let items = fields(&[
        ("absolute", Type::Int64),
        ("again", Type::Json),
        ("broken", Type::Json),
        ("by_id", Type::Utf8),
        ("escaped", Type::Int64),
        ("inner", Type::Float64),
        ("named", Type::Utf8),
        ("own", Type::Boolean),
        ("relative", Type::Int64),
    ]);
    assert_eq!(schema.column_type(), Ok(list(items)));
}

#[test]
fn types_are_limited_in_depth_and_number() {
    let chain: Map<String, Value> = (0..1000)
        .map(|at| {
            (
                at.to_string(),
                json!({"$ref": format!("#/$defs/{}", at + 1)}),
            )
        })
        .collect();
    assert_eq!(
        kind(&json!({"$ref": "#/$defs/0", "$defs": chain})),
        Type::Json
    );
    let twice: Map<String, Value> = (0..40)
        .map(|at| {
            let next = json!({"$ref": format!("#/$defs/{}", at + 1)});
            (at.to_string(), closed(json!({"a": next, "b": next})))
        })
        .collect();
    let error = schema(&json!({"$ref": "#/$defs/0", "$defs": twice})).column_type();
    assert_eq!(
        error.unwrap_err().to_string(),
        "the schema has more than 20000 columns: read it as JSON text"
    );
    let deep = (0..100).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"type": "array", "items": inner}),
    );
    let (mut levels, mut inner) = (0, kind(&deep));
    while let Type::List(items) = inner {
        (levels, inner) = (levels + 1, *items);
    }
    assert_eq!((levels, inner), (30, Type::Json));
}

/// A column of a schema, and the way of bodies to it.
struct Reader {
    schema: Schema,
    kind: Type,
    plan: Plan,
    column: Column,
}

impl Reader {
    fn new(value: &Value) -> Self {
        let schema = schema(value);
        let kind = schema.column_type().unwrap();
        Self {
            plan: Plan::new(&schema, Some(&schema), &kind).unwrap(),
            column: Column::new(&kind),
            schema,
            kind,
        }
    }

    fn push(&mut self, body: &[u8]) -> Result<usize, String> {
        let payload = [&[0, 0, 0, 0, 1], body].concat();
        let framed = Framed::split(&payload, None);
        let before = self.column.len();
        let (schema, column) = (&self.schema, &mut self.column);
        let appended = self.plan.decode(schema, Some(schema), &framed, column);
        assert_eq!(column.len(), before + usize::from(appended.is_ok()));
        match appended {
            Ok(appended) => {
                assert_eq!(appended.left_over, 0);
                Ok(appended.bytes)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// All rows. Each part of the column has the length that the others say.
    fn rows(&self) -> Vec<Value> {
        rows(&self.kind, &self.column)
    }
}

#[test]
fn a_reference_into_a_schema_with_a_uri_refers_to_its_parts() {
    let inner = json!({
        "$id": "http://x/a",
        "definitions": {"c": {"type": "string"}, "b": {"$ref": "#/definitions/c"}},
    });
    let mut outer = closed(json!({"x": {"$ref": "#/definitions/a/definitions/b"}}));
    outer["definitions"] = json!({"c": {"type": "integer"}, "a": inner});
    assert_eq!(kind(&outer), fields(&[("x", Type::Utf8)]));
}

#[test]
fn a_keyword_of_later_drafts_closes_nothing_in_earlier_ones() {
    let mut open = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "unevaluatedProperties": false,
    });
    assert_eq!(kind(&open), fields(&[("a", Type::Int64)]));
    open["$schema"] = json!("https://json-schema.org/draft/2019-09/schema");
    assert_eq!(kind(&open), fields(&[("a", Type::Int64)]));
    open["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(kind(&open), Type::Json);
}

#[test]
fn the_last_of_properties_with_the_same_name_has_its_place() {
    let text = r#"{"type": "object", "additionalProperties": false, "properties": {
        "a": {"type": "integer"}, "b": {"type": "integer"}, "a": {"type": "string"}, "c": {"type": "boolean"}}}"#;
    for _ in 0..20 {
        let schema = Schema::parse("JSON", text, &[]).unwrap();
        let expected = fields(&[("b", Type::Int64), ("a", Type::Utf8), ("c", Type::Boolean)]);
        assert_eq!(schema.column_type().unwrap(), expected);
    }
}

#[test]
fn long_parts_that_many_refer_to_take_bounded_time() {
    let references = |to: &str| -> Value {
        let named = (0..4000).map(|at| (format!("p{at}"), json!({"$ref": to})));
        Value::Object(named.collect())
    };
    let percents = format!("#/{}", "%".repeat(1_000_000));
    for definition in [
        json!({"$ref": percents}),
        json!({"enum": vec!["a"; 250_000]}),
        json!({"type": vec!["null"; 250_000]}),
    ] {
        let mut schema = closed(references("#/definitions/x"));
        schema["definitions"] = json!({"x": definition});
        let start = Instant::now();
        assert!(matches!(kind(&schema), Type::Struct(columns) if columns.len() == 4000));
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
    }
}

fn rows(kind: &Type, column: &Column) -> Vec<Value> {
    let is_set = |bits: &Bits, row: usize| {
        bits.as_bytes()
            .is_none_or(|bytes| bytes[row / 8] >> (row % 8) & 1 == 1)
    };
    let ends = |offsets: &[i32], inner: usize| -> Vec<std::ops::Range<usize>> {
        assert_eq!(offsets.last(), Some(&(inner as i32)));
        let pairs = offsets.windows(2);
        pairs
            .map(|pair| pair[0] as usize..pair[1] as usize)
            .collect()
    };
    let count = column.len();
    let values: Vec<Value> = match (kind, &column.values) {
        (Type::Null, Values::Null) => vec![Value::Null; count],
        (Type::Boolean, Values::Boolean(bits)) => {
            assert_eq!(bits.len(), count);
            (0..count).map(|row| is_set(bits, row).into()).collect()
        }
        (Type::Int64, Values::Int64(values)) => values.iter().map(|&one| one.into()).collect(),
        (Type::Float64, Values::Float64(values)) => values.iter().map(|&one| one.into()).collect(),
        (Type::Utf8 | Type::Json, Values::Bytes(offsets, bytes)) => {
            let text = std::str::from_utf8(bytes).unwrap();
            let texts = ends(offsets.as_offsets(), bytes.len())
                .into_iter()
                .map(|at| &text[at]);
            texts
                .map(|text| match kind {
                    Type::Json => json!([text]),
                    _ => text.into(),
                })
                .collect()
        }
        (Type::Struct(fields), Values::Struct(columns)) => {
            let mut objects = vec![Map::new(); count];
            for ((name, kind), column) in fields.iter().zip(columns) {
                for (object, value) in objects.iter_mut().zip(rows(kind, column)) {
                    object.insert(name.clone(), value);
                }
            }
            objects.into_iter().map(Value::Object).collect()
        }
        (Type::List(kind), Values::List(offsets, items)) => {
            let items = rows(kind, items);
            let ends = ends(offsets.as_offsets(), items.len());
            ends.into_iter().map(|at| items[at].into()).collect()
        }
        (Type::Map(_, kind), Values::Map(offsets, entries)) => {
            let (keys, values) = (rows(&Type::Utf8, &entries.0), rows(kind, &entries.1));
            assert_eq!(keys.len(), values.len());
            let ends = ends(offsets.as_offsets(), values.len());
            let entry = |at| json!([keys[at], values[at]]);
            ends.into_iter().map(|at| at.map(entry).collect()).collect()
        }
        _ => panic!("a column of another type than {kind:?}"),
    };
    assert_eq!(values.len(), count);
    let valid = |(row, value)| {
        if is_set(&column.validity, row) {
            value
        } else {
            Value::Null
        }
    };
    values.into_iter().enumerate().map(valid).collect()
}

/// A schema with all types, and bodies of it.
fn order() -> (Value, Vec<&'static [u8]>) {
    let line = closed(json!({"sku": {"type": "string"}, "price": {"type": ["number", "null"]}}));
    let schema = closed(json!({
        "id": {"type": "integer"},
        "ok": {"type": "boolean"},
        "none": {"type": "null"},
        "lines": {"type": "array", "items": line},
        "counts": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
        "rest": {"type": "object"},
    }));
    let bodies: Vec<&[u8]> = vec![
        br#"{"id": 12, "ok": true, "none": null, "lines": [{"sku": "a\u00e4\"", "price": -1.5e1}, {}, null],
            "counts": {"x" : [1 , 2.0], "\u0079": [], "z": null}, "rest": { "a b" : [ "]}" , {} ] } }"#,
        br#" {"rest":"]","lines":[],"id":-9223372036854775808} "#,
        br#"{"id": 1, "lines": [{"sku": "x", "sku": "y"}], "counts": {"k": [1], "k": [], "j": [3]}, "id": 2}"#,
        b"{}",
        b"null",
    ];
    (schema, bodies)
}

#[test]
fn bodies_become_rows() {
    let (schema, bodies) = order();
    let mut reader = Reader::new(&schema);
    for body in bodies {
        assert!(reader.push(body).unwrap() >= body.len());
    }
    let row = |id: Value, rest: Value, lines: Value, counts: Value| json!({"id": id, "ok": null, "none": null, "lines": lines, "counts": counts, "rest": rest});
    let mut first = row(
        json!(12),
        json!([r#"{"a b":["]}",{}]}"#]),
        json!([{"sku": "aä\"", "price": -15.0}, {"sku": null, "price": null}, null]),
        json!([["x", [1, 2]], ["y", []], ["z", null]]),
    );
    first["ok"] = json!(true);
    let null = Value::Null;
    let expected = [
        first,
        row(json!(i64::MIN), json!(["\"]\""]), json!([]), null.clone()),
        row(
            json!(2),
            null.clone(),
            json!([{"sku": "y", "price": null}]),
            json!([["k", []], ["j", [3]]]),
        ),
        row(null.clone(), null.clone(), null.clone(), null.clone()),
        null,
    ];
    assert_eq!(reader.rows(), expected);
}

#[test]
fn empty_values_end_only_themselves() {
    let list = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}});
    let inner = closed(json!({"b": closed(json!({"c": {"type": "integer"}})), "list": list}));
    let mut reader = Reader::new(&closed(json!({"a": inner, "z": {"type": "integer"}})));
    for body in [
        r#"{"a":{"b":{},"list":[[],[[]]]},"z":1}"#,
        r#"{"a":{"list":[[],[1],[]],"b":{}},"z":1}"#,
        r#"{"a":{"list":[[]],"b":{"c":7}},"z":1}"#,
        r#"{"a":{},"z":1}"#,
    ] {
        let pushed = reader.push(body.as_bytes());
        assert_eq!(pushed.is_err(), body.contains("[[]]]"), "{body}");
    }
    let list = |value: Value| json!({"a": {"b": {"c": null}, "list": value}, "z": 1});
    let mut expected = vec![
        list(json!([[], [1], []])),
        list(json!([[]])),
        list(Value::Null),
    ];
    expected[1]["a"]["b"]["c"] = json!(7);
    expected[2]["a"]["b"] = Value::Null;
    assert_eq!(reader.rows(), expected);
}

#[test]
fn a_value_that_does_not_fit_is_named_without_contents() {
    let (schema, bodies) = order();
    let mut reader = Reader::new(&schema);
    reader.push(bodies[0]).unwrap();
    let before = reader.rows();
    for (body, expected) in [
        (
            &br#"{"id": "secret"}"#[..],
            "$.id: an integer of 64 bits is expected, not text",
        ),
        (
            br#"{"id": 77.5}"#,
            "$.id: an integer of 64 bits is expected, not this number",
        ),
        (
            br#"{"id": 9223372036854775808}"#,
            "$.id: an integer of 64 bits is expected, not this number",
        ),
        (
            br#"{"ok": 77}"#,
            "$.ok: a boolean is expected, not this number",
        ),
        (
            br#"{"none": false}"#,
            "$.none: null is expected, not a boolean",
        ),
        (
            br#"{"id": 1, "secret": 2}"#,
            "$: a member is not in the schema",
        ),
        (
            br#"{"lines": [{"sku": "a"}, {"secret": 2}]}"#,
            "$.lines[*]: a member is not in the schema",
        ),
        (
            br#"{"lines": [{"sku": "a", "price": 9007199254740993}]}"#,
            "$.lines[*].price: a number that a double holds is expected, not this number",
        ),
        (
            br#"{"counts": {"a": [1], "secret": [2, "secret"]}}"#,
            "$.counts[*][*]: an integer of 64 bits is expected, not text",
        ),
        (
            br#"{"lines": {}}"#,
            "$.lines: an array is expected, not an object",
        ),
        (
            br#"{"counts": []}"#,
            "$.counts: an object is expected, not an array",
        ),
        (
            br#"{"lines": [{"sku": "secret \udc00"}]}"#,
            "$.lines[*].sku: a string has an escape of half a character",
        ),
        (br#"[]"#, "$: an object is expected, not an array"),
        (b"\xff", "the body is not UTF-8"),
        (
            b"{} {}",
            "the body is no JSON: trailing characters at line 1 column 4",
        ),
        (
            br#"{"id": 01}"#,
            "the body is no JSON: invalid number at line 1 column 9",
        ),
        (
            br#"{"id": NaN}"#,
            "the body is no JSON: expected value at line 1 column 8",
        ),
    ] {
        assert_eq!(reader.push(body), Err(expected.to_owned()));
        assert_eq!(reader.rows(), before);
    }
    let name = "n".repeat(1000);
    let mut reader = Reader::new(&closed(json!({(name.as_str()): {"type": "null"}})));
    let error = reader.push(json!({ (name): 1 }).to_string().as_bytes());
    assert!(error.unwrap_err().len() < 100);
}

/// Bytes that depend on nothing but a number.
fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn damaged_bodies_leave_the_column_whole() {
    let (schema, bodies) = order();
    let mut reader = Reader::new(&schema);
    let mut expected = Vec::new();
    let mut state = 1;
    for body in bodies {
        for length in 0..body.len() {
            let is_whole = serde_json::from_slice::<Value>(&body[..length]).is_ok();
            if reader.push(&body[..length]).is_ok() {
                assert!(is_whole);
                expected.push(None);
            }
        }
        for _ in 0..2000 {
            let mut changed = body.to_vec();
            for _ in 0..=random(&mut state) % 3 {
                let at = random(&mut state) % changed.len();
                let other = body[random(&mut state) % body.len()];
                match random(&mut state) % 4 {
                    0 => changed.insert(at, other),
                    1 if changed.len() > 1 => drop(changed.remove(at)),
                    2 => changed[at] = random(&mut state) as u8,
                    _ => changed[at] = other,
                }
            }
            if reader.push(&changed).is_ok() {
                // Text that is JSON may have a number that a double does not hold, or half a character.
                expected.push(serde_json::from_slice::<Value>(&changed).ok());
            }
        }
        reader.push(body).unwrap();
        expected.push(serde_json::from_slice(body).ok());
    }
    let rows = reader.rows();
    assert_eq!(rows.len(), expected.len());
    assert!(rows.len() > 500);
    for (row, value) in rows.iter().zip(expected) {
        if let Some(value) = value {
            for (name, own) in value.as_object().into_iter().flatten() {
                assert_eq!(row[name].is_null(), own.is_null(), "{value}");
            }
            if let Some(id) = value["id"].as_f64() {
                assert_eq!(row["id"].as_f64(), Some(id));
            }
        }
    }
}

#[test]
fn short_bodies_do_not_become_large_columns() {
    let wide: Map<String, Value> = (0..5000)
        .map(|at| (at.to_string(), json!({"type": "integer"})))
        .collect();
    let mut reader = Reader::new(&json!({"type": "array", "items": closed(Value::Object(wide))}));
    let body = format!("[{}{{}}]", "{},".repeat(100_000));
    assert_eq!(
        reader.push(body.as_bytes()),
        Err("$[*]: the decoded body takes more than 64 MiB".to_owned())
    );
    assert_eq!(reader.push(b"[{}]"), Ok(40_004));
}

#[test]
fn versions_are_read_with_the_types_of_one_or_of_all() {
    let old = schema(&closed(
        json!({"id": {"type": "integer"}, "a": {"type": "string"}}),
    ));
    let new = schema(&closed(
        json!({"id": {"type": "number"}, "b": {"type": "boolean"}}),
    ));
    let own = new.column_type().unwrap();
    let both = old.column_type().unwrap().merge(own.clone());
    let payload = br#"{"id": 7, "a": "x"}"#;
    let payload = [&[0, 0, 0, 0, 1], &payload[..]].concat();
    let framed = Framed::split(&payload, None);
    let mut column = Column::new(&own);
    let plan = Plan::new(&old, Some(&new), &own).unwrap();
    let error = plan.decode(&old, Some(&new), &framed, &mut column);
    assert_eq!(
        error.unwrap_err().to_string(),
        "$: a member is not in the schema"
    );
    let mut column = Column::new(&both);
    let plan = Plan::new(&old, None, &both).unwrap();
    plan.decode(&old, None, &framed, &mut column).unwrap();
    assert_eq!(
        rows(&both, &column),
        [json!({"id": 7.0, "a": "x", "b": null})]
    );
}

#[test]
fn a_column_of_other_schemas_takes_no_json() {
    let own = schema(&closed(json!({"id": {"type": "integer"}})));
    let both = own
        .column_type()
        .unwrap()
        .merge(fields(&[("day", Type::Date)]));
    let plan = Plan::new(&own, None, &both).unwrap();
    let mut column = Column::new(&both);
    for (body, is_decoded) in [
        (&b"\0\0\0\0\x01{\"id\":7}"[..], true),
        (b"\0\0\0\0\x01{\"day\":7}", false),
    ] {
        let framed = Framed::split(body, None);
        assert_eq!(
            plan.decode(&own, None, &framed, &mut column).is_ok(),
            is_decoded
        );
    }
    assert!(Plan::new(&own, None, &Type::Date).is_err());
}
