//! `Soundness`: finds the sound batches of a segment by headers and checksums.

use brokerless_core::{BatchRange, Soundness as Check};
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;

/// Position, end position, first offset, next offset.
type Range = (u64, u64, i64, i64);
/// The same, and whether some of its offsets are missing from the batches that stay.
type Dropped = (u64, u64, i64, i64, bool);
/// First offset, next offset.
type Offsets = (i64, i64);

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Soundness(Check);

#[pymethods]
impl Soundness {
    #[new]
    #[pyo3(signature = (base_offset, limit, *, check_crcs=true, collects=false))]
    fn new(base_offset: i64, limit: i64, check_crcs: bool, collects: bool) -> Self {
        Self(Check::new(base_offset, limit, check_crcs, collects))
    }

    fn check(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.check(data.as_slice(), position))
            .map_err(|error| to_py(py, error))
    }

    fn start_run(&mut self) {
        self.0.start_run();
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }

    #[getter]
    fn first_offset(&self) -> Option<i64> {
        self.0.first_offset
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.0.next_offset
    }

    #[getter]
    fn is_rising(&self) -> bool {
        self.0.is_rising
    }

    #[pyo3(signature = (*, is_limited))]
    fn rising(&self, py: Python<'_>, is_limited: bool) -> (Vec<Range>, Vec<Dropped>, Vec<Offsets>) {
        let rising = py.detach(|| self.0.rising(is_limited));
        let range = |batch: &BatchRange| {
            (
                batch.position,
                batch.end_position,
                batch.first_offset,
                batch.next_offset,
            )
        };
        let dropped = rising.dropped.iter().map(|(batch, is_missing)| {
            let (position, end_position, first_offset, next_offset) = range(batch);
            (
                position,
                end_position,
                first_offset,
                next_offset,
                *is_missing,
            )
        });
        (
            rising.kept.iter().map(range).collect(),
            dropped.collect(),
            rising.covered,
        )
    }
}
