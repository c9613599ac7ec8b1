//! `TimeIndex`: the content of a `.timeindex` file.

use std::sync::Arc;

use arrow_array::Int64Array;
use brokerless_core::TimeIndex as Index;
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;
use crate::table::table;

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct TimeIndex(pub(crate) Index);

#[pymethods]
impl TimeIndex {
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
        self.0.last_entry().offset
    }

    #[getter]
    fn last_entry(&self) -> (i64, i64) {
        let last = self.0.last_entry();
        (last.timestamp, last.offset)
    }

    fn lookup(&self, timestamp: i64) -> (i64, i64) {
        let found = self.0.lookup(timestamp);
        (found.timestamp, found.offset)
    }

    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let timestamps: Int64Array = self
            .0
            .entries()
            .map(|entry| Some(entry.timestamp))
            .collect();
        let offsets: Int64Array = self.0.entries().map(|entry| Some(entry.offset)).collect();
        table(
            py,
            vec![
                ("timestamp", Arc::new(timestamps)),
                ("offset", Arc::new(offsets)),
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
