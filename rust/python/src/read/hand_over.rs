//! Passes Arrow rows to Python at a small cost for each batch.

use arrow_array::{Array, RecordBatch, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_pyarrow::ToPyArrow;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;

/// Passes batches of one schema, which is converted once.
#[derive(Debug)]
pub(crate) struct HandOver {
    schema: Py<PyAny>,
    import: Py<PyAny>,
}

impl HandOver {
    pub(crate) fn new(py: Python<'_>, schema: &SchemaRef) -> PyResult<Self> {
        let class = py.import("pyarrow")?.getattr("RecordBatch")?;
        Ok(Self {
            schema: schema.to_pyarrow(py)?.unbind(),
            import: class.getattr("_import_from_c")?.unbind(),
        })
    }

    /// pyarrow moves the rows out of the struct at the pointer and marks it as released.
    pub(crate) fn rows<'py>(
        &self,
        py: Python<'py>,
        rows: RecordBatch,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = FFI_ArrowArray::new(&StructArray::from(rows).to_data());
        self.import
            .bind(py)
            .call1((&raw const array as usize, self.schema.bind(py)))
    }
}
