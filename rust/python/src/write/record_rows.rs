//! `RecordRows`: converts rows of many Arrow types to batches of one schema, from which records are encoded.
//!
//! A file's arrays are checked here, before other code trusts them, and values that no record can have are refused.
//! Columns of the right type are not copied. Other columns are converted in pieces, because a dictionary or views may
//! represent far more bytes than they take.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use brokerless_core::{Error, TimestampType, check_header_count, check_timestamp};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::{BytesColumn, Columns, HeadersColumn, Integers, TimeColumn};
use crate::base::error::{OrRaise as _, exception};
use crate::read::hand_over::HandOver;
use crate::read::rows::TIMESTAMP_TYPE;

type Result<T> = std::result::Result<T, Error>;

/// A piece ends after the row with which it has this many bytes or rows.
const PIECE_BYTES: usize = 32 << 20;
const PIECE_ROWS: usize = 1 << 20;

/// If all shared columns have fewer bytes, rows are not measured one by one.
const MEASURED_BYTES: usize = 1 << 30;

const ASKED: [&str; 5] = ["key", "value", "headers", "timestamp", "partition"];
const PLACES: [&str; 3] = ["offset", "leaderEpoch", TIMESTAMP_TYPE];

#[pyclass(module = "brokerless._native")]
pub(crate) struct RecordRows {
    columns: Vec<Column>,
    schema: SchemaRef,
    hand_over: HandOver,
    rows: usize,
    next: usize,
    /// True if rows are measured and divided into pieces.
    is_cut: bool,
}

/// A column, and its Arrow array if that can be passed on without a copy.
enum Column {
    Bytes(BytesColumn, Option<BinaryArray>),
    Headers(Box<HeadersColumn>, Option<ListArray>),
    /// Topic names.
    Text(BytesColumn),
    Numbers(ArrayRef),
}

#[pymethods]
impl RecordRows {
    #[new]
    #[pyo3(signature = (rows, *, magic=2, keep_offsets=false, topic=false))]
    fn new(
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        magic: i8,
        keep_offsets: bool,
        topic: bool,
    ) -> PyResult<Self> {
        let mut asked = ASKED.to_vec();
        if keep_offsets {
            asked.extend(PLACES);
        }
        if topic {
            asked.push("topic");
        }
        let found = Columns::new(rows, &asked)?;
        let is_lacking = |name| found.get(name).is_none();
        for (name, reason) in [("value", ""), ("offset", ", which must be kept")] {
            if asked.contains(&name) && is_lacking(name) {
                let error = Error::invalid(format!("there is no column {name}{reason}"));
                return Err(exception(error));
            }
        }
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for name in asked {
            let array = match name {
                // In `value`, nulls without a type are tombstones. In the others, they are missing values.
                "value" | "offset" | "topic" => found.get(name),
                _ => found.typed(name),
            };
            let Some(array) = array else {
                continue;
            };
            let (data_type, column) = Column::new(py, name, array, found.rows, magic)?;
            columns.push(column);
            fields.push(Field::new(name, data_type, true));
        }
        let shared: usize = columns.iter().map(Column::shared_bytes).sum();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self {
            is_cut: shared > MEASURED_BYTES || columns.iter().any(Column::is_copied),
            hand_over: HandOver::new(py, &schema)?,
            rows: found.rows,
            columns,
            schema,
            next: 0,
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.next >= self.rows {
            return Ok(None);
        }
        let batch = py
            .detach(|| {
                let end = self.end()?;
                let start = std::mem::replace(&mut self.next, end);
                self.piece(start, end)
            })
            .or_raise()?;
        self.hand_over.rows(py, batch).map(Some)
    }
}

impl RecordRows {
    /// Returns the end of the next piece.
    fn end(&self) -> Result<usize> {
        if !self.is_cut {
            return Ok(self.rows);
        }
        let most = self.rows.min(self.next.saturating_add(PIECE_ROWS));
        let mut bytes = 0;
        for row in self.next..most {
            let mut size = 0;
            for column in &self.columns {
                size += column.size(row).map_err(|error| numbered(error, row))?;
            }
            check_size(size).map_err(|error| numbered(error, row))?;
            if row > self.next && bytes + size > PIECE_BYTES {
                return Ok(row);
            }
            bytes += size;
        }
        Ok(most)
    }

    fn piece(&self, start: usize, end: usize) -> Result<RecordBatch> {
        let arrays: Result<Vec<ArrayRef>> = self
            .columns
            .iter()
            .map(|column| column.array(start, end))
            .collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays?).map_err(unexpected)
    }
}

impl Column {
    /// Checks a column of `rows` rows; returns it with the type in which it is passed on.
    fn new(
        py: Python<'_>,
        name: &str,
        array: &Array,
        rows: usize,
        magic: i8,
    ) -> PyResult<(DataType, Self)> {
        match name {
            "key" | "value" => {
                let column = BytesColumn::new(name, Some(array))?;
                let shared = py.detach(|| column.array());
                Ok((DataType::Binary, Self::Bytes(column, shared)))
            }
            "topic" => {
                let column = BytesColumn::new(name, Some(array))?;
                Ok((DataType::Utf8, Self::Text(column)))
            }
            "headers" => {
                let column = HeadersColumn::new(array)?;
                let shared = py
                    .detach(|| match shared(&column) {
                        Some(shared) if magic == 2 => Ok(Some(shared)),
                        shared => check_headers(&column, rows, magic).map(|()| shared),
                    })
                    .or_raise()?;
                Ok((headers_type(), Self::Headers(Box::new(column), shared)))
            }
            _ => {
                let numbers = if name == "timestamp" {
                    let column = TimeColumn::new(name, array)?;
                    py.detach(|| times(&column, rows))
                } else if array.type_name == "null" {
                    Err(numbered(Error::invalid(format!("{name} is null")), 0))
                } else {
                    let column = Integers::new(name, array)?;
                    py.detach(|| numbers(name, &column, rows, magic))
                };
                let numbers = numbers.or_raise()?;
                Ok((numbers.data_type().clone(), Self::Numbers(numbers)))
            }
        }
    }

    fn is_copied(&self) -> bool {
        matches!(
            self,
            Self::Bytes(_, None) | Self::Headers(_, None) | Self::Text(_)
        )
    }

    fn shared_bytes(&self) -> usize {
        let bytes = |array: &BinaryArray| {
            let ends = array.value_offsets();
            ends.last().zip(ends.first()).map_or(0, |(last, first)| {
                usize::try_from(last - first).unwrap_or_default()
            })
        };
        match self {
            Self::Bytes(_, Some(array)) => bytes(array),
            Self::Headers(_, Some(array)) => array
                .values()
                .as_any()
                .downcast_ref::<StructArray>()
                .into_iter()
                .flat_map(StructArray::columns)
                .filter_map(|column| column.as_any().downcast_ref::<BinaryArray>())
                .map(bytes)
                .sum(),
            _ => 0,
        }
    }

    /// The approximate size of one row's field.
    fn size(&self, row: usize) -> Result<usize> {
        match self {
            Self::Bytes(column, _) | Self::Text(column) => {
                Ok(column.get(row)?.map_or(0, <[u8]>::len))
            }
            Self::Headers(column, _) => {
                let mut size = 0;
                column.each(row, |key, value| {
                    size += key.len() + value.map_or(0, <[u8]>::len) + 16;
                    // Any number of views may refer to one value.
                    check_size(size)
                })?;
                Ok(size)
            }
            Self::Numbers(_) => Ok(0),
        }
    }

    /// Returns the rows from `start` to `end`.
    fn array(&self, start: usize, end: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::Numbers(array) => array.slice(start, end - start),
            Self::Bytes(_, Some(array)) => Arc::new(array.slice(start, end - start)),
            Self::Headers(_, Some(array)) => Arc::new(array.slice(start, end - start)),
            Self::Bytes(column, None) => {
                let mut copy = Copied::new();
                for row in start..end {
                    copy.push(column.get(row)?);
                }
                Arc::new(copy.finish()?)
            }
            Self::Text(column) => {
                let mut copy = Copied::new();
                for row in start..end {
                    copy.push(column.get(row)?);
                }
                let names = StringArray::try_from_binary(copy.finish()?);
                let names = names.map_err(|_| Error::invalid("a topic's name is not UTF-8"))?;
                Arc::new(names)
            }
            Self::Headers(column, None) => {
                let (mut ends, mut keys, mut values) = (vec![0], Copied::new(), Copied::new());
                for row in start..end {
                    column.each(row, |key, value| {
                        keys.push(Some(key));
                        values.push(value);
                        Ok(())
                    })?;
                    ends.push(keys.ends.len() as i32 - 1);
                }
                let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
                Arc::new(lists(ends, keys.finish()?, values.finish()?).map_err(unexpected)?)
            }
        })
    }
}

/// Copied bytes of a piece, or of one record. Their number fits 32 bits.
struct Copied {
    ends: Vec<i32>,
    data: Vec<u8>,
    is_there: Vec<bool>,
}

impl Copied {
    fn new() -> Self {
        Self {
            ends: vec![0],
            data: Vec::new(),
            is_there: Vec::new(),
        }
    }

    fn push(&mut self, field: Option<&[u8]>) {
        self.data.extend_from_slice(field.unwrap_or_default());
        self.ends.push(self.data.len() as i32);
        self.is_there.push(field.is_some());
    }

    fn finish(self) -> Result<BinaryArray> {
        let nulls = NullBuffer::new(BooleanBuffer::from(self.is_there));
        BinaryArray::try_new(
            OffsetBuffer::new(ScalarBuffer::from(self.ends)),
            Buffer::from_vec(self.data),
            (nulls.null_count() > 0).then_some(nulls),
        )
        .map_err(unexpected)
    }
}

fn header_fields() -> Fields {
    // Kafka accepts any bytes as a header's key.
    Fields::from(vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn headers_type() -> DataType {
    let header = Field::new("element", DataType::Struct(header_fields()), true);
    DataType::List(Arc::new(header))
}

fn shared(column: &HeadersColumn) -> Option<ListArray> {
    let (ends, keys, values) = column.arrays()?;
    lists(ends, keys, values).ok()
}

/// Returns lists of headers.
pub(crate) fn lists(
    ends: OffsetBuffer<i32>,
    keys: BinaryArray,
    values: BinaryArray,
) -> std::result::Result<ListArray, ArrowError> {
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
    let headers = StructArray::try_new(header_fields(), columns, None)?;
    let element = Field::new("element", DataType::Struct(header_fields()), true);
    ListArray::try_new(Arc::new(element), ends, Arc::new(headers), None)
}

/// Refuses headers that are null or damaged, or that the magic cannot store.
fn check_headers(column: &HeadersColumn, rows: usize, magic: i8) -> Result<()> {
    for row in 0..rows {
        let (mut count, mut size) = (0, 0);
        column
            .each(row, |key, value| {
                count += 1;
                size += key.len() + value.map_or(0, <[u8]>::len);
                check_size(size)
            })
            .and_then(|()| check_header_count(count, magic))
            .map_err(|error| numbered(error, row))?;
    }
    Ok(())
}

fn times(column: &TimeColumn, rows: usize) -> Result<ArrayRef> {
    let mut times = Vec::with_capacity(rows);
    for row in 0..rows {
        let time = column.millis(row).map_err(|error| numbered(error, row))?;
        check_timestamp(time.unwrap_or(-1)).map_err(|error| numbered(error, row))?;
        times.push(time);
    }
    Ok(Arc::new(
        TimestampMillisecondArray::from(times).with_timezone("UTC"),
    ))
}

fn numbers(name: &str, column: &Integers, rows: usize, magic: i8) -> Result<ArrayRef> {
    let least = match name {
        "partition" | "offset" => 0,
        _ => i64::from(i32::MIN),
    };
    let most = match name {
        "offset" => i64::MAX,
        _ => i64::from(i32::MAX),
    };
    let check = |number: Option<i64>| match number {
        None if name == "offset" => Err(Error::invalid("offset is null")),
        Some(number) if !(least..=most).contains(&number) => Err(Error::invalid(format!(
            "{name} is {number}, but must be from {least} to {most}"
        ))),
        Some(number) if name == TIMESTAMP_TYPE => {
            let id = i32::try_from(number).unwrap_or(i32::MAX);
            let found = TimestampType::from_id(id);
            found
                .ok_or_else(|| Error::invalid(format!("unknown timestamp type {id}")))?
                .check_magic(magic)
        }
        _ => Ok(()),
    };
    let mut numbers = Vec::with_capacity(rows);
    for row in 0..rows {
        let number = column.get(row);
        check(number).map_err(|error| numbered(error, row))?;
        numbers.push(number);
    }
    Ok(match name {
        "offset" => Arc::new(Int64Array::from(numbers)),
        _ => {
            let narrow = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
            Arc::new(Int32Array::from_iter(numbers.into_iter().map(narrow)))
        }
    })
}

fn check_size(bytes: usize) -> Result<()> {
    const MOST: usize = i32::MAX as usize;
    if bytes > MOST {
        return Err(Error::invalid(format!(
            "a record has {bytes} bytes or more; at most {MOST} are allowed"
        )));
    }
    Ok(())
}

#[cold]
fn numbered(mut error: Error, row: usize) -> Error {
    error.message = format!("row {row}: {}", error.message);
    error
}

#[cold]
fn unexpected(error: ArrowError) -> Error {
    Error::invalid(error.to_string())
}
