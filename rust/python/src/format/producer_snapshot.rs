//! `producer_snapshot`: the content of a `.snapshot` file.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int16Array, Int32Array, Int64Array};
use brokerless_core::ProducerState;
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::base::table::table;

#[pyfunction]
pub(crate) fn producer_snapshot(py: Python<'_>, data: Bytes) -> PyResult<Bound<'_, PyAny>> {
    let producers = py
        .detach(|| brokerless_core::producer_snapshot(data.as_slice()))
        .or_raise()?;
    producer_table(py, &producers)
}

/// Returns the transactions that are open in a snapshot, without Arrow, which takes long to load.
#[pyfunction]
pub(crate) fn open_transactions(py: Python<'_>, data: Bytes) -> PyResult<Vec<(i64, i64)>> {
    let producers = py
        .detach(|| brokerless_core::producer_snapshot(data.as_slice()))
        .or_raise()?;
    let begun = producers
        .iter()
        .filter(|producer| producer.current_txn_first_offset >= 0)
        .map(|producer| (producer.producer_id, producer.current_txn_first_offset));
    Ok(begun.collect())
}

/// One row for each producer. No other code has this schema.
pub(crate) fn producer_table<'py>(
    py: Python<'py>,
    producers: &[ProducerState],
) -> PyResult<Bound<'py, PyAny>> {
    let int64 = |value: fn(&ProducerState) -> i64| -> ArrayRef {
        Arc::new(
            producers
                .iter()
                .map(|producer| Some(value(producer)))
                .collect::<Int64Array>(),
        )
    };
    let int32 = |value: fn(&ProducerState) -> i32| -> ArrayRef {
        Arc::new(
            producers
                .iter()
                .map(|producer| Some(value(producer)))
                .collect::<Int32Array>(),
        )
    };
    let epochs: Int16Array = producers
        .iter()
        .map(|producer| Some(producer.producer_epoch))
        .collect();
    table(
        py,
        vec![
            ("producer_id", int64(|producer| producer.producer_id)),
            ("producer_epoch", Arc::new(epochs)),
            ("last_sequence", int32(|producer| producer.last_sequence)),
            ("last_offset", int64(|producer| producer.last_offset)),
            ("offset_delta", int32(|producer| producer.offset_delta)),
            ("timestamp", int64(|producer| producer.timestamp)),
            (
                "coordinator_epoch",
                int32(|producer| producer.coordinator_epoch),
            ),
            (
                "current_txn_first_offset",
                int64(|producer| producer.current_txn_first_offset),
            ),
        ],
    )
}
