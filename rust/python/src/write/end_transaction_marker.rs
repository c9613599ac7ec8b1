//! `end_transaction_marker` and `end_of_transaction`: the batch that commits or aborts a transaction.

use brokerless_core::BatchOptions;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyfunction]
#[pyo3(signature = (*, commit, producer_id, producer_epoch, timestamp, coordinator_epoch=0, base_offset=0,
    partition_leader_epoch=-1))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(crate) fn end_transaction_marker<'py>(
    py: Python<'py>,
    commit: bool,
    producer_id: i64,
    producer_epoch: i16,
    timestamp: i64,
    coordinator_epoch: i32,
    base_offset: i64,
    partition_leader_epoch: i32,
) -> PyResult<Bound<'py, PyBytes>> {
    let options = BatchOptions {
        base_offset,
        partition_leader_epoch,
        producer_id,
        producer_epoch,
        ..BatchOptions::default()
    };
    brokerless_core::end_transaction_marker(&options, commit, coordinator_epoch, timestamp)
        .map(|marker| PyBytes::new(py, &marker))
        .or_raise()
}

#[pyfunction]
pub(crate) fn end_of_transaction(batch: Bytes) -> PyResult<Option<(bool, i32)>> {
    let end = brokerless_core::end_of_transaction(batch.as_slice()).or_raise()?;
    Ok(end.map(|end| (end.is_commit, end.coordinator_epoch)))
}
