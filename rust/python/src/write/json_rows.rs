//! `json_rows`: reads the JSON lines that `json_lines` writes, without a Python object for each value.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder, StructBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{DataType, Field, Schema};
use brokerless_core::{BytesFormat, Error, Result, TimestampType};
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::base::arrays::header_fields;
use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::read::rows::TIMESTAMP_TYPE;
use crate::values::json_text::json_field;

/// A line of `brokerless read`. Missing fields are null. The value is required, because a missing value would otherwise
/// become a tombstone. `P` is the form of keys and values.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    bound(deserialize = "P: Deserialize<'de>")
)]
struct Line<'a, P> {
    #[serde(borrow, default)]
    topic: Option<Cow<'a, str>>,
    partition: Option<i32>,
    offset: Option<i64>,
    timestamp: Option<i64>,
    #[serde(borrow, default)]
    timestamp_type: Option<Cow<'a, str>>,
    leader_epoch: Option<i32>,
    #[serde(default)]
    key: Option<P>,
    #[serde(deserialize_with = "Option::deserialize")]
    value: Option<P>,
    #[serde(borrow, default)]
    headers: Option<Vec<Header<'a>>>,
    // The rest is what decoded rows have: the bytes of what did not decode, and what decoding found.
    #[serde(borrow, default)]
    key_bytes: Option<Value<'a>>,
    #[serde(borrow, default)]
    value_bytes: Option<Value<'a>>,
    #[serde(rename = "keyDecodeError")]
    _key_decode_error: Option<IgnoredAny>,
    #[serde(rename = "decodeError")]
    _decode_error: Option<IgnoredAny>,
    #[serde(rename = "keyFraming")]
    _key_framing: Option<IgnoredAny>,
    #[serde(rename = "keySchemaId")]
    _key_schema_id: Option<IgnoredAny>,
    #[serde(rename = "keySubject")]
    _key_subject: Option<IgnoredAny>,
    #[serde(rename = "keyVersion")]
    _key_version: Option<IgnoredAny>,
    #[serde(rename = "valueFraming")]
    _value_framing: Option<IgnoredAny>,
    #[serde(rename = "valueSchemaId")]
    _value_schema_id: Option<IgnoredAny>,
    #[serde(rename = "valueSubject")]
    _value_subject: Option<IgnoredAny>,
    #[serde(rename = "valueVersion")]
    _value_version: Option<IgnoredAny>,
}

/// A header as `brokerless read` prints it, or as an object with the names of Spark's and Arrow's columns.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a header is [\"name\", value] or {\"key\": \"name\", \"value\": value}, and the value is text, null or {\"base64\": text}"
)]
enum Header<'a> {
    Pair(
        #[serde(borrow)] Cow<'a, str>,
        #[serde(borrow)] Option<Value<'a>>,
    ),
    Named(#[serde(borrow)] NamedHeader<'a>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedHeader<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<Value<'a>>,
}

impl<'a> Header<'a> {
    fn parts(&self) -> (&str, Option<&Value<'a>>) {
        match self {
            Self::Pair(key, value) => (key, value.as_ref()),
            Self::Named(NamedHeader { key, value }) => (key, value.as_ref()),
        }
    }
}

/// Bytes in the wanted format, or in base64 if they are not text.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "text, null or {\"base64\": text} expected; write JSON as text"
)]
enum Value<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Base64(#[serde(borrow)] Base64<'a>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

impl Value<'_> {
    fn decode(&self, format: BytesFormat) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => format.decode(text),
            Self::Base64(Base64 { base64 }) => BytesFormat::Base64.decode(base64),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (data, bytes="utf8", first_line=1, json=None))]
pub(crate) fn json_rows<'py>(
    py: Python<'py>,
    data: Bytes,
    bytes: &str,
    first_line: usize,
    json: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyAny>> {
    let json = json.unwrap_or_default();
    py.detach(|| {
        let parts = ["key", "value"].map(|part| json.iter().any(|one| one == part));
        let format = BytesFormat::from_name(bytes)?;
        let rows = Rows::new(parts, format);
        match parts {
            [false, false] => rows.read::<Value<'_>>(data.as_slice(), first_line),
            _ => rows.read::<&RawValue>(data.as_slice(), first_line),
        }
    })
    .or_raise()?
    .to_pyarrow(py)
}

fn parse<'a, P: Deserialize<'a>>(line: &'a [u8]) -> Result<Line<'a, P>> {
    // Otherwise serde would accept an array of the fields in their order.
    if !line.starts_with(b"{") {
        return Err(Error::invalid(
            "not a JSON object, such as {\"key\": \"k\", \"value\": \"v\"}",
        ));
    }
    serde_json::from_slice(line).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Error {
    let message = error.to_string();
    Error::invalid(message.replacen(" at line 1 column ", ", at column ", 1))
}

/// A key or value of a line.
trait Part<'a>: Deserialize<'a> {
    /// Its JSON text.
    fn json(&self) -> Option<&'a str>;
    fn bytes(&self, format: BytesFormat) -> Result<Vec<u8>>;
}

impl<'a> Part<'a> for Value<'a> {
    fn json(&self) -> Option<&'a str> {
        None
    }

    fn bytes(&self, format: BytesFormat) -> Result<Vec<u8>> {
        self.decode(format)
    }
}

impl<'a> Part<'a> for &'a RawValue {
    fn json(&self) -> Option<&'a str> {
        Some(self.get())
    }

    fn bytes(&self, format: BytesFormat) -> Result<Vec<u8>> {
        let value: Value<'_> = serde_json::from_str(self.get()).map_err(unreadable)?;
        value.decode(format)
    }
}

/// The keys or values of all lines.
enum Parts {
    Bytes(BinaryBuilder),
    /// The JSON texts, and the bytes of those that were not decoded.
    Json(StringBuilder, BinaryBuilder),
}

impl Parts {
    fn new(is_json: bool) -> Self {
        if is_json {
            Self::Json(StringBuilder::new(), BinaryBuilder::new())
        } else {
            Self::Bytes(BinaryBuilder::new())
        }
    }

    fn push<'a>(
        &mut self,
        part: Option<&impl Part<'a>>,
        undecoded: Option<&Value<'_>>,
        format: BytesFormat,
    ) -> Result<()> {
        match self {
            Self::Bytes(_) if undecoded.is_some() => {
                return Err(Error::invalid(
                    "it has bytes that were not decoded: encode its keys and values, as they were decoded",
                ));
            }
            Self::Bytes(builder) => {
                builder.append_option(part.map(|part| part.bytes(format)).transpose()?);
            }
            Self::Json(texts, bytes) => {
                texts.append_option(part.and_then(Part::json));
                let undecoded = undecoded.map(|value| value.decode(format)).transpose()?;
                bytes.append_option(undecoded);
            }
        }
        Ok(())
    }

    fn finish(self, name: &str, columns: &mut Vec<(Field, ArrayRef)>) {
        let bytes = |name: &str| Field::new(name, DataType::Binary, true);
        match self {
            Self::Bytes(mut builder) => columns.push((bytes(name), Arc::new(builder.finish()))),
            Self::Json(mut texts, mut undecoded) => {
                columns.push((json_field(name), Arc::new(texts.finish())));
                let field = bytes(&format!("{name}Bytes"));
                columns.push((field, Arc::new(undecoded.finish())));
            }
        }
    }
}

struct Rows {
    topic: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    timestamp: TimestampMillisecondBuilder,
    timestamp_type: Int32Builder,
    leader_epoch: Int32Builder,
    key: Parts,
    value: Parts,
    headers: ListBuilder<StructBuilder>,
    format: BytesFormat,
}

impl Rows {
    fn new([is_key_json, is_value_json]: [bool; 2], format: BytesFormat) -> Self {
        let element = Arc::new(Field::new(
            "element",
            DataType::Struct(header_fields()),
            true,
        ));
        let header = StructBuilder::from_fields(header_fields(), 0);
        Self {
            topic: StringBuilder::new(),
            partition: Int32Builder::new(),
            offset: Int64Builder::new(),
            timestamp: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            timestamp_type: Int32Builder::new(),
            leader_epoch: Int32Builder::new(),
            key: Parts::new(is_key_json),
            value: Parts::new(is_value_json),
            headers: ListBuilder::new(header).with_field(element),
            format,
        }
    }

    fn read<'a, P: Part<'a>>(mut self, data: &'a [u8], first_line: usize) -> Result<RecordBatch> {
        for (index, line) in data.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            parse::<P>(line)
                .and_then(|line| self.push(&line))
                .map_err(|error| {
                    Error::invalid(format!("line {}: {}", first_line + index, error.message))
                })?;
        }
        self.finish()
    }

    fn push<'a, P: Part<'a>>(&mut self, line: &Line<'a, P>) -> Result<()> {
        let format = self.format;
        let decoded = |value: Option<&Value<'_>>| {
            value.as_ref().map(|value| value.decode(format)).transpose()
        };
        let timestamp_type = line
            .timestamp_type
            .as_deref()
            .map(|name| {
                TimestampType::from_name(name)
                    .map(|timestamp_type| timestamp_type as i32)
                    .ok_or_else(|| Error::invalid(format!("unknown {TIMESTAMP_TYPE} {name:?}")))
            })
            .transpose()?;
        self.topic.append_option(line.topic.as_deref());
        self.partition.append_option(line.partition);
        self.offset.append_option(line.offset);
        self.timestamp.append_option(line.timestamp);
        self.timestamp_type.append_option(timestamp_type);
        self.leader_epoch.append_option(line.leader_epoch);
        self.key
            .push(line.key.as_ref(), line.key_bytes.as_ref(), format)?;
        self.value
            .push(line.value.as_ref(), line.value_bytes.as_ref(), format)?;
        for (key, value) in line.headers.iter().flatten().map(Header::parts) {
            let header = self.headers.values();
            if let Some(keys) = header.field_builder::<StringBuilder>(0) {
                keys.append_value(key);
            }
            if let Some(values) = header.field_builder::<BinaryBuilder>(1) {
                values.append_option(decoded(value)?);
            }
            header.append(true);
        }
        self.headers.append(true);
        Ok(())
    }

    fn finish(mut self) -> Result<RecordBatch> {
        let before: [(&str, ArrayRef); 6] = [
            ("topic", Arc::new(self.topic.finish())),
            ("partition", Arc::new(self.partition.finish())),
            ("offset", Arc::new(self.offset.finish())),
            ("timestamp", Arc::new(self.timestamp.finish())),
            (TIMESTAMP_TYPE, Arc::new(self.timestamp_type.finish())),
            ("leaderEpoch", Arc::new(self.leader_epoch.finish())),
        ];
        let named = |(name, array): (&str, ArrayRef)| {
            (Field::new(name, array.data_type().clone(), true), array)
        };
        let mut columns: Vec<_> = before.into_iter().map(named).collect();
        self.key.finish("key", &mut columns);
        self.value.finish("value", &mut columns);
        columns.push(named(("headers", Arc::new(self.headers.finish()))));
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}
