//! Core errors as the exceptions of `brokerless.errors`. The caller who knows the file adds its path there.

use brokerless_core::{Error, Kind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn to_py(py: Python<'_>, error: Error) -> PyErr {
    let class = match error.kind {
        Kind::Corrupt => "CorruptRecordError",
        Kind::Unsupported => "UnsupportedFormatError",
        Kind::Invalid => return PyValueError::new_err(error.message),
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
