//! `scan`: the header fields of whole batches as Arrow. No other code has this schema.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{DataType, Field, Schema};
use brokerless_core::{
    DEFAULT_MAX_BATCH_BYTES, Decompressor, Error, Header, NextBatch, first_offset, next_batch,
};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

struct Batch {
    header: Header,
    first_offset: Option<i64>,
    is_valid: Option<bool>,
}

#[pyfunction]
#[pyo3(signature = (data, position=0, check_crcs=false, max_batches=usize::MAX))]
pub(crate) fn scan<'py>(
    py: Python<'py>,
    data: Bytes,
    position: u64,
    check_crcs: bool,
    max_batches: usize,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let (batches, consumed) = py
        .detach(|| batches(data.as_slice(), position, check_crcs, max_batches))
        .or_raise()?;
    Ok((table(&batches, check_crcs).to_pyarrow(py)?, consumed))
}

#[pyfunction]
#[pyo3(signature = (check_crcs=false))]
pub(crate) fn batch_schema(py: Python<'_>, check_crcs: bool) -> PyResult<Bound<'_, PyAny>> {
    table(&[], check_crcs).schema().to_pyarrow(py)
}

fn batches(
    data: &[u8],
    position: u64,
    check_crcs: bool,
    most: usize,
) -> Result<(Vec<Batch>, usize), Error> {
    let mut decompressor = Decompressor::new(DEFAULT_MAX_BATCH_BYTES);
    let mut found = Vec::new();
    let mut consumed = 0;
    while found.len() < most {
        match next_batch(
            data.get(consumed..).unwrap_or_default(),
            position + consumed as u64,
        ) {
            Ok(NextBatch::Batch(header, entry)) => {
                found.push(Batch {
                    header,
                    first_offset: first_offset(&header, entry, &mut decompressor).ok(),
                    is_valid: check_crcs.then(|| header.check_crc(entry).is_ok()),
                });
                consumed += header.size();
            }
            Ok(NextBatch::NeedMore(_)) => return Ok((found, consumed)),
            Err(_) if consumed > 0 => return Ok((found, consumed)),
            Err(error) => return Err(error),
        }
    }
    Ok((found, consumed))
}

/// The values of Kafka's accessors: -1 for fields that magic 0 and 1 lack, null if no accessor has a value.
fn table(batches: &[Batch], check_crcs: bool) -> RecordBatch {
    fn column<A: FromIterator<Option<T>> + arrow_array::Array + 'static, T>(
        batches: &[Batch],
        value: impl Fn(&Batch) -> Option<T>,
    ) -> ArrayRef {
        Arc::new(batches.iter().map(value).collect::<A>())
    }
    type Columns = Vec<(&'static str, DataType, ArrayRef)>;
    let int8 =
        |value: fn(&Header) -> i8| column::<Int8Array, _>(batches, |b| Some(value(&b.header)));
    let int16 =
        |value: fn(&Header) -> i16| column::<Int16Array, _>(batches, |b| Some(value(&b.header)));
    let int32 =
        |value: fn(&Header) -> Option<i32>| column::<Int32Array, _>(batches, |b| value(&b.header));
    let int64 =
        |value: fn(&Header) -> Option<i64>| column::<Int64Array, _>(batches, |b| value(&b.header));
    let text = |value: fn(&Header) -> Option<&'static str>| {
        column::<StringArray, _>(batches, |b| value(&b.header))
    };
    let flag =
        |value: fn(&Header) -> bool| column::<BooleanArray, _>(batches, |b| Some(value(&b.header)));
    use DataType::{Boolean, Int8, Int16, Int32, Int64, Utf8};
    let mut columns: Columns = vec![
        ("position", Int64, int64(|h| i64::try_from(h.position).ok())),
        ("size", Int32, int32(|h| i32::try_from(h.size()).ok())),
        (
            "base_offset",
            Int64,
            column::<Int64Array, _>(batches, |b| b.first_offset),
        ),
        ("last_offset", Int64, int64(|h| Some(h.last_offset()))),
        ("batch_length", Int32, int32(|h| Some(h.batch_length))),
        (
            "partition_leader_epoch",
            Int32,
            int32(|h| Some(h.partition_leader_epoch)),
        ),
        ("magic", Int8, int8(|h| h.magic)),
        ("crc", Int64, int64(|h| Some(i64::from(h.crc)))),
        ("attributes", Int16, int16(|h| h.attributes)),
        (
            "compression",
            Utf8,
            text(|h| h.compression().ok().map(|codec| codec.name())),
        ),
        (
            "timestamp_type",
            Utf8,
            text(|h| Some(h.timestamp_type().name())),
        ),
        ("is_transactional", Boolean, flag(Header::is_transactional)),
        ("is_control", Boolean, flag(Header::is_control)),
        ("delete_horizon_ms", Int64, int64(Header::delete_horizon_ms)),
        (
            "last_offset_delta",
            Int32,
            int32(|h| (h.magic == 2).then_some(h.last_offset_delta)),
        ),
        (
            "base_timestamp",
            Int64,
            int64(|h| (h.magic == 2).then_some(h.base_timestamp)),
        ),
        ("max_timestamp", Int64, int64(|h| Some(h.max_timestamp))),
        ("producer_id", Int64, int64(|h| Some(h.producer_id))),
        ("producer_epoch", Int16, int16(|h| h.producer_epoch)),
        ("base_sequence", Int32, int32(|h| Some(h.base_sequence))),
        ("last_sequence", Int32, int32(|h| Some(h.last_sequence()))),
        ("records_count", Int32, int32(|h| h.records_count)),
    ];
    if check_crcs {
        columns.push((
            "is_valid",
            Boolean,
            column::<BooleanArray, _>(batches, |b| b.is_valid),
        ));
    }
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, data_type, _)| Field::new(*name, data_type.clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(Schema::empty())))
}
