//! Columns of the core as Arrow arrays, without a copy.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use brokerless_core::{BinaryColumn, BinaryParts, HeadersColumn};

type Result<T> = std::result::Result<T, ArrowError>;

/// Memory for byte columns, returned here when the last Arrow array over it is dropped.
///
/// Fresh memory costs a page fault for every 4 KiB, which is more than decoding into it.
static BLOCKS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// As many blocks are kept for later batches; a reader that hands each batch on needs four.
const KEPT_BLOCKS: usize = 8;
/// A larger block is given back to the system: one outsized batch must not be held for ever.
const KEPT_BLOCK_BYTES: usize = 8 << 20;

fn lend() -> Vec<u8> {
    BLOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop()
        .unwrap_or_default()
}

fn give_back(mut block: Vec<u8>) {
    block.clear();
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if blocks.len() < KEPT_BLOCKS && block.capacity() <= KEPT_BLOCK_BYTES {
        blocks.push(block);
    }
}

/// A block on loan, as the owner behind an Arrow buffer.
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

/// All that `column` holds, which goes on with other memory.
pub(crate) fn binary_array(column: &mut BinaryColumn) -> Result<BinaryArray> {
    let BinaryParts {
        offsets: ends,
        data,
        nulls,
    } = column.take(lend());
    // A large block under few bytes would be held for as long as they are: those few are copied instead.
    let data = if data.len() < data.capacity() / 4 {
        let copy = Buffer::from_slice_ref(data.as_slice());
        give_back(data);
        copy
    } else {
        Buffer::from(bytes::Bytes::from_owner(Lent(data)))
    };
    BinaryArray::try_new(offsets(ends), data, nulls.map(not_null))
}

/// The type of the headers column, as Spark's Kafka source has it.
pub(crate) fn headers_type() -> DataType {
    DataType::List(Arc::new(Field::new(
        "element",
        DataType::Struct(header_fields()),
        true,
    )))
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

/// All that `column` holds; rows without headers are empty lists, or null with `null_when_empty`.
pub(crate) fn headers_array(
    column: &mut HeadersColumn,
    null_when_empty: bool,
) -> Result<ListArray> {
    let (ends, keys, values) = column.take();
    let nulls = null_when_empty.then(|| {
        ends.windows(2)
            .map(|pair| pair.first() == pair.last())
            .collect()
    });
    let keys: ArrayRef = Arc::new(StringArray::try_new(
        offsets(keys.offsets),
        keys.data.into(),
        None,
    )?);
    let BinaryParts {
        offsets: value_offsets,
        data,
        nulls: value_nulls,
    } = values;
    let values = BinaryArray::try_new(
        offsets(value_offsets),
        data.into(),
        value_nulls.map(not_null),
    )?;
    let headers = StructArray::try_new(header_fields(), vec![keys, Arc::new(values)], None)?;
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
