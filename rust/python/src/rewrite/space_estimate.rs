//! `SpaceEstimate`: estimates the size of records in each message format, codec and batch size.

use brokerless_core::{Compression, DEFAULT_MAX_BATCH_BYTES, SpaceEstimate as Estimate};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SpaceEstimate(Estimate);

#[pymethods]
impl SpaceEstimate {
    #[new]
    #[pyo3(signature = (*, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES, batch_sizes=Vec::new()))]
    fn new(max_batch_bytes: usize, batch_sizes: Vec<usize>) -> Self {
        Self(Estimate::new(max_batch_bytes, &batch_sizes))
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.feed(data.as_slice(), position))
            .or_raise()
    }

    fn finish(&mut self) -> PyResult<()> {
        self.0.finish().or_raise()
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }

    #[getter]
    fn records(&self) -> u64 {
        self.0.records()
    }

    fn space(&self, magic: i8, compression: &str) -> Option<(u64, u64)> {
        let space = self.0.space(magic, Compression::from_name(compression)?)?;
        Some((space.bytes, space.content))
    }

    fn filled(
        &mut self,
        py: Python<'_>,
        compression: &str,
        batch_size: usize,
    ) -> PyResult<Option<u64>> {
        let Some(compression) = Compression::from_name(compression) else {
            return Ok(None);
        };
        py.detach(|| self.0.filled(compression, batch_size))
            .or_raise()
    }
}
