//! Fuzz targets of the decoders and encoders of keys and values: the text of a schema, a zero byte, and a body.

use brokerless_core::Framed;
use brokerless_values::{Column, Plan, Schema, Type, Values};
use serde::de::IgnoredAny;

/// Longer schemas and bodies are cut to this length: the JSON of each item of a body repeats names of the schema.
const MAX_PART: usize = 4 << 10;

/// JSON that is encoded decodes to JSON that is encoded to the same bytes. After an error, there are none.
fn encode(schema: &Schema, json: &[u8]) {
    let start = [vec![0, 0, 0, 0, 1], schema.message_indexes()].concat();
    let mut payload = start.clone();
    if schema.encode(json, "value", &mut payload).is_err() {
        assert_eq!(payload, start);
        return;
    }
    let mut again = Vec::new();
    let framed = Framed::split(&payload, None);
    // The empty items of an array may be too many.
    if schema.write_json(&framed, &mut again).is_ok() {
        let mut last = start;
        schema.encode(&again, "value", &mut last).unwrap();
        assert_eq!(last, payload);
    }
}

/// A body whose value fits a column is JSON text too. The text is valid, and after an error there is none. A body that
/// does not decode leaves a column as it was, and the parts of a column have lengths that fit each other.
fn decode(schema_type: &str, data: &[u8]) {
    let mut parts = data
        .splitn(2, |&byte| byte == 0)
        .map(|part| &part[..part.len().min(MAX_PART)]);
    let text = std::str::from_utf8(parts.next().unwrap_or_default());
    let Ok(schema) = text
        .map_err(drop)
        .and_then(|text| Schema::parse(schema_type, text, &[]).map_err(drop))
    else {
        return;
    };
    let mut payload = vec![0, 0, 0, 0, 1];
    let body = parts.next().unwrap_or_default();
    encode(&schema, body);
    payload.extend_from_slice(body);
    let framed = Framed::split(&payload, None);
    let mut json = Vec::new();
    let is_json = schema.write_json(&framed, &mut json).is_ok();
    assert!(if is_json {
        serde_json::from_slice::<IgnoredAny>(&json).is_ok()
    } else {
        json.is_empty()
    });
    if is_json {
        encode(&schema, &json);
    }
    let Ok(kind) = schema.column_type() else {
        return;
    };
    for reader in [Some(&schema), None] {
        let Ok(plan) = Plan::new(&schema, reader, &kind) else {
            continue;
        };
        let mut column = Column::new(&kind);
        for length in [
            payload.len(),
            payload.len() / 2,
            payload.len() - 1,
            payload.len(),
        ] {
            let cut = Framed::split(&payload[..length.max(5)], None);
            let before = column.len();
            let is_decoded = plan.decode(&schema, reader, &cut, &mut column).is_ok();
            assert_eq!(column.len(), before + usize::from(is_decoded));
            assert!(is_json || !is_decoded || length < payload.len());
            if !is_decoded {
                column.push_null();
            }
        }
        check(&kind, column, 4);
    }
}

/// Asserts that the parts of a column fit each other.
fn check(kind: &Type, column: Column, rows: usize) {
    assert_eq!(column.len(), rows);
    if let Some(bits) = column.validity.into_bytes() {
        assert_eq!(bits.len(), rows.div_ceil(8));
    }
    let inner = |offsets: &[i32]| {
        assert_eq!((offsets.len(), offsets[0]), (rows + 1, 0));
        assert!(offsets.is_sorted());
        offsets[rows] as usize
    };
    match (kind, column.values) {
        (Type::Null, Values::Null) => {}
        (Type::Boolean, Values::Boolean(bits)) => {
            assert_eq!(bits.len(), rows);
            assert!(
                bits.into_bytes()
                    .is_none_or(|bytes| bytes.len() == rows.div_ceil(8))
            );
        }
        (Type::Struct(fields), Values::Struct(columns)) => {
            assert_eq!(fields.len(), columns.len());
            fields
                .iter()
                .zip(columns)
                .for_each(|((_, kind), column)| check(kind, column, rows));
        }
        (Type::List(kind), Values::List(ends, items)) => {
            check(kind, *items, inner(&ends.into_offsets()))
        }
        (Type::Map(key, value), Values::Map(ends, entries)) => {
            let rows = inner(&ends.into_offsets());
            check(key, entries.0, rows);
            check(value, entries.1, rows);
        }
        (_, Values::Bytes(ends, bytes)) => {
            let offsets = ends.into_offsets();
            assert_eq!(inner(&offsets), bytes.len());
            if *kind != Type::Binary {
                let text = std::str::from_utf8(&bytes).unwrap();
                assert!(offsets.iter().all(|&at| text.is_char_boundary(at as usize)));
            }
        }
        (_, Values::Int32(values)) => assert_eq!(values.len(), rows),
        (_, Values::Int64(values)) => assert_eq!(values.len(), rows),
        (_, Values::UInt32(values)) => assert_eq!(values.len(), rows),
        (_, Values::UInt64(values)) => assert_eq!(values.len(), rows),
        (_, Values::Float32(values)) => assert_eq!(values.len(), rows),
        (_, Values::Float64(values)) => assert_eq!(values.len(), rows),
        (_, Values::Decimal128(values, ..)) => assert_eq!(values.len(), rows),
        (_, Values::Decimal256(values, ..)) => assert_eq!(values.len(), rows),
        (kind, _) => panic!("a column of another type than {kind:?}"),
    }
}

/// See [`decode`].
pub(crate) fn avro(data: &[u8]) {
    decode("AVRO", data);
}

/// See [`decode`]. The body begins with the indexes of its message.
pub(crate) fn protobuf(data: &[u8]) {
    decode("PROTOBUF", data);
}

/// See [`decode`].
pub(crate) fn json_schema(data: &[u8]) {
    decode("JSON", data);
}
