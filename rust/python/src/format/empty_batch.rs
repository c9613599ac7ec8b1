//! `empty_batch`: a batch that has an offset but no record.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyfunction]
pub(crate) fn empty_batch(py: Python<'_>, offset: i64, leader_epoch: i32) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &brokerless_core::empty_batch(offset, leader_epoch))
}
