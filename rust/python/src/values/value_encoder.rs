//! `ValueEncoder`: keys or values of rows to bytes, with a schema or in the form of a serializer that Kafka ships.

use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, BinaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, ListArray, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use brokerless_core::{Error, Json, KEY_SCHEMA_ID, Result, SchemaId, VALUE_SCHEMA_ID};
use brokerless_values::{Schema, plain};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::HeadersColumn;
use crate::base::error::OrRaise as _;
use crate::read::typed_json::Typed;
use crate::write::record_rows::lists;

/// The most bytes of the keys, values or headers of a batch: an array has offsets of 32 bits.
const MOST_BYTES: usize = 1 << 30;

/// The id of a schema, its type, its text, and the names and texts of those that it refers to.
type SchemaOfId = (i32, String, String, Vec<(String, String)>);

#[pyclass(module = "brokerless._native", frozen)]
pub(crate) struct ValueEncoder {
    part: String,
    form: Form,
    /// The name of the header with the id of a schema.
    header_name: &'static str,
    /// The value of this header; None if the id is not in a header.
    header: Option<Vec<u8>>,
}

enum Form {
    /// The bytes before each body, and the schema.
    Schema(Vec<u8>, Schema),
    Plain(String),
}

#[pymethods]
impl ValueEncoder {
    #[new]
    #[pyo3(signature = (part, form, schema=None, *, message=None, guid=None))]
    fn new(
        part: String,
        form: String,
        schema: Option<SchemaOfId>,
        message: Option<&str>,
        guid: Option<[u8; 16]>,
    ) -> PyResult<Self> {
        let mut header = None;
        let form = match schema {
            None => Form::Plain(form),
            Some((id, schema_type, text, references)) => {
                let mut schema = Schema::parse(&schema_type, &text, &references);
                if let Some(name) = message {
                    schema = schema.and_then(|schema| schema.with_message(name));
                }
                let schema = schema.map_err(|error| {
                    PyValueError::new_err(format!("schema {id} cannot be used: {error}"))
                })?;
                let indexes = schema.message_indexes();
                let framed = |id: SchemaId| [id.prefix(), indexes].concat();
                let prefix = match guid {
                    None => framed(SchemaId::Id(id)),
                    Some(guid) => {
                        header = Some(framed(SchemaId::Guid(guid)));
                        Vec::new()
                    }
                };
                Form::Schema(prefix, schema)
            }
        };
        Ok(Self {
            header_name: if part == "key" {
                KEY_SCHEMA_ID
            } else {
                VALUE_SCHEMA_ID
            },
            part,
            form,
            header,
        })
    }

    #[pyo3(signature = (rows, headers=None, first_row=0))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        headers: Option<Bound<'py, PyAny>>,
        first_row: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = RecordBatch::from_pyarrow_bound(rows)?;
        let headers: Vec<_> = Array::import(py, headers)?.collect();
        let headers = headers.first().map(HeadersColumn::new).transpose()?;
        let encode = || self.encoded(&rows, headers.as_ref(), first_row);
        py.detach(encode).or_raise()?.to_pyarrow(py)
    }
}

impl ValueEncoder {
    fn encoded(
        &self,
        rows: &RecordBatch,
        headers: Option<&HeadersColumn>,
        first_row: usize,
    ) -> Result<RecordBatch> {
        let part = self.part.as_str();
        let column = rows.schema_ref().column_with_name(part);
        let (at, field) =
            column.ok_or_else(|| Error::invalid(format!("the rows have no {part}")))?;
        let values = Typed::of(field, rows.column(at)).ok_or_else(|| {
            let kind = field.data_type();
            Error::invalid(format!("column {part} has the type {kind}: cast it first"))
        })?;
        let stored = rows.column_by_name(&format!("{part}Bytes"));
        let stored = stored.and_then(|column| column.as_binary_opt::<i32>());
        let mut encoded = BinaryBuilder::new();
        let mut new_headers = (self.header.is_some() || headers.is_some()).then(NewHeaders::new);
        let (mut json, mut bytes) = (Vec::new(), Vec::new());
        let mut total = 0;
        for row in 0..rows.num_rows() {
            let in_row = |error: &dyn std::fmt::Display| {
                Error::invalid(format!("row {}: {error}", first_row + row))
            };
            bytes.clear();
            let is_encoded = rows.column(at).is_valid(row);
            if let Some(new) = &mut new_headers {
                self.headers(headers, row, is_encoded, new)
                    .map_err(|error| in_row(&error))?;
            }
            if is_encoded {
                json.clear();
                values.write(row, &mut Json::new(&mut json));
                self.value(&json, &mut bytes)
                    .map_err(|error| in_row(&error))?;
            } else if let Some(stored) = stored.filter(|stored| stored.is_valid(row)) {
                bytes.extend_from_slice(stored.value(row));
            } else {
                encoded.append_null();
                continue;
            }
            total += bytes.len();
            check_size(total)?;
            encoded.append_value(&bytes);
        }
        let encoded: ArrayRef = Arc::new(encoded.finish());
        let mut columns = vec![(part, encoded, true)];
        if let Some(new) = new_headers {
            columns.push(("headers", Arc::new(new.finish()?), true));
        }
        RecordBatch::try_from_iter_with_nullable(columns)
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// Appends the headers of a row. An encoded key or value has one id: that of its schema.
    fn headers(
        &self,
        given: Option<&HeadersColumn>,
        row: usize,
        is_encoded: bool,
        new: &mut NewHeaders,
    ) -> Result<()> {
        let name = self.header_name.as_bytes();
        if let Some(given) = given {
            given.each(row, |key, value| {
                // By the id of another schema, readers would not find the one that was written.
                if is_encoded && key == name {
                    return Ok(());
                }
                new.push(key, value)
            })?;
        }
        if let Some(header) = self.header.as_ref().filter(|_| is_encoded) {
            new.push(name, Some(header))?;
        }
        new.end_row();
        Ok(())
    }

    fn value(&self, json: &[u8], out: &mut Vec<u8>) -> brokerless_values::Result<()> {
        match &self.form {
            Form::Plain(form) => plain::encode(form, json, &self.part, out),
            Form::Schema(prefix, schema) => {
                out.extend_from_slice(prefix);
                schema.encode(json, &self.part, out)
            }
        }
    }
}

/// The headers of encoded rows.
struct NewHeaders {
    keys: BinaryBuilder,
    values: BinaryBuilder,
    ends: Vec<i32>,
}

impl NewHeaders {
    fn new() -> Self {
        Self {
            keys: BinaryBuilder::new(),
            values: BinaryBuilder::new(),
            ends: vec![0],
        }
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        // Any number of views may refer to one value.
        let sizes = [
            self.keys.values_slice().len(),
            self.values.values_slice().len(),
        ];
        check_size(sizes.iter().sum::<usize>() + key.len() + value.map_or(0, <[u8]>::len))?;
        self.keys.append_value(key);
        self.values.append_option(value);
        Ok(())
    }

    fn end_row(&mut self) {
        self.ends.push(self.keys.len() as i32);
    }

    fn finish(mut self) -> Result<ListArray> {
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        lists(ends, self.keys.finish(), self.values.finish())
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes > MOST_BYTES {
        return Err(Error::invalid(format!(
            "the values or headers take more than {MOST_BYTES} bytes: send fewer rows at once"
        )));
    }
    Ok(())
}
