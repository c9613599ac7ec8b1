//! `headers_alone` and `place_headers`: headers of batches that stay in place while their headers change.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

/// Positions and first bytes, and the end of the last batch.
type PlacedHeaders = (Vec<(u64, Py<PyBytes>)>, u64);

#[pyfunction]
pub(crate) fn headers_alone(py: Python<'_>, data: Bytes) -> PyResult<(Bound<'_, PyBytes>, usize)> {
    let taken = py.detach(|| brokerless_core::headers_alone(data.as_slice()));
    let (headers, consumed) = taken.or_raise()?;
    Ok((PyBytes::new(py, &headers), consumed))
}

#[pyfunction]
pub(crate) fn place_headers(py: Python<'_>, headers: Bytes) -> PyResult<PlacedHeaders> {
    let placed = brokerless_core::place_headers(headers.as_slice());
    let (placed, end) = placed.or_raise()?;
    let placed = placed.into_iter();
    let placed = placed.map(|(position, start)| (position, PyBytes::new(py, start).unbind()));
    Ok((placed.collect(), end))
}
