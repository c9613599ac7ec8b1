//! `ValueEncoder`: keys or values of rows to bytes, with a schema or in the form of a serializer that Kafka ships.

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, RecordBatch};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use brokerless_core::{Error, Json, Result, SchemaId};
use brokerless_values::{Schema, plain};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::base::error::OrRaise as _;
use crate::read::typed_json::Typed;

/// The most bytes of the keys or values of a batch: an array has offsets of 32 bits.
const MOST_BYTES: usize = 1 << 30;

/// The id of a schema, its type, its text, and the names and texts of those that it refers to.
type SchemaOfId = (i32, String, String, Vec<(String, String)>);

#[pyclass(module = "brokerless._native", frozen)]
pub(crate) struct ValueEncoder {
    part: String,
    form: Form,
}

enum Form {
    /// The bytes before each body, and the schema.
    Schema(Vec<u8>, Schema),
    Plain(String),
}

#[pymethods]
impl ValueEncoder {
    #[new]
    #[pyo3(signature = (part, form, schema=None))]
    fn new(part: String, form: String, schema: Option<SchemaOfId>) -> PyResult<Self> {
        let form = match schema {
            None => Form::Plain(form),
            Some((id, schema_type, text, references)) => {
                let schema = Schema::parse(&schema_type, &text, &references).map_err(|error| {
                    PyValueError::new_err(format!("schema {id} cannot be used: {error}"))
                })?;
                Form::Schema(SchemaId::Id(id).prefix(), schema)
            }
        };
        Ok(Self { part, form })
    }

    #[pyo3(signature = (rows, first_row=0))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        first_row: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = RecordBatch::from_pyarrow_bound(rows)?;
        let encoded = py.detach(|| self.encoded(&rows, first_row)).or_raise()?;
        encoded.to_data().to_pyarrow(py)
    }
}

impl ValueEncoder {
    fn encoded(&self, rows: &RecordBatch, first_row: usize) -> Result<BinaryArray> {
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
        let (mut json, mut bytes) = (Vec::new(), Vec::new());
        let mut total = 0;
        for row in 0..rows.num_rows() {
            bytes.clear();
            if rows.column(at).is_valid(row) {
                json.clear();
                values.write(row, &mut Json::new(&mut json));
                self.value(&json, &mut bytes)
                    .map_err(|error| Error::invalid(format!("row {}: {error}", first_row + row)))?;
            } else if let Some(stored) = stored.filter(|stored| stored.is_valid(row)) {
                bytes.extend_from_slice(stored.value(row));
            } else {
                encoded.append_null();
                continue;
            }
            total += bytes.len();
            if total > MOST_BYTES {
                return Err(Error::invalid(format!(
                    "the {part}s take more than {MOST_BYTES} bytes: send fewer rows at once"
                )));
            }
            encoded.append_value(&bytes);
        }
        Ok(encoded.finish())
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
