//! `Producers`: the producer state of a log.

use brokerless_core::Producers as State;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::format::producer_snapshot::producer_table;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Producers(pub(crate) State);

#[pymethods]
impl Producers {
    #[new]
    fn new() -> Self {
        Self(State::default())
    }

    #[staticmethod]
    #[pyo3(signature = (data, *, now, producer_id_expiration_ms))]
    fn from_snapshot(
        py: Python<'_>,
        data: Bytes,
        now: i64,
        producer_id_expiration_ms: i64,
    ) -> PyResult<Self> {
        py.detach(|| State::from_snapshot(data.as_slice(), 0, now, producer_id_expiration_ms))
            .map(Self)
            .or_raise()
    }

    fn to_snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.snapshot()))
    }

    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        producer_table(py, &self.0.entries())
    }

    #[getter]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[getter]
    fn highest_cluster_id(&self) -> Option<i64> {
        self.0.highest_cluster_id()
    }

    #[getter]
    fn first_unstable_offset(&self) -> Option<i64> {
        self.0.first_unstable_offset()
    }
}

#[pyfunction]
pub(crate) fn highest_cluster_producer_id(py: Python<'_>, data: Bytes) -> Option<i64> {
    py.detach(|| brokerless_core::highest_cluster_producer_id(data.as_slice()))
}
