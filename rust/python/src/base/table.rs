//! Builds a `pyarrow.RecordBatch` from named columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The columns have the same length and no nulls.
pub(crate) fn table<'py>(
    py: Python<'py>,
    columns: Vec<(&str, ArrayRef)>,
) -> PyResult<Bound<'py, PyAny>> {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), false))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| PyValueError::new_err(error.to_string()))?
        .to_pyarrow(py)
}
