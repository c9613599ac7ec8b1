//! `SegmentRecovery`, `SegmentEnd` and `ProducerReplay`: read a segment again after a crash.

use brokerless_core::{
    ProducerReplay as Replay, SegmentEnd as End, SegmentRecovery as Recovery, WalkEnd,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::broker::leader_epochs::LeaderEpochs;
use crate::broker::producers::Producers;

/// The reason why the walk ended, as a word and a message. The message is None if nothing is wrong.
fn ended(ended: Option<&WalkEnd>) -> (Option<&'static str>, Option<&str>) {
    match ended {
        None => (None, None),
        Some(WalkEnd::Whole) => (Some("whole"), None),
        Some(WalkEnd::Cut(why)) => (Some("cut"), Some(why)),
        Some(WalkEnd::Emptied(why)) => (Some("emptied"), Some(why)),
        Some(WalkEnd::Split(why)) => (Some("split"), Some(why)),
        Some(WalkEnd::Failed(why)) => (Some("failed"), Some(why)),
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentRecovery {
    recovery: Recovery,
    producers: Py<Producers>,
    epochs: Py<LeaderEpochs>,
}

#[pymethods]
impl SegmentRecovery {
    #[new]
    #[pyo3(signature = (base_offset, *, producers, epochs, index_interval_bytes, segment_index_bytes))]
    fn new(
        base_offset: i64,
        producers: Py<Producers>,
        epochs: Py<LeaderEpochs>,
        index_interval_bytes: i64,
        segment_index_bytes: usize,
    ) -> Self {
        Self {
            recovery: Recovery::new(base_offset, index_interval_bytes, segment_index_bytes),
            producers,
            epochs,
        }
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64, end: u64) -> PyResult<usize> {
        let mut producers = self.producers.bind(py).try_borrow_mut()?;
        let mut epochs = self.epochs.bind(py).try_borrow_mut()?;
        let (producers, epochs) = (&mut producers.0, &mut epochs.0);
        let recovery = &mut self.recovery;
        py.detach(|| recovery.feed(data.as_slice(), position, end, producers, epochs))
            .or_raise()
    }

    #[getter]
    fn ended(&self) -> Option<&'static str> {
        ended(self.recovery.walk.ended.as_ref()).0
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        ended(self.recovery.walk.ended.as_ref()).1
    }

    #[getter]
    fn needed(&self) -> usize {
        self.recovery.walk.needed
    }

    #[getter]
    fn valid_bytes(&self) -> u64 {
        self.recovery.valid_bytes
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.recovery.next_offset
    }

    #[getter]
    fn highest_next_offset(&self) -> i64 {
        self.recovery.highest_next_offset
    }

    #[getter]
    fn producers_end(&self) -> Option<i64> {
        self.recovery.producers_end
    }

    #[getter]
    fn batches(&self) -> u64 {
        self.recovery.batches
    }

    #[getter]
    fn index<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.recovery.index)
    }

    #[getter]
    fn timeindex<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.recovery.timeindex)
    }

    #[getter]
    fn txnindex<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.recovery.txnindex)
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentEnd(End);

#[pymethods]
impl SegmentEnd {
    #[new]
    fn new(position: u64) -> Self {
        Self(End::new(position))
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64, end: u64) -> PyResult<usize> {
        py.detach(|| self.0.feed(data.as_slice(), position, end))
            .or_raise()
    }

    #[getter]
    fn position(&self) -> u64 {
        self.0.walk.position
    }

    #[getter]
    fn next_offset(&self) -> Option<i64> {
        self.0.next_offset
    }

    #[getter]
    fn ended(&self) -> Option<&'static str> {
        ended(self.0.walk.ended.as_ref()).0
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        ended(self.0.walk.ended.as_ref()).1
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.walk.needed
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct ProducerReplay {
    replay: Replay,
    producers: Py<Producers>,
}

#[pymethods]
impl ProducerReplay {
    #[new]
    fn new(producers: Py<Producers>, start_offset: i64) -> Self {
        Self {
            replay: Replay::new(start_offset),
            producers,
        }
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64, end: u64) -> PyResult<usize> {
        let mut producers = self.producers.bind(py).try_borrow_mut()?;
        let producers = &mut producers.0;
        let replay = &mut self.replay;
        py.detach(|| replay.feed(data.as_slice(), position, end, producers))
            .or_raise()
    }

    #[getter]
    fn ended(&self) -> Option<&'static str> {
        ended(self.replay.walk.ended.as_ref()).0
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        ended(self.replay.walk.ended.as_ref()).1
    }

    #[getter]
    fn needed(&self) -> usize {
        self.replay.walk.needed
    }
}
