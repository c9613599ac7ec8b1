//! `SchemaDecoder`: keys or values of a topic, decoded with the schemas that they name.

use arrow_array::RecordBatch;
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{KEY_SCHEMA_ID, SchemaId, VALUE_SCHEMA_ID};
use brokerless_values::{DecodedRows, Resolved, SchemaName, SchemaText, uuid_text};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::{BytesColumn, HeadersColumn, last_header};
use crate::base::error::exception;
use crate::values::decoded_batch::{batch, invalid};

/// The bytes of decoded values after which a batch ends.
const ENOUGH_BYTES: usize = 16 << 20;

/// The answer of Python for an id: type, text, names and texts of references, id, subject, version.
type Answer = (
    String,
    String,
    Vec<(String, String)>,
    i32,
    Option<String>,
    Option<i32>,
);

/// The text of a schema: its type, itself, and the names and texts of those that it refers to.
type Text = (String, String, Vec<(String, String)>);

#[pyclass(module = "brokerless._native")]
pub(crate) struct SchemaDecoder {
    resolve: Py<PyAny>,
    decoder: brokerless_values::SchemaDecoder,
    header_name: &'static str,
}

#[pymethods]
impl SchemaDecoder {
    #[new]
    #[pyo3(signature = (resolve, *, is_key=false, reader=None, union=None, message=None))]
    fn new(
        resolve: Py<PyAny>,
        is_key: bool,
        reader: Option<Text>,
        union: Option<Vec<Text>>,
        message: Option<&str>,
    ) -> PyResult<Self> {
        let text = |(schema_type, text, references): Text| SchemaText {
            schema_type,
            text,
            references,
        };
        let reader = reader.map(text);
        let union: Option<Vec<_>> = union.map(|schemas| schemas.into_iter().map(text).collect());
        let decoder =
            brokerless_values::SchemaDecoder::new(reader.as_ref(), union.as_deref(), message)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            resolve,
            decoder,
            header_name: if is_key {
                KEY_SCHEMA_ID
            } else {
                VALUE_SCHEMA_ID
            },
        })
    }

    #[getter]
    fn left_over(&self) -> u64 {
        self.decoder.left_over()
    }

    #[getter]
    fn of_glue(&self) -> u64 {
        self.decoder.of_glue()
    }

    #[pyo3(signature = (payloads, headers=None))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        payloads: Bound<'py, PyAny>,
        headers: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays: Vec<_> =
            Array::import(py, [Some(payloads), headers].into_iter().flatten())?.collect();
        let payloads = BytesColumn::new("payloads", arrays.first())?;
        let headers = arrays.get(1).map(HeadersColumn::new).transpose()?;
        let headers = headers.filter(|headers| !headers.is_empty());
        let rows = arrays.first().map_or(0, |array| array.rows.len());
        py.detach(|| self.rows(&payloads, headers.as_ref(), rows))?
            .to_pyarrow(py)
    }
}

impl SchemaDecoder {
    fn rows(
        &mut self,
        payloads: &BytesColumn,
        headers: Option<&HeadersColumn>,
        rows: usize,
    ) -> PyResult<RecordBatch> {
        let mut decoded = DecodedRows::new(self.decoder.kind());
        let mut header = Vec::new();
        let mut size = 0;
        for row in 0..rows {
            let appended = match payloads.get(row).map_err(exception)? {
                None => decoded.push_null().map(|()| decoded.values.weight()),
                Some(payload) => {
                    let has_header = match headers {
                        Some(headers) => last_header(headers, row, self.header_name, &mut header)
                            .map_err(exception)?,
                        None => false,
                    };
                    let header = has_header.then_some(header.as_slice());
                    let resolve = |id| Python::attach(|py| ask(py, &self.resolve, id));
                    self.decoder.push(payload, header, &mut decoded, resolve)?
                }
            };
            size += appended.map_err(invalid).map_err(exception)?;
            if size >= ENOUGH_BYTES {
                break;
            }
        }
        batch(self.decoder.kind(), decoded, true).map_err(exception)
    }
}

/// Asks Python for the schema of an id.
fn ask(py: Python<'_>, resolve: &Py<PyAny>, id: SchemaId) -> PyResult<Resolved> {
    let found = match id {
        SchemaId::Id(id) => resolve.call1(py, (id,)),
        SchemaId::Guid(guid) => resolve.call1(py, (uuid_text(guid),)),
    };
    match found {
        Ok(found) => {
            let (schema_type, text, references, id, subject, version): Answer =
                found.extract(py)?;
            let schema = Ok(SchemaText {
                schema_type,
                text,
                references,
            });
            let name = SchemaName {
                id: Some(id),
                subject,
                version,
            };
            Ok(Resolved { schema, name })
        }
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(Resolved {
            schema: Err(error.value(py).to_string()),
            name: SchemaName {
                id: match id {
                    SchemaId::Id(id) => Some(id),
                    SchemaId::Guid(_) => None,
                },
                ..SchemaName::default()
            },
        }),
        Err(error) => Err(error),
    }
}
