//! `partition_for_keys`: where Kafka's producers send keys.

use arrow_array::{Array, Int32Array, make_array};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use brokerless_core::{Error, partition_for_key};
use pyo3::prelude::*;

use crate::columns::BytesColumn;
use crate::error::to_py;

/// For a null key: whoever sends it chooses.
const NO_PARTITION: i32 = -1;

#[pyfunction]
pub(crate) fn partition_for_keys<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    partitions: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let keys = make_array(ArrayData::from_pyarrow_bound(keys)?);
    if partitions < 1 {
        let error = Error::invalid(format!(
            "partitions {partitions}; there must be at least one"
        ));
        return Err(to_py(py, error));
    }
    let column = BytesColumn::new("key", Some(keys.as_ref())).map_err(|error| to_py(py, error))?;
    let chosen: Int32Array = py.detach(|| {
        let rows = 0..keys.len();
        rows.map(|row| {
            let key = column.get(row);
            key.map_or(NO_PARTITION, |key| partition_for_key(key, partitions))
        })
        .collect::<Vec<_>>()
        .into()
    });
    chosen.to_data().to_pyarrow(py)
}
