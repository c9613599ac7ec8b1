//! `JsonDump` and `LogDump`: dump a log with one JSON object per batch, or as `kafka-dump-log` does.

use brokerless_core::{BytesFormat, DEFAULT_MAX_BATCH_BYTES, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

/// The text of a dump. Each call reuses it, because fresh pages take as long as writing the text.
#[derive(Debug, Default)]
struct Text(Vec<u8>);

impl Text {
    fn fill<'py>(
        &mut self,
        py: Python<'py>,
        feed: impl FnOnce(&mut Vec<u8>) -> Result<usize> + Send,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        self.0.clear();
        let consumed = py.detach(|| feed(&mut self.0)).or_raise()?;
        Ok((PyBytes::new(py, &self.0), consumed))
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct JsonDump(brokerless_core::JsonDump, Text);

#[pymethods]
impl JsonDump {
    #[new]
    #[pyo3(signature = (*, records=false, bytes="utf8"))]
    fn new(records: bool, bytes: &str) -> PyResult<Self> {
        let format = BytesFormat::from_name(bytes).or_raise()?;
        let dump = brokerless_core::JsonDump::new(records, format, DEFAULT_MAX_BATCH_BYTES);
        Ok(Self(dump, Text::default()))
    }

    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: Bytes,
        position: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let Self(dump, text) = self;
        text.fill(py, |text| dump.feed(data.as_slice(), position, text))
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LogDump(brokerless_core::LogDump, Text);

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
        let mut dump = brokerless_core::LogDump::new(
            deep_iteration,
            print_data_log,
            skip_record_metadata,
            DEFAULT_MAX_BATCH_BYTES,
        );
        if escape_controls {
            dump = dump.escape_controls();
        }
        Self(dump, Text::default())
    }

    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: Bytes,
        position: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let Self(dump, text) = self;
        text.fill(py, |text| dump.feed(data.as_slice(), position, text))
    }

    #[getter]
    fn gaps(&self) -> Vec<(i64, i64)> {
        self.0.gaps().to_vec()
    }
}
