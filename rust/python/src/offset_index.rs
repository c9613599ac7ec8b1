//! `OffsetIndex`: the content of a `.index` file.

use std::sync::Arc;

use arrow_array::{Int32Array, Int64Array};
use brokerless_core::OffsetIndex as Index;
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;
use crate::table::table;

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct OffsetIndex(pub(crate) Index);

#[pymethods]
impl OffsetIndex {
    #[new]
    #[pyo3(signature = (data, base_offset, raw=false))]
    fn new(py: Python<'_>, data: Bytes, base_offset: i64, raw: bool) -> Self {
        Self(py.detach(|| Index::new(data.as_slice(), base_offset, raw)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn last_offset(&self) -> i64 {
        self.0.last_offset()
    }

    fn lookup(&self, offset: i64) -> (i64, i32) {
        let found = self.0.lookup(offset);
        (found.offset, found.position)
    }

    fn upper_bound(&self, position: i64, size: i64) -> Option<i64> {
        self.0.upper_bound(position, size)
    }

    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let offsets: Int64Array = self.0.entries().map(|entry| Some(entry.offset)).collect();
        let positions: Int32Array = self.0.entries().map(|entry| Some(entry.position)).collect();
        table(
            py,
            vec![
                ("offset", Arc::new(offsets)),
                ("position", Arc::new(positions)),
            ],
        )
    }

    fn length_below(&self, offset: i64) -> usize {
        self.0.length_below(offset)
    }

    fn sanity_check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.sanity_check().map_err(|error| to_py(py, error))
    }
}
