//! Bytes from Python: any contiguous buffer, borrowed without a copy.
//!
//! pyarrow takes the buffer and hands it over by the Arrow C data interface, so no pointer is touched here and the
//! interpreter lock can be let go. The caller must not write to the buffer during the call.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A contiguous buffer, as an argument.
#[derive(Debug)]
pub(crate) struct Bytes(Buffer);

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        static PY_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static FROM_BUFFERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static UINT8: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = object.py();
        let pyarrow = || py.import(intern!(py, "pyarrow"));
        let py_buffer = PY_BUFFER.get_or_try_init(py, || {
            Ok::<_, PyErr>(pyarrow()?.getattr("py_buffer")?.unbind())
        })?;
        let from_buffers = FROM_BUFFERS.get_or_try_init(py, || {
            Ok::<_, PyErr>(
                pyarrow()?
                    .getattr("Array")?
                    .getattr("from_buffers")?
                    .unbind(),
            )
        })?;
        let uint8 = UINT8.get_or_try_init(py, || {
            Ok::<_, PyErr>(pyarrow()?.call_method0("uint8")?.unbind())
        })?;
        let buffer = py_buffer.bind(py).call1((object,))?;
        let length: usize = buffer.getattr(intern!(py, "size"))?.extract()?;
        let array = from_buffers
            .bind(py)
            .call1((uint8, length, (py.None(), buffer)))?;
        let data = ArrayData::from_pyarrow_bound(&array)?;
        Ok(Self(
            data.buffers()
                .first()
                .map(|b| b.slice_with_length(0, length))
                .unwrap_or_default(),
        ))
    }
}
