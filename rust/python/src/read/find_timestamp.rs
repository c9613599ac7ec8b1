//! `find_timestamp`: searches one segment for an offset by timestamp, as a broker does.

use brokerless_core::{DEFAULT_MAX_BATCH_BYTES, Decompressor, TimestampQuery};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

/// Timestamp, offset and leader epoch.
type Found = Option<(i64, i64, i32)>;

#[pyfunction]
#[pyo3(signature = (data, position, end, target, start_offset, exact=false))]
pub(crate) fn find_timestamp(
    py: Python<'_>,
    data: Bytes,
    position: u64,
    end: u64,
    target: i64,
    start_offset: i64,
    exact: bool,
) -> PyResult<(Found, u64)> {
    let target = TimestampQuery {
        timestamp: target,
        start_offset,
        exact,
    };
    let (found, wanted) = py
        .detach(|| {
            let mut decompressor = Decompressor::new(DEFAULT_MAX_BATCH_BYTES);
            brokerless_core::find_timestamp(
                data.as_slice(),
                position,
                end,
                target,
                &mut decompressor,
            )
        })
        .or_raise()?;
    Ok((
        found.map(|found| (found.timestamp, found.offset, found.leader_epoch)),
        wanted,
    ))
}
