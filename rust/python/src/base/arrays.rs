//! Arrow arrays over the core's columns, without a copy.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StringArray, StructArray, UInt8Array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use brokerless_core::{BinaryColumn, BinaryParts, HeadersColumn};
use pyo3::intern;
use pyo3::prelude::*;

type Result<T> = std::result::Result<T, ArrowError>;

/// Memory for byte columns. It returns here when the last Arrow array over it is dropped.
///
/// Fresh memory causes a page fault for every 4 KiB, which takes longer than decoding into it.
static BLOCKS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The maximum number of blocks that are kept. A reader that passes each batch on needs two for each of keys, values,
/// header keys and header values.
const KEPT_BLOCKS: usize = 16;
/// A block above this size is freed, so that one outsized batch does not keep its memory forever.
const KEPT_BLOCK_BYTES: usize = 8 << 20;

/// Up to this size, the allocator reuses memory itself.
const SMALL_BYTES: usize = 64 << 10;

fn is_much_larger(block: &Vec<u8>, bytes: usize) -> bool {
    bytes < block.capacity() / 4
}

/// Takes the smallest kept block that can hold `bytes`; if all are smaller, the largest.
pub(crate) fn lend(bytes: usize) -> Vec<u8> {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let best = blocks.iter().enumerate().min_by_key(|(_, block)| {
        let capacity = block.capacity();
        if capacity >= bytes {
            (0, capacity)
        } else {
            (1, usize::MAX - capacity)
        }
    });
    match best.map(|(index, _)| index) {
        Some(index) => blocks.swap_remove(index),
        None => Vec::new(),
    }
}

fn give_back(mut block: Vec<u8>) {
    block.clear();
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if blocks.len() < KEPT_BLOCKS && block.capacity() <= KEPT_BLOCK_BYTES {
        blocks.push(block);
    }
}

/// A lent block, which owns the memory of an Arrow buffer.
struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

/// Takes all values of `column`, which then continues in other memory.
pub(crate) fn binary_array(column: &mut BinaryColumn) -> Result<BinaryArray> {
    // The next batch will need about as much.
    let spare = lend(column.bytes());
    binary(column.take(spare))
}

fn binary(parts: BinaryParts) -> Result<BinaryArray> {
    BinaryArray::try_new(
        offsets(parts.offsets),
        bytes(parts.data),
        parts.nulls.map(not_null),
    )
}

fn bytes(data: Vec<u8>) -> Buffer {
    if !is_much_larger(&data, data.len()) {
        return Buffer::from(bytes::Bytes::from_owner(Lent(data)));
    }
    // A few bytes would prevent the reuse of a large block, so they are copied.
    let copy = if data.len() < SMALL_BYTES {
        Buffer::from_slice_ref(data.as_slice())
    } else {
        let mut block = lend(data.len());
        if is_much_larger(&block, data.len()) {
            give_back(block);
            block = Vec::with_capacity(data.len());
        }
        block.extend_from_slice(&data);
        Buffer::from(bytes::Bytes::from_owner(Lent(block)))
    };
    give_back(data);
    copy
}

/// Converts bytes to a `pyarrow.Buffer` without a copy.
pub(crate) fn buffer(py: Python<'_>, data: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
    let length = data.len();
    let values = ScalarBuffer::new(bytes(data), 0, length);
    let buffers = UInt8Array::new(values, None)
        .to_data()
        .to_pyarrow(py)?
        .call_method0(intern!(py, "buffers"))?;
    buffers.get_item(1)
}

/// The type of the headers column in Spark's Kafka source.
pub(crate) fn headers_type() -> DataType {
    DataType::List(Arc::new(Field::new(
        "element",
        DataType::Struct(header_fields()),
        true,
    )))
}

pub(crate) fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

/// Takes all headers of `column`. Rows without headers have an empty list, or null with `null_when_empty`.
pub(crate) fn headers_array(
    column: &mut HeadersColumn,
    null_when_empty: bool,
) -> Result<ListArray> {
    let (key_bytes, value_bytes) = column.bytes();
    let (ends, keys, values) = column.take((lend(key_bytes), lend(value_bytes)));
    let nulls = null_when_empty.then(|| {
        ends.windows(2)
            .map(|pair| pair.first() == pair.last())
            .collect()
    });
    let keys = StringArray::try_new(offsets(keys.offsets), bytes(keys.data), None)?;
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(binary(values)?)];
    let headers = StructArray::try_new(header_fields(), columns, None)?;
    let element = Arc::new(Field::new(
        "element",
        DataType::Struct(header_fields()),
        true,
    ));
    ListArray::try_new(
        element,
        offsets(ends),
        Arc::new(headers),
        nulls.map(not_null),
    )
}

fn offsets(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

fn not_null(nulls: Vec<bool>) -> NullBuffer {
    NullBuffer::from_iter(nulls.into_iter().map(|is_null| !is_null))
}
