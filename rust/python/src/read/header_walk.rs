//! `HeaderWalk`: the facts from the batch headers of a log.

use brokerless_core::{Compression, HeaderWalk as Walk, Transactions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct HeaderWalk(Walk);

#[pymethods]
impl HeaderWalk {
    #[new]
    #[pyo3(signature = (open_transactions=vec![]))]
    fn new(open_transactions: Vec<(i64, i64)>) -> Self {
        Self(Walk::new(Transactions::with_open(open_transactions)))
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64, end: u64) -> PyResult<u64> {
        py.detach(|| self.0.feed(data.as_slice(), position, end))
            .or_raise()
    }

    #[pyo3(signature = (order=None))]
    fn start_file(&mut self, order: Option<(i64, i64)>) {
        self.0.start_file(order);
    }

    #[getter]
    fn done(&self) -> bool {
        self.0.done
    }

    #[getter]
    fn end_position(&self) -> u64 {
        self.0.end_position
    }

    #[getter]
    fn first_offset(&self) -> Option<i64> {
        self.0.first_offset
    }

    #[getter]
    fn next_offset(&self) -> Option<i64> {
        self.0.next_offset
    }

    #[getter]
    fn last_batch<'py>(&self, py: Python<'py>) -> Option<(u64, Bound<'py, PyBytes>)> {
        let (position, start) = self.0.last?;
        Some((position, PyBytes::new(py, &start)))
    }

    #[getter]
    fn leader_epoch(&self) -> i32 {
        self.0.leader_epoch
    }

    #[getter]
    fn max_timestamp(&self) -> i64 {
        self.0.max_timestamp
    }

    #[getter]
    fn batches(&self) -> u64 {
        self.0.batches
    }

    #[getter]
    fn records(&self) -> u64 {
        self.0.records
    }

    #[getter]
    fn magics(&self) -> Vec<u32> {
        (0..8).filter(|bit| self.0.magics >> bit & 1 == 1).collect()
    }

    #[getter]
    fn compressions(&self) -> Vec<String> {
        (0..8)
            .filter(|bit| self.0.compressions >> bit & 1 == 1)
            .map(|id| match Compression::from_id(id) {
                Some(codec) => codec.name().to_owned(),
                None => format!("unknown({id})"),
            })
            .collect()
    }

    #[getter]
    fn open_transactions(&self) -> Vec<(i64, i64)> {
        self.0.transactions.open()
    }

    #[getter]
    fn aborted(&self) -> Vec<(i64, i64, i64)> {
        self.0
            .transactions
            .aborted()
            .iter()
            .map(|t| (t.producer_id, t.first_offset, t.last_offset))
            .collect()
    }
}
