//! `JsonDump`: dumps a log with one JSON object a batch.

use brokerless_core::{BytesFormat, DEFAULT_MAX_BATCH_BYTES, JsonDump as Dump};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct JsonDump {
    dump: Dump,
    /// Reused by each call: fresh pages for a text cost as much as writing it.
    text: Vec<u8>,
}

#[pymethods]
impl JsonDump {
    #[new]
    #[pyo3(signature = (*, records=false, bytes="utf8"))]
    fn new(records: bool, bytes: &str) -> PyResult<Self> {
        let format = BytesFormat::from_name(bytes).or_raise()?;
        Ok(Self {
            dump: Dump::new(records, format, DEFAULT_MAX_BATCH_BYTES),
            text: Vec::new(),
        })
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
}
