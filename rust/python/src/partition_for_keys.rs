//! `partition_for_keys`: the partition to which Kafka's producers send a key.

use arrow_array::{Array as _, Int32Array};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Error, Result, partition_for_key};
use pyo3::prelude::*;

use crate::borrowed_array::Array;
use crate::columns::BytesColumn;
use crate::error::to_py;

/// The result for a null key, whose partition the sender chooses.
const NO_PARTITION: i32 = -1;

#[pyfunction]
pub(crate) fn partition_for_keys<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    partitions: i32,
) -> PyResult<Bound<'py, PyAny>> {
    if partitions < 1 {
        let error = Error::invalid(format!(
            "partitions is {partitions}; at least one is needed"
        ));
        return Err(to_py(py, error));
    }
    let keys = Array::import(py, [keys.clone()])?.next();
    let column = BytesColumn::new(py, "key", keys.as_ref())?;
    let rows = keys.map_or(0, |keys| keys.rows.len());
    let choose = |row| {
        let key = column.get(row)?;
        Ok(key.map_or(NO_PARTITION, |key| partition_for_key(key, partitions)))
    };
    let chosen: Vec<i32> = py
        .detach(|| (0..rows).map(choose).collect::<Result<_>>())
        .map_err(|error| to_py(py, error))?;
    Int32Array::from(chosen).to_data().to_pyarrow(py)
}
