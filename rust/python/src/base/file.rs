//! Files for the core to read: `LocalFile`, opened here, and any Python object with the methods of `Readable`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brokerless_core::ReadAt;
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A regular file open for reading. The core reads it without a copy and without the interpreter.
#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct LocalFile(Arc<Opened>);

/// An open file, with its path for errors.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    path: PathBuf,
}

#[pymethods]
impl LocalFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| {
            // The flag avoids waiting for a named pipe's writer. It has no effect on regular files.
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)?;
            file.metadata().map(|metadata| (file, metadata.file_type()))
        });
        let name = path.as_os_str().to_owned();
        let refused = |number, text| Err(PyOSError::new_err((number, text, name.clone())));
        match opened {
            Ok((file, kind)) if kind.is_file() => Ok(Self(Arc::new(Opened { file, path }))),
            Ok((_, kind)) if kind.is_dir() => refused(libc::EISDIR, "Is a directory"),
            Ok(_) => refused(libc::EINVAL, "not a regular file"),
            Err(error) => {
                let number = error.raw_os_error();
                let text = match number {
                    Some(number) => py
                        .import("os")?
                        .call_method1("strerror", (number,))?
                        .extract()?,
                    None => error.to_string(),
                };
                // From the number, Python chooses the subclass, such as FileNotFoundError.
                Err(PyOSError::new_err((number, text, name.clone())))
            }
        }
    }

    /// The file descriptor. It is closed when the last object that uses the file is dropped.
    fn fileno(&self) -> i32 {
        self.0.file.as_raw_fd()
    }
}

/// A file from Python.
#[derive(Debug, Clone)]
pub(crate) enum AnyFile {
    Local(Arc<Opened>),
    Readable(Arc<Py<PyAny>>),
}

/// The length of a local read. These bytes are still in the cache of a core when their checksum is computed.
const LOCAL_LENGTH: usize = 1 << 18;
/// The length of a remote read. It is large because each read is a request.
const REMOTE_LENGTH: usize = 2 << 20;

impl AnyFile {
    /// The length of reads of a whole file.
    pub(crate) fn read_length(&self) -> usize {
        match self {
            Self::Local(_) => LOCAL_LENGTH,
            Self::Readable(_) => REMOTE_LENGTH,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for AnyFile {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let local = object.getattr_opt(intern!(object.py(), "local"))?;
        Ok(match local {
            Some(file) if !file.is_none() => Self::Local(file.cast::<LocalFile>()?.get().0.clone()),
            _ => Self::Readable(Arc::new(object.to_owned().unbind())),
        })
    }
}

impl ReadAt for AnyFile {
    type Error = PyErr;

    fn size(&self) -> PyResult<u64> {
        match self {
            Self::Local(local) => Ok(local.file.metadata()?.len()),
            Self::Readable(file) => {
                Python::attach(|py| file.call_method0(py, intern!(py, "size"))?.extract(py))
            }
        }
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> PyResult<usize> {
        match self {
            Self::Local(local) => (local.file.read_at(position, buffer))
                .map_err(|error| read_error(&error, &local.path, position)),
            Self::Readable(file) => Python::attach(|py| {
                let read = file.call_method1(py, intern!(py, "read"), (position, buffer.len()))?;
                let bytes = read.bind(py).cast::<PyBytes>()?.as_bytes();
                let count = bytes.len().min(buffer.len());
                for (into, from) in buffer.iter_mut().zip(bytes) {
                    *into = *from;
                }
                Ok(count)
            }),
        }
    }
}

/// Returns the error of a read that the disk or the file system refused, with the file and the position.
fn read_error(error: &std::io::Error, path: &Path, position: u64) -> PyErr {
    Python::attach(|py| {
        let built = py
            .import(intern!(py, "brokerless.errors"))
            .and_then(|errors| errors.getattr(intern!(py, "read_error")))
            .and_then(|build| build.call1((error.raw_os_error(), path, position)));
        built.map_or_else(|failed| failed, PyErr::from_value)
    })
}
