//! Bytes from Python: any contiguous buffer, borrowed without a copy.
//!
//! pyarrow holds the buffer and lends it through the Arrow C data interface. So no pointer is handled here, and the
//! interpreter lock can be released. The caller must not write to the buffer during the call. pyarrow takes longer to
//! load than all other modules together. So `bytes` objects are borrowed without pyarrow, and other small buffers are
//! copied until other code has loaded pyarrow.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// A contiguous buffer as an argument.
#[derive(Debug)]
pub(crate) enum Bytes {
    Lent(Buffer),
    Held(PyBackedBytes),
    Copied(Vec<u8>),
}

/// The maximum number of bytes that are copied before pyarrow is loaded.
const MOST_COPIED: usize = 1 << 20;

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Lent(buffer) => buffer.as_slice(),
            Self::Held(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Held(bytes.to_owned().into()));
        }
        if PYARROW.get(py).is_none()
            && let Ok(buffer) = PyBuffer::<u8>::get(&object)
            && buffer.is_c_contiguous()
            && buffer.item_count() <= MOST_COPIED
        {
            return Ok(Self::Copied(buffer.to_vec(py)?));
        }
        let pyarrow = Pyarrow::get(py)?;
        let buffer = pyarrow.py_buffer.bind(py).call1((object,))?;
        let borrowed = borrow(py, vec![buffer])?;
        Ok(Self::Lent(borrowed.into_iter().next().unwrap_or_default()))
    }
}

/// Borrows several pyarrow buffers together, each with the size that pyarrow has for it.
///
/// They are imported as the buffers of a view array without rows. Only a view array can have any number of buffers, and
/// passes their sizes through the interface.
pub(crate) fn borrow(py: Python<'_>, buffers: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Buffer>> {
    let pyarrow = Pyarrow::get(py)?;
    let (none, views) = (py.None().into_bound(py), pyarrow.empty.bind(py).clone());
    let wanted = buffers.len();
    let buffers: Vec<_> = [none, views].into_iter().chain(buffers).collect();
    let array = pyarrow
        .from_buffers
        .bind(py)
        .call1((&pyarrow.binary_view, 0, buffers))?;
    let data = ArrayData::from_pyarrow_bound(&array)?;
    match data.buffers().split_first() {
        Some((_, buffers)) if buffers.len() == wanted => Ok(buffers.to_vec()),
        _ => Err(PyRuntimeError::new_err(
            "pyarrow returned another number of buffers than it was given",
        )),
    }
}

/// Refuses an object that is not an instance of a pyarrow class.
pub(crate) fn check_class(object: &Bound<'_, PyAny>, class: &Py<PyAny>) -> PyResult<()> {
    let class = class.bind(object.py());
    if object.is_instance(class)? {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "expected a pyarrow.{}, found {}",
        class.getattr("__name__")?,
        object.get_type().fully_qualified_name()?
    )))
}

/// The parts of pyarrow that are used, looked up once.
pub(crate) struct Pyarrow {
    py_buffer: Py<PyAny>,
    from_buffers: Py<PyAny>,
    binary_view: Py<PyAny>,
    /// An empty buffer.
    pub(crate) empty: Py<PyAny>,
    pub(crate) record_batch: Py<PyAny>,
    pub(crate) array: Py<PyAny>,
    pub(crate) extension_array: Py<PyAny>,
}

static PYARROW: PyOnceLock<Pyarrow> = PyOnceLock::new();

impl Pyarrow {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        PYARROW.get_or_try_init(py, || {
            let pyarrow = py.import("pyarrow")?;
            let py_buffer = pyarrow.getattr("py_buffer")?;
            let array = pyarrow.getattr("Array")?;
            Ok(Self {
                empty: py_buffer.call1((b"",))?.unbind(),
                py_buffer: py_buffer.unbind(),
                from_buffers: array.getattr("from_buffers")?.unbind(),
                array: array.unbind(),
                record_batch: pyarrow.getattr("RecordBatch")?.unbind(),
                extension_array: pyarrow.getattr("ExtensionArray")?.unbind(),
                binary_view: pyarrow.call_method0("binary_view")?.unbind(),
            })
        })
    }
}
