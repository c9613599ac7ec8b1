//! `TransactionIndex`: the content of a `.txnindex` file.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int16Array, Int64Array};
use brokerless_core::{AbortedTxn, Result, TransactionIndex as Index};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::base::table::table;

/// Producer id, first offset, last offset.
type Range = (i64, i64, i64);

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct TransactionIndex(Index);

#[pymethods]
impl TransactionIndex {
    #[new]
    fn new(py: Python<'_>, data: Bytes, base_offset: i64) -> Self {
        Self(py.detach(|| Index::new(data.as_slice(), base_offset)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entries: Result<Vec<AbortedTxn>> = self.0.entries().collect();
        let entries = entries.or_raise()?;
        let int64 = |value: fn(&AbortedTxn) -> i64| -> ArrayRef {
            Arc::new(
                entries
                    .iter()
                    .map(|entry| Some(value(entry)))
                    .collect::<Int64Array>(),
            )
        };
        let versions: Int16Array = entries.iter().map(|entry| Some(entry.version)).collect();
        table(
            py,
            vec![
                ("version", Arc::new(versions)),
                ("producer_id", int64(|entry| entry.producer_id)),
                ("first_offset", int64(|entry| entry.first_offset)),
                ("last_offset", int64(|entry| entry.last_offset)),
                (
                    "last_stable_offset",
                    int64(|entry| entry.last_stable_offset),
                ),
            ],
        )
    }

    fn collect(&self, fetch_offset: i64, upper_bound: i64) -> PyResult<(Vec<Range>, bool)> {
        let (found, is_complete) = self.0.collect(fetch_offset, upper_bound).or_raise()?;
        let ranges = found
            .iter()
            .map(|entry| (entry.producer_id, entry.first_offset, entry.last_offset))
            .collect();
        Ok((ranges, is_complete))
    }

    fn length_below(&self, offset: i64) -> PyResult<usize> {
        self.0.length_below(offset).or_raise()
    }

    fn sanity_check(&self) -> PyResult<()> {
        self.0.sanity_check().or_raise()
    }
}
