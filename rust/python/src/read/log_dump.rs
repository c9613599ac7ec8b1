//! `LogDump`: dumps a log as `kafka-dump-log` does.

use brokerless_core::{DEFAULT_MAX_BATCH_BYTES, LogDump as Dump};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LogDump {
    dump: Dump,
    /// Reused by each call: fresh pages for a text cost as much as writing it.
    text: Vec<u8>,
}

#[pymethods]
impl LogDump {
    #[new]
    #[pyo3(signature = (*, deep_iteration=false, print_data_log=false, skip_record_metadata=false, escape_controls=false))]
    fn new(
        deep_iteration: bool,
        print_data_log: bool,
        skip_record_metadata: bool,
        escape_controls: bool,
    ) -> Self {
        let mut dump = Dump::new(
            deep_iteration,
            print_data_log,
            skip_record_metadata,
            DEFAULT_MAX_BATCH_BYTES,
        );
        if escape_controls {
            dump = dump.escape_controls();
        }
        Self {
            dump,
            text: Vec::new(),
        }
    }

    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: Bytes,
        position: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let Self { dump, text } = self;
        text.clear();
        let consumed = py
            .detach(|| dump.feed(data.as_slice(), position, text))
            .or_raise()?;
        Ok((PyBytes::new(py, text), consumed))
    }

    #[getter]
    fn gaps(&self) -> Vec<(i64, i64)> {
        self.dump.gaps().to_vec()
    }
}
