//! `LeaderEpochs`: the leader epochs of a log and their start offsets.

use brokerless_core::LeaderEpochs as Epochs;
use pyo3::prelude::*;

use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LeaderEpochs(pub(crate) Epochs);

#[pymethods]
impl LeaderEpochs {
    #[new]
    #[pyo3(signature = (entries=vec![]))]
    fn new(entries: Vec<(i32, i64)>) -> Self {
        Self(Epochs::new(entries))
    }

    fn entries(&self) -> Vec<(i32, i64)> {
        self.0.entries().to_vec()
    }

    fn assign(&mut self, epoch: i32, start_offset: i64) -> PyResult<bool> {
        self.0.assign(epoch, start_offset).or_raise()
    }

    fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        self.0.truncate_from_end(end_offset)
    }

    fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        self.0.truncate_from_start(start_offset)
    }

    fn clear(&mut self) -> bool {
        self.0.clear()
    }

    fn end_offset_for(&self, epoch: i32, log_end_offset: i64) -> (i32, i64) {
        self.0.end_offset_for(epoch, log_end_offset)
    }
}
