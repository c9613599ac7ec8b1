//! `Soundness`: finds the sound batches of a segment by headers and checksums.

use brokerless_core::Soundness as Check;
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Soundness(Check);

#[pymethods]
impl Soundness {
    #[new]
    fn new(base_offset: i64, limit: i64) -> Self {
        Self(Check::new(base_offset, limit, true, false))
    }

    fn check(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.check(data.as_slice(), position))
            .or_raise()
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }
}
