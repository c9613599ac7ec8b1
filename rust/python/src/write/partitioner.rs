//! `Partitioner`: the partition of each row, as Kafka's producers choose it.

use arrow_array::{Array as _, Int32Array};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Partitioner as Chooser, Result};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::buffer::Bytes;
use crate::base::columns::{BytesColumn, NumbersColumn};
use crate::base::error::OrRaise as _;

#[pyfunction]
pub(crate) fn murmur2(data: Bytes) -> i32 {
    brokerless_core::murmur2(data.as_slice())
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Partitioner(Chooser);

#[pymethods]
impl Partitioner {
    #[new]
    fn new(topic: &str, partitions: Vec<i32>, batch_size: u64, seed: u64) -> PyResult<Self> {
        Chooser::new(topic, partitions, batch_size, seed)
            .map(Self)
            .or_raise()
    }

    #[pyo3(signature = (partitions, keys))]
    fn check(
        &self,
        py: Python<'_>,
        partitions: Option<Bound<'_, PyAny>>,
        keys: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        // Where all partitions are here, any key will do.
        let keys = keys.filter(|_| self.0.check(None, true).is_err());
        let columns = Columns::new(py, partitions, keys)?;
        let check = |row| {
            let (given, key) = columns.get(row)?;
            self.0.check(given, key.is_some())
        };
        py.detach(|| (0..columns.rows).try_for_each(check))
            .or_raise()
    }

    #[pyo3(signature = (partitions, keys, rows, row_bytes))]
    fn choose<'py>(
        &mut self,
        py: Python<'py>,
        partitions: Option<Bound<'py, PyAny>>,
        keys: Option<Bound<'py, PyAny>>,
        rows: usize,
        row_bytes: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let columns = Columns::new(py, partitions, keys)?;
        let choose = |row| {
            let (given, key) = columns.get(row)?;
            self.0.choose(given, key, row_bytes)
        };
        let chosen: Vec<i32> = py
            .detach(|| (0..rows).map(choose).collect::<Result<_>>())
            .or_raise()?;
        Int32Array::from(chosen).to_data().to_pyarrow(py)
    }
}

/// The columns that determine a partition.
struct Columns {
    partitions: Option<NumbersColumn<i32>>,
    keys: BytesColumn,
    /// The number of rows in the longer one.
    rows: usize,
}

impl Columns {
    fn new(
        py: Python<'_>,
        partitions: Option<Bound<'_, PyAny>>,
        keys: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let there = (partitions.is_some(), keys.is_some());
        let mut arrays = Array::import(py, partitions.into_iter().chain(keys))?;
        let partitions = if there.0 { arrays.next() } else { None };
        let keys = if there.1 { arrays.next() } else { None };
        let rows = |array: &Option<Array>| array.as_ref().map_or(0, |array| array.rows.len());
        Ok(Self {
            rows: rows(&partitions).max(rows(&keys)),
            keys: BytesColumn::new("key", keys.as_ref())?,
            partitions: match &partitions {
                Some(array) => NumbersColumn::named("partition", array, "int32")?,
                None => None,
            },
        })
    }

    /// The partition that a row names; without one, the row's key.
    #[inline]
    fn get(&self, row: usize) -> Result<(Option<i32>, Option<&[u8]>)> {
        let numbers = self.partitions.as_ref();
        match numbers.and_then(|numbers| numbers.get(row)) {
            None => Ok((None, self.keys.get(row)?)),
            given => Ok((given, None)),
        }
    }
}
