//! `SegmentOutput`: a new segment. Rewriters push batches into it, and Python takes the bytes for its files.

use brokerless_core::SegmentOutput as Output;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::arrays::{buffer, lend};
use crate::base::error::OrRaise as _;

/// Bytes for the `.log` and the three indexes.
type Contents<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentOutput(pub(crate) Output);

#[pymethods]
impl SegmentOutput {
    #[new]
    #[pyo3(signature = (base_offset, *, index_interval_bytes, segment_index_bytes))]
    fn new(base_offset: i64, index_interval_bytes: i64, segment_index_bytes: usize) -> Self {
        Self(Output::new(
            base_offset,
            index_interval_bytes,
            segment_index_bytes,
        ))
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Contents<'py>> {
        let pending = self.0.take(lend(self.0.pending_bytes()));
        Ok((
            buffer(py, pending.log)?,
            PyBytes::new(py, &pending.index),
            PyBytes::new(py, &pending.timeindex),
            PyBytes::new(py, &pending.txnindex),
        ))
    }

    fn finish(&mut self) -> PyResult<()> {
        self.0.finish().or_raise()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    #[getter]
    fn pending_bytes(&self) -> usize {
        self.0.pending_bytes()
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.0.next_offset()
    }
}
