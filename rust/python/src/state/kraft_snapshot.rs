//! Metadata records and KRaft snapshots.

use brokerless_core::ControlType;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyfunction]
pub(crate) fn metadata_record<'py>(
    py: Python<'py>,
    name: &str,
    version: i16,
    json: Bytes,
) -> PyResult<Bound<'py, PyBytes>> {
    brokerless_core::metadata_record(name, version, json.as_slice())
        .map(|record| PyBytes::new(py, &record))
        .or_raise()
}

#[pyfunction]
#[pyo3(signature = (records, timestamp, controls=Vec::new()))]
pub(crate) fn kraft_snapshot(
    py: Python<'_>,
    records: Vec<Bytes>,
    timestamp: i64,
    controls: Vec<(i16, Bytes)>,
) -> PyResult<Bound<'_, PyBytes>> {
    let mut snapshot = Vec::new();
    py.detach(|| {
        let records = records.iter().map(Bytes::as_slice);
        let controls = controls
            .iter()
            .map(|(kind, json)| (ControlType::from_id(*kind), json.as_slice()));
        brokerless_core::kraft_snapshot(records, controls, timestamp, &mut snapshot)
    })
    .or_raise()?;
    Ok(PyBytes::new(py, &snapshot))
}
