//! `Appended`, `SegmentWrite` and `Closing`: the bytes that an append or a close leaves to be written.

use brokerless_core::{AppendInfos, Effects, Refused, SegmentWrite as Write};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::arrays::buffer;
use crate::base::error::append_error;

/// Up to this size, a copy is cheaper than lending memory.
const COPIED_BYTES: usize = 64 << 10;

/// Converts bytes for Python. A large number of bytes becomes a `pyarrow.Buffer` without a copy.
fn bytes(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Py<PyAny>> {
    if bytes.len() <= COPIED_BYTES {
        return Ok(PyBytes::new(py, &bytes).into_any().unbind());
    }
    Ok(buffer(py, bytes)?.unbind())
}

#[pyclass(module = "brokerless._native", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct SegmentWrite {
    base_offset: i64,
    is_new: bool,
    snapshot: Option<Py<PyAny>>,
    final_time_entry: Py<PyAny>,
    log: Py<PyAny>,
    index: Py<PyAny>,
    timeindex: Py<PyAny>,
    txnindex: Py<PyAny>,
}

impl SegmentWrite {
    fn new(py: Python<'_>, write: Write) -> PyResult<Self> {
        Ok(Self {
            base_offset: write.base_offset,
            is_new: write.is_new,
            snapshot: write
                .snapshot
                .map(|snapshot| bytes(py, snapshot))
                .transpose()?,
            final_time_entry: bytes(py, write.final_time_entry)?,
            log: bytes(py, write.log)?,
            index: bytes(py, write.index)?,
            timeindex: bytes(py, write.timeindex)?,
            txnindex: bytes(py, write.txnindex)?,
        })
    }
}

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct Appended {
    #[pyo3(get)]
    first_offset: i64,
    #[pyo3(get)]
    last_offset: i64,
    #[pyo3(get)]
    log_append_time: i64,
    #[pyo3(get)]
    max_timestamp: i64,
    #[pyo3(get)]
    is_duplicate: bool,
    #[pyo3(get)]
    count: u64,
    #[pyo3(get)]
    duplicates: u64,
    #[pyo3(get)]
    consumed: usize,
    #[pyo3(get)]
    has_new_epochs: bool,
    #[pyo3(get)]
    writes: Vec<Py<SegmentWrite>>,
    /// The exception itself is not kept, because its traceback refers to the frame that holds this object, and Python's
    /// collector would not see the cycle.
    refused: Option<Refused>,
}

impl Appended {
    pub(crate) fn new(py: Python<'_>, infos: AppendInfos, effects: Effects) -> PyResult<Self> {
        let last = infos.last;
        let writes = effects.writes.into_iter();
        let writes = writes.map(|write| Py::new(py, SegmentWrite::new(py, write)?));
        Ok(Self {
            first_offset: last.first_offset,
            last_offset: last.last_offset,
            log_append_time: last.log_append_time,
            max_timestamp: last.max_timestamp,
            is_duplicate: infos.count > 0 && infos.duplicates == infos.count,
            count: infos.count,
            duplicates: infos.duplicates,
            consumed: infos.consumed,
            has_new_epochs: effects.has_new_epochs,
            writes: writes.collect::<PyResult<_>>()?,
            refused: infos.refused,
        })
    }
}

#[pymethods]
impl Appended {
    #[getter]
    fn error(&self) -> Option<PyErr> {
        let refused = self.refused.clone()?;
        Some(append_error(refused))
    }

    fn followed_by(&self, next: &Self) -> Self {
        let first = if self.count > 0 { self } else { next };
        let last = if next.count > 0 { next } else { self };
        let (count, duplicates) = (self.count + next.count, self.duplicates + next.duplicates);
        Self {
            first_offset: first.first_offset,
            last_offset: last.last_offset,
            log_append_time: last.log_append_time,
            max_timestamp: last.max_timestamp,
            is_duplicate: count > 0 && duplicates == count,
            count,
            duplicates,
            consumed: self.consumed + next.consumed,
            has_new_epochs: self.has_new_epochs || next.has_new_epochs,
            writes: Vec::new(),
            refused: next.refused.clone(),
        }
    }
}

#[pyclass(module = "brokerless._native", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Closing {
    final_time_entry: Py<PyAny>,
    snapshot: Option<Py<PyAny>>,
}

impl Closing {
    pub(crate) fn new(
        py: Python<'_>,
        final_time_entry: Vec<u8>,
        snapshot: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        Ok(Self {
            final_time_entry: bytes(py, final_time_entry)?,
            snapshot: snapshot.map(|snapshot| bytes(py, snapshot)).transpose()?,
        })
    }
}
