//! `schema_ids`: the ids of the schemas that keys or values name.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Framed, KEY_SCHEMA_ID, Result, SchemaId, VALUE_SCHEMA_ID};
use brokerless_values::uuid_text;
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::{BytesColumn, HeadersColumn, last_header};
use crate::base::error::OrRaise as _;

#[pyfunction]
#[pyo3(signature = (payloads, headers=None, *, is_key=false))]
pub(crate) fn schema_ids<'py>(
    py: Python<'py>,
    payloads: Bound<'py, PyAny>,
    headers: Option<Bound<'py, PyAny>>,
    is_key: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let arrays: Vec<_> =
        Array::import(py, [Some(payloads), headers].into_iter().flatten())?.collect();
    let column = BytesColumn::new("payloads", arrays.first())?;
    let headers = arrays.get(1).map(HeadersColumn::new).transpose()?;
    let headers = headers.filter(|headers| !headers.is_empty());
    let rows = arrays.first().map_or(0, |array| array.rows.len());
    let name = if is_key {
        KEY_SCHEMA_ID
    } else {
        VALUE_SCHEMA_ID
    };
    let batch = py
        .detach(|| ids(&column, headers.as_ref(), rows, name))
        .or_raise()?;
    batch.to_pyarrow(py)
}

fn ids(
    payloads: &BytesColumn,
    headers: Option<&HeadersColumn>,
    rows: usize,
    name: &str,
) -> Result<RecordBatch> {
    let mut framings = StringBuilder::new();
    let mut ids = Int32Builder::new();
    let mut guids = StringBuilder::new();
    let mut header = Vec::new();
    for row in 0..rows {
        let has_header = match headers {
            Some(headers) => last_header(headers, row, name, &mut header)?,
            None => false,
        };
        let Some(payload) = payloads.get(row)? else {
            framings.append_null();
            ids.append_null();
            guids.append_null();
            continue;
        };
        let framed = Framed::split(payload, has_header.then_some(header.as_slice()));
        framings.append_value(framed.framing.name());
        match framed.schema_id {
            Some(SchemaId::Id(id)) => ids.append_value(id),
            _ => ids.append_null(),
        }
        match framed.schema_id {
            Some(SchemaId::Guid(guid)) => guids.append_value(uuid_text(guid)),
            _ => guids.append_null(),
        }
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("framing", Arc::new(framings.finish())),
        ("schemaId", Arc::new(ids.finish())),
        ("schemaGuid", Arc::new(guids.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .map_err(|error| brokerless_core::Error::invalid(error.to_string()))
}
