//! Converts core errors to the exceptions of `brokerless.errors`. The caller who knows the file adds its path.

use brokerless_core::{Error, ErrorKind, Refused};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn to_py(py: Python<'_>, error: Error) -> PyErr {
    let class = match error.kind {
        ErrorKind::Corrupt => "CorruptRecordError",
        ErrorKind::Unsupported => "UnsupportedFormatError",
        ErrorKind::Invalid => return PyValueError::new_err(error.message),
    };
    raise(py, class, error).unwrap_or_else(|failure| failure)
}

fn raise(py: Python<'_>, class: &str, error: Error) -> PyResult<PyErr> {
    let place = PyDict::new(py);
    place.set_item("position", error.position)?;
    place.set_item("base_offset", error.base_offset)?;
    place.set_item("next_position", error.next_position)?;
    let class = py.import("brokerless.errors")?.getattr(class)?;
    Ok(PyErr::from_value(
        class.call((error.message,), Some(&place))?,
    ))
}

/// Converts a refused append to the subclass of `AppendError` that is named like Kafka's answer.
pub(crate) fn refused_to_py(py: Python<'_>, refused: Refused) -> PyErr {
    refusal(py, refused).unwrap_or_else(|failure| failure)
}

fn refusal(py: Python<'_>, refused: Refused) -> PyResult<PyErr> {
    let keywords = PyDict::new(py);
    if refused.base_offset.is_some() || refused.position > 0 {
        keywords.set_item("position", refused.position)?;
        keywords.set_item("base_offset", refused.base_offset)?;
    }
    if !refused.records.is_empty() {
        keywords.set_item("record_errors", refused.records)?;
    }
    let class = format!("{}Error", refused.refusal.name());
    let class = py.import("brokerless.errors")?.getattr(class)?;
    Ok(PyErr::from_value(
        class.call((refused.message,), Some(&keywords))?,
    ))
}
