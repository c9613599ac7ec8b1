//! `json_rows`: reads the JSON lines that `json_lines` writes, without a Python object for each value.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder, StructBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{ArrowError, DataType, Field};
use brokerless_core::{BytesFormat, Error, Result, TimestampType};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::base::arrays::header_fields;
use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::read::rows::TIMESTAMP_TYPE;

/// A line of `brokerless read`. Missing fields are null. The value is required, because a missing value would otherwise
/// become a tombstone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow, default)]
    topic: Option<Cow<'a, str>>,
    partition: Option<i32>,
    offset: Option<i64>,
    timestamp: Option<i64>,
    #[serde(borrow, default)]
    timestamp_type: Option<Cow<'a, str>>,
    leader_epoch: Option<i32>,
    #[serde(borrow, default)]
    key: Option<Value<'a>>,
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    value: Option<Value<'a>>,
    #[serde(borrow, default)]
    headers: Option<Vec<Header<'a>>>,
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
#[pyo3(signature = (data, bytes="utf8", first_line=1))]
pub(crate) fn json_rows<'py>(
    py: Python<'py>,
    data: Bytes,
    bytes: &str,
    first_line: usize,
) -> PyResult<Bound<'py, PyAny>> {
    py.detach(|| rows(data.as_slice(), BytesFormat::from_name(bytes)?, first_line))
        .or_raise()?
        .to_pyarrow(py)
}

fn rows(data: &[u8], format: BytesFormat, first_line: usize) -> Result<RecordBatch> {
    let mut rows = Rows::new();
    for (index, line) in data.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        parse(line)
            .and_then(|line| rows.push(&line, format))
            .map_err(|error| {
                Error::invalid(format!("line {}: {}", first_line + index, error.message))
            })?;
    }
    rows.finish()
        .map_err(|error| Error::invalid(error.to_string()))
}

fn parse(line: &[u8]) -> Result<Line<'_>> {
    // Otherwise serde would accept an array of the fields in their order.
    if !line.starts_with(b"{") {
        return Err(Error::invalid(
            "not a JSON object, such as {\"key\": \"k\", \"value\": \"v\"}",
        ));
    }
    serde_json::from_slice(line).map_err(|error| {
        let message = error.to_string();
        Error::invalid(message.replacen(" at line 1 column ", ", at column ", 1))
    })
}

struct Rows {
    topic: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    timestamp: TimestampMillisecondBuilder,
    timestamp_type: Int32Builder,
    leader_epoch: Int32Builder,
    key: BinaryBuilder,
    value: BinaryBuilder,
    headers: ListBuilder<StructBuilder>,
}

impl Rows {
    fn new() -> Self {
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
            key: BinaryBuilder::new(),
            value: BinaryBuilder::new(),
            headers: ListBuilder::new(header).with_field(element),
        }
    }

    fn push(&mut self, line: &Line<'_>, format: BytesFormat) -> Result<()> {
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
        self.key.append_option(decoded(line.key.as_ref())?);
        self.value.append_option(decoded(line.value.as_ref())?);
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

    fn finish(mut self) -> std::result::Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef); 9] = [
            ("topic", Arc::new(self.topic.finish())),
            ("partition", Arc::new(self.partition.finish())),
            ("offset", Arc::new(self.offset.finish())),
            ("timestamp", Arc::new(self.timestamp.finish())),
            (TIMESTAMP_TYPE, Arc::new(self.timestamp_type.finish())),
            ("leaderEpoch", Arc::new(self.leader_epoch.finish())),
            ("key", Arc::new(self.key.finish())),
            ("value", Arc::new(self.value.finish())),
            ("headers", Arc::new(self.headers.finish())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
    }
}
