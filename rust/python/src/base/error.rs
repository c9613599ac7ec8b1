//! Converts errors to the exceptions of `brokerless.errors`. The caller knows the file, and adds its path.

use brokerless_core::{Error, ErrorKind, ReadError, Refused};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A result whose error becomes an exception.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}

impl<T> OrRaise<T> for Result<T, Refused> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(append_error)
    }
}

impl<T> OrRaise<T> for Result<T, ReadError<PyErr>> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| match error {
            ReadError::Format(error) => exception(error),
            ReadError::File(error) => error,
        })
    }
}

pub(crate) fn exception(error: Error) -> PyErr {
    let class = match error.kind {
        ErrorKind::Corrupt => "CorruptRecordError",
        ErrorKind::Unsupported => "UnsupportedFormatError",
        ErrorKind::Invalid => return PyValueError::new_err(error.message),
    };
    raised(class, error.message, |place| {
        place.set_item("position", error.position)?;
        place.set_item("base_offset", error.base_offset)?;
        place.set_item("next_position", error.next_position)
    })
}

/// Converts a refused append to the subclass of `AppendError` that is named like Kafka's answer.
pub(crate) fn append_error(refused: Refused) -> PyErr {
    let class = format!("{}Error", refused.refusal.name());
    raised(&class, refused.message, |keywords| {
        if refused.base_offset.is_some() || refused.position > 0 {
            keywords.set_item("position", refused.position)?;
            keywords.set_item("base_offset", refused.base_offset)?;
        }
        if !refused.records.is_empty() {
            keywords.set_item("record_errors", refused.records)?;
        }
        Ok(())
    })
}

/// Creates an exception of `brokerless.errors`; `set` sets its keyword arguments.
pub(crate) fn raised(
    class: &str,
    message: String,
    set: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    Python::attach(|py| {
        let keywords = PyDict::new(py);
        let create = || {
            set(&keywords)?;
            let class = py.import("brokerless.errors")?.getattr(class)?;
            class.call((message,), Some(&keywords))
        };
        create().map_or_else(|failure| failure, PyErr::from_value)
    })
}
