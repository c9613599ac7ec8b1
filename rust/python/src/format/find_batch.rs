//! `find_batch`: searches for the next batch after damage.

use pyo3::prelude::*;

use crate::base::buffer::Bytes;

/// Position and size.
type Place = Option<(u64, usize)>;

#[pyfunction]
pub(crate) fn find_batch(
    py: Python<'_>,
    data: Bytes,
    position: u64,
    end: u64,
    next_offset: i64,
    limit: i64,
) -> Place {
    let offsets = next_offset..limit;
    py.detach(|| brokerless_core::find_batch(data.as_slice(), position, end, &offsets))
        .map(|header| (header.position, header.size()))
}
