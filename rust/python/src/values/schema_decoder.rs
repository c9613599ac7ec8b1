//! `SchemaDecoder`: keys or values of a topic, decoded with the schemas that they name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, GenericByteBuilder, Int32Builder, StringBuilder};
use arrow_array::types::ByteArrayType;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use brokerless_core::{Error, Framed, KEY_SCHEMA_ID, SchemaId, VALUE_SCHEMA_ID};
use brokerless_values::{Column, Plan, Schema, Type, uuid_text};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::{BytesColumn, HeadersColumn, last_header};
use crate::base::error::exception;
use crate::values::arrow_column;

/// The bytes of decoded values after which a batch ends.
const ENOUGH_BYTES: usize = 16 << 20;
/// The number of types in the schemas that are kept. Above it, all are parsed again when they are needed.
const MOST_TYPES: usize = 4 << 20;
/// The number of schemas that are kept. Damaged bytes may name any id.
const MOST_SCHEMAS: usize = 100_000;

/// The schema of an id, and the version of a subject that it is.
struct Known {
    schema: Result<(Schema, Plan), String>,
    id: Option<i32>,
    subject: Option<String>,
    version: Option<i32>,
}

/// The answer of Python for an id: type, text, names and texts of references, id, subject, version.
type Resolved = (
    String,
    String,
    Vec<(String, String)>,
    i32,
    Option<String>,
    Option<i32>,
);

/// The text of a schema: its type, itself, and the names and texts of those that it refers to.
type SchemaText = (String, String, Vec<(String, String)>);

#[pyclass(module = "brokerless._native")]
pub(crate) struct SchemaDecoder {
    resolve: Py<PyAny>,
    /// The schema that all others are resolved to.
    reader: Option<Schema>,
    kind: Type,
    /// False if all become JSON text.
    is_typed: bool,
    header_name: &'static str,
    known: HashMap<SchemaId, Arc<Known>>,
    /// The schema of the last row: mostly, that of the next one.
    last: Option<(SchemaId, Arc<Known>)>,
    types: usize,
    #[pyo3(get)]
    left_over: u64,
}

#[pymethods]
impl SchemaDecoder {
    #[new]
    #[pyo3(signature = (resolve, *, is_key=false, reader=None, union=None))]
    fn new(
        resolve: Py<PyAny>,
        is_key: bool,
        reader: Option<SchemaText>,
        union: Option<Vec<SchemaText>>,
    ) -> PyResult<Self> {
        let parsed = |(schema_type, text, references): SchemaText| {
            Schema::parse(&schema_type, &text, &references)
        };
        let raised = |error: brokerless_values::Error| PyValueError::new_err(error.to_string());
        let is_typed = reader.is_some() || union.is_some();
        let reader = reader.map(parsed).transpose().map_err(raised)?;
        let kind = match (&reader, union) {
            (Some(reader), _) => reader.column_type().map_err(raised)?,
            (None, Some(schemas)) => {
                let mut kind = Type::Null;
                for schema in schemas {
                    let next = parsed(schema).and_then(|schema| schema.column_type());
                    kind = kind.merge(next.map_err(raised)?);
                }
                kind
            }
            (None, None) => Type::Json,
        };
        Ok(Self {
            resolve,
            reader,
            kind,
            is_typed,
            header_name: if is_key {
                KEY_SCHEMA_ID
            } else {
                VALUE_SCHEMA_ID
            },
            known: HashMap::new(),
            last: None,
            types: 0,
            left_over: 0,
        })
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
        let mut columns = Columns::new(&self.kind);
        let mut header = Vec::new();
        for row in 0..rows {
            let Some(payload) = payloads.get(row).map_err(exception)? else {
                columns.null();
                continue;
            };
            let has_header = match headers {
                Some(headers) => {
                    last_header(headers, row, self.header_name, &mut header).map_err(exception)?
                }
                None => false,
            };
            let framed = Framed::split(payload, has_header.then_some(header.as_slice()));
            let known = framed.schema_id.map(|id| self.known(id)).transpose()?;
            let result = match known.as_deref().map(|known| &known.schema) {
                Some(Ok((schema, plan))) => Some(
                    plan.decode(schema, self.reader.as_ref(), &framed, &mut columns.decoded)
                        .map_err(|error| error.to_string()),
                ),
                Some(Err(reason)) => Some(Err(reason.clone())),
                None => None,
            };
            if let Some(Ok(appended)) = &result {
                self.left_over += u64::from(appended.left_over > 0);
                columns.size += appended.bytes;
            }
            columns.push(
                &framed,
                known,
                result.map(|result| result.map(drop)),
                payload,
            );
            if columns.size >= ENOUGH_BYTES {
                break;
            }
        }
        columns.finish(&self.kind).map_err(exception)
    }

    /// The schema of an id. Python is asked once for each.
    fn known(&mut self, id: SchemaId) -> PyResult<Arc<Known>> {
        if let Some((last, known)) = &self.last
            && *last == id
        {
            return Ok(Arc::clone(known));
        }
        if let Some(known) = self.known.get(&id) {
            self.last = Some((id, Arc::clone(known)));
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(Python::attach(|py| self.ask(py, id))?);
        self.types += match &known.schema {
            Ok((schema, _)) => schema.types(),
            Err(_) => 1,
        };
        if self.types > MOST_TYPES || self.known.len() >= MOST_SCHEMAS {
            self.known.clear();
            self.types = 0;
        }
        self.known.insert(id, Arc::clone(&known));
        Ok(known)
    }

    fn ask(&self, py: Python<'_>, id: SchemaId) -> PyResult<Known> {
        let found = match id {
            SchemaId::Id(id) => self.resolve.call1(py, (id,)),
            SchemaId::Guid(guid) => self.resolve.call1(py, (uuid_text(guid),)),
        };
        let found: Resolved = match found {
            Ok(found) => found.extract(py)?,
            Err(error) if error.is_instance_of::<PyValueError>(py) => {
                return Ok(Known {
                    schema: Err(error.value(py).to_string()),
                    id: match id {
                        SchemaId::Id(id) => Some(id),
                        SchemaId::Guid(_) => None,
                    },
                    subject: None,
                    version: None,
                });
            }
            Err(error) => return Err(error),
        };
        let (schema_type, text, references, id, subject, version) = found;
        let schema = py.detach(|| {
            let schema = Schema::parse(&schema_type, &text, &references)
                .map_err(|error| format!("schema {id} cannot be used: {error}"))?;
            let plan = if self.is_typed {
                Plan::new(&schema, self.reader.as_ref(), &self.kind)
                    .map_err(|error| format!("schema {id} cannot be read: {error}"))?
            } else {
                Plan::json()
            };
            Ok((schema, plan))
        });
        Ok(Known {
            schema,
            id: Some(id),
            subject,
            version,
        })
    }
}

struct Columns {
    decoded: Column,
    bytes: Sparse<BinaryBuilder>,
    errors: Sparse<StringBuilder>,
    framings: StringBuilder,
    ids: Int32Builder,
    subjects: StringBuilder,
    versions: Int32Builder,
    /// The framing and the schema of the last rows, and their number; nothing if they are null.
    run: (Option<Named>, usize),
    /// The bytes in `decoded`, about.
    size: usize,
}

/// A framing and a schema.
type Named = (&'static str, Option<Arc<Known>>);

/// A column of which few rows have a value.
#[derive(Default)]
struct Sparse<B> {
    builder: B,
    /// The nulls since the last value.
    nulls: usize,
}

impl<T: ByteArrayType> Sparse<GenericByteBuilder<T>> {
    fn push(&mut self, value: Option<impl AsRef<T::Native>>) {
        match value {
            Some(value) => {
                self.builder.append_nulls(std::mem::take(&mut self.nulls));
                self.builder.append_value(value);
            }
            None => self.nulls += 1,
        }
    }

    fn finish(mut self) -> ArrayRef {
        self.builder.append_nulls(self.nulls);
        Arc::new(self.builder.finish())
    }
}

impl Columns {
    fn new(kind: &Type) -> Self {
        Self {
            decoded: Column::new(kind),
            bytes: Sparse::default(),
            errors: Sparse::default(),
            framings: StringBuilder::new(),
            ids: Int32Builder::new(),
            subjects: StringBuilder::new(),
            versions: Int32Builder::new(),
            run: (None, 0),
            size: 0,
        }
    }

    /// Adds a null key or value: it has no schema.
    fn null(&mut self) {
        self.push_null();
        self.bytes.push(None::<&[u8]>);
        self.errors.push(None::<&str>);
        self.name(None);
    }

    fn push_null(&mut self) {
        self.decoded.push_null();
        self.size += self.decoded.weight();
    }

    fn push(
        &mut self,
        framed: &Framed<'_>,
        known: Option<Arc<Known>>,
        result: Option<Result<(), String>>,
        payload: &[u8],
    ) {
        let is_decoded = matches!(result, Some(Ok(())));
        if !is_decoded {
            self.push_null();
        }
        self.bytes.push((!is_decoded).then_some(payload));
        self.errors.push(result.and_then(Result::err));
        self.name(Some((framed.framing.name(), known)));
    }

    /// Adds a row to the run of those with the same framing and schema.
    fn name(&mut self, named: Option<Named>) {
        let is_same = match (&self.run.0, &named) {
            (Some((framing, known)), Some((its_framing, its))) => {
                framing == its_framing
                    && known.as_ref().map(Arc::as_ptr) == its.as_ref().map(Arc::as_ptr)
            }
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.end_run();
            self.run.0 = named;
        }
        self.run.1 += 1;
    }

    fn end_run(&mut self) {
        let (named, rows) = std::mem::take(&mut self.run);
        let known = named.as_ref().and_then(|(_, known)| known.as_deref());
        append(
            &mut self.framings,
            named.as_ref().map(|&(framing, _)| framing),
            rows,
        );
        append(
            &mut self.subjects,
            known.and_then(|known| known.subject.as_deref()),
            rows,
        );
        for (builder, value) in [
            (&mut self.ids, known.and_then(|known| known.id)),
            (&mut self.versions, known.and_then(|known| known.version)),
        ] {
            match value {
                Some(value) => builder.append_value_n(value, rows),
                None => builder.append_nulls(rows),
            }
        }
    }

    fn finish(mut self, kind: &Type) -> Result<RecordBatch, Error> {
        self.end_run();
        let invalid = |error: arrow_schema::ArrowError| Error::invalid(error.to_string());
        let decoded = arrow_column::array(kind, self.decoded).map_err(invalid)?;
        let text = |name| Field::new(name, DataType::Utf8, true);
        let int = |name| Field::new(name, DataType::Int32, true);
        let (fields, columns): (Vec<_>, Vec<ArrayRef>) = [
            (arrow_column::field("decoded", kind), decoded),
            (
                Field::new("bytes", DataType::Binary, true),
                self.bytes.finish(),
            ),
            (text("framing"), Arc::new(self.framings.finish())),
            (int("schemaId"), Arc::new(self.ids.finish())),
            (text("subject"), Arc::new(self.subjects.finish())),
            (int("version"), Arc::new(self.versions.finish())),
            (text("error"), self.errors.finish()),
        ]
        .into_iter()
        .unzip();
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).map_err(invalid)
    }
}

/// Appends the same text, or null, for several rows.
fn append(builder: &mut StringBuilder, text: Option<&str>, rows: usize) {
    match text {
        Some(text) => builder.append_value_n(text, rows),
        None => builder.append_nulls(rows),
    }
}
