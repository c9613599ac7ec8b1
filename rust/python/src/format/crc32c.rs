//! `crc32c`: the checksum of batches of magic 2.

use pyo3::prelude::*;

use crate::base::buffer::Bytes;

#[pyfunction]
pub(crate) fn crc32c(py: Python<'_>, data: Bytes) -> u32 {
    py.detach(|| brokerless_core::crc32c(data.as_slice()))
}
