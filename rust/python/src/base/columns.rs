//! Arrow columns of many types, read as the fields of records.

use arrow_array::{Array as _, BinaryArray};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer, ToByteSlice};
use brokerless_core::{Error, HeadersBuffer, PlainColumn, PlainHeaders};
use pyo3::intern;
use pyo3::prelude::*;

use crate::base::borrowed_array::{Array, DICTIONARY, INDICES, Nulls};
use crate::base::buffer::{self, Pyarrow};
use crate::base::error::exception;

type Result<T> = std::result::Result<T, Error>;

/// The wanted columns of a record batch.
pub(crate) struct Columns {
    arrays: Vec<(&'static str, Array)>,
    /// The number of rows in each column.
    pub(crate) rows: usize,
}

impl Columns {
    /// Borrows the first column of each name; missing ones are left out.
    pub(crate) fn new(batch: &Bound<'_, PyAny>, asked: &[&'static str]) -> PyResult<Self> {
        let py = batch.py();
        buffer::check_class(batch, &Pyarrow::get(py)?.record_batch)?;
        let schema = batch.getattr(intern!(py, "schema"))?;
        let names: Vec<String> = schema.getattr(intern!(py, "names"))?.extract()?;
        let rows = batch.getattr(intern!(py, "num_rows"))?.extract()?;
        let mut there = Vec::new();
        let mut columns = Vec::new();
        for name in asked {
            if let Some(index) = names.iter().position(|found| found == name) {
                columns.push(batch.call_method1(intern!(py, "column"), (index,))?);
                there.push(*name);
            }
        }
        let arrays: Vec<_> = there.into_iter().zip(Array::import(py, columns)?).collect();
        for (name, array) in &arrays {
            if array.rows.len() != rows {
                let found = array.rows.len();
                let message = format!("column {name} has {found} rows, not {rows}");
                return Err(exception(Error::invalid(message)));
            }
        }
        Ok(Self { arrays, rows })
    }

    /// Returns a column, if it exists.
    pub(crate) fn get(&self, name: &str) -> Option<&Array> {
        let mut named = self.arrays.iter().filter(|(found, _)| *found == name);
        named.next().map(|(_, array)| array)
    }

    /// Returns a column, unless it has the type null.
    pub(crate) fn typed(&self, name: &str) -> Option<&Array> {
        self.get(name).filter(|array| array.type_name != "null")
    }

    /// Returns a column of whole numbers, if it exists.
    pub(crate) fn numbers<T: ArrowNativeType>(
        &self,
        name: &str,
        wanted: &str,
    ) -> PyResult<Option<NumbersColumn<T>>> {
        let array = self.get(name);
        array.map_or(Ok(None), |array| NumbersColumn::named(name, array, wanted))
    }
}

fn unfit(name: &str, array: &Array, wanted: &str) -> Error {
    Error::invalid(format!(
        "column {name} has type {}, expected {wanted}: cast it first",
        array.type_name
    ))
}

/// A column with the keys or values of records, or of their headers.
pub(crate) struct BytesColumn {
    name: String,
    rows: usize,
    nulls: Nulls,
    places: Places,
}

/// The positions of the bytes of each row.
enum Places {
    /// Every row is null.
    Absent,
    /// The bytes of a row lie between its offset and the next offset.
    Small(ScalarBuffer<i32>, Buffer),
    Large(ScalarBuffer<i64>, Buffer),
    /// The bytes of a row lie in its view, or in the buffer to which the view points.
    Views(ScalarBuffer<u128>, Vec<Buffer>),
    /// The bytes of all rows are consecutive, and have the same size.
    Fixed(usize, Buffer),
    /// The bytes of a row are in another column, at the index that the row gives.
    Dictionary(Integers, Box<BytesColumn>),
}

impl BytesColumn {
    pub(crate) fn new(name: &str, array: Option<&Array>) -> PyResult<Self> {
        let mut column = Self {
            name: name.to_owned(),
            rows: array.map_or(0, |array| array.rows.len()),
            nulls: Nulls::default(),
            places: Places::Absent,
        };
        let Some(array) = array else {
            return Ok(column);
        };
        let places = match array.type_name.as_str() {
            "binary" | "string" => Places::Small(array.numbers(1, 1)?, array.bytes(2)),
            "large_binary" | "large_string" => Places::Large(array.numbers(1, 1)?, array.bytes(2)),
            "binary_view" | "string_view" => {
                Places::Views(array.numbers(1, 0)?, array.bytes_behind(1))
            }
            "null" => Places::Absent,
            type_name => match (array.field(INDICES), array.field(DICTIONARY)) {
                // Nothing creates a dictionary of dictionaries, and it could nest without end.
                (Some(indices), Some(values)) if values.field(DICTIONARY).is_none() => {
                    let values = Self::new(name, Some(values))?;
                    column.nulls = indices.nulls()?;
                    column.places =
                        Places::Dictionary(Integers::new(name, indices)?, Box::new(values));
                    return Ok(column);
                }
                _ => match fixed_size(type_name) {
                    Some(size) => Places::Fixed(size, array.fixed(size)?),
                    None => return Err(exception(unfit(name, array, "binary or string"))),
                },
            },
        };
        let nulls = array.nulls()?;
        if nulls.count < array.rows.len() {
            (column.nulls, column.places) = (nulls, places);
        }
        Ok(column)
    }

    /// Returns true if every field is null.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.places, Places::Absent)
    }

    /// Returns an Arrow array of the fields without a copy, if they have 32-bit offsets and lie in their memory.
    pub(crate) fn array(&self) -> Option<BinaryArray> {
        let Places::Small(offsets, data) = &self.places else {
            return None;
        };
        let nulls = self.nulls.buffer(self.rows);
        BinaryArray::try_new(ascending(offsets)?, data.clone(), nulls).ok()
    }

    /// Returns the column as the encoder's fast path needs it: with 32-bit offsets and without nulls.
    pub(crate) fn plain(&self) -> Option<PlainColumn<'_>> {
        match &self.places {
            Places::Small(offsets, data) if !self.nulls.any() => {
                Some(PlainColumn { offsets, data })
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<Option<&[u8]>> {
        if self.nulls.has(row) {
            return Ok(None);
        }
        let found = match &self.places {
            Places::Absent => return Ok(None),
            Places::Small(offsets, data) => between(offsets, data, row),
            Places::Large(offsets, data) => between(offsets, data, row),
            Places::Views(views, data) => viewed(views, data, row),
            Places::Fixed(size, data) => sized(data, *size, row),
            Places::Dictionary(indices, values) => {
                // An index beyond the last value of a dictionary is damage, not a null.
                let index = indices.get(row).filter(|&index| index < values.rows as i64);
                match index.and_then(|index| usize::try_from(index).ok()) {
                    Some(index) => return values.get(index),
                    None => None,
                }
            }
        };
        match found {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(damaged(&self.name)),
        }
    }
}

#[cold]
fn damaged(name: &str) -> Error {
    Error::invalid(format!(
        "column {name} is damaged: a value is outside its memory"
    ))
}

fn between<'a, T: Copy + TryInto<usize>>(
    offsets: &[T],
    data: &'a [u8],
    row: usize,
) -> Option<&'a [u8]> {
    data.get(range(offsets, row)?)
}

/// Converts offsets for an Arrow array: none is negative, and they do not descend.
fn ascending(offsets: &ScalarBuffer<i32>) -> Option<OffsetBuffer<i32>> {
    let is_ascending = *offsets.first()? >= 0 && offsets.is_sorted();
    is_ascending.then(|| OffsetBuffer::new(offsets.clone()))
}

/// The size of each value, if the type has a fixed one.
fn fixed_size(type_name: &str) -> Option<usize> {
    let size = type_name.strip_prefix("fixed_size_binary[")?;
    size.strip_suffix(']')?.parse().ok()
}

fn sized(data: &[u8], size: usize, row: usize) -> Option<&[u8]> {
    data.get(row.checked_mul(size)?..)?.get(..size)
}

/// Returns the bytes of a view. It is a length followed by up to twelve bytes; or by four bytes, the buffer, and the
/// position in it.
fn viewed<'a>(views: &'a [u128], data: &'a [Buffer], row: usize) -> Option<&'a [u8]> {
    let view = views.get(row)?;
    let length = *view as u32 as usize;
    if length <= 12 {
        return view.to_byte_slice().get(4..4 + length);
    }
    let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
    data.get(buffer)?.get(start..)?.get(..length)
}

/// A column of header lists.
pub(crate) struct HeadersColumn {
    nulls: Nulls,
    offsets: Offsets,
    entries: Nulls,
    keys: BytesColumn,
    values: BytesColumn,
}

/// The positions of the headers of each row among all headers: between one offset and the next.
enum Offsets {
    Small(ScalarBuffer<i32>),
    Large(ScalarBuffer<i64>),
    /// For each row, an offset, and the number of headers from this offset on.
    Views(ScalarBuffer<i32>, ScalarBuffer<i32>),
    LargeViews(ScalarBuffer<i64>, ScalarBuffer<i64>),
}

impl HeadersColumn {
    pub(crate) fn new(array: &Array) -> PyResult<Self> {
        const WANTED: &str = "list<struct<key: string, value: binary>>";
        let unfit = || exception(unfit("headers", array, WANTED));
        let offsets = match array.type_name.split_once('<') {
            Some(("list" | "map", _)) => Offsets::Small(array.numbers(1, 1)?),
            Some(("large_list", _)) => Offsets::Large(array.numbers(1, 1)?),
            Some(("list_view", _)) => Offsets::Views(array.numbers(1, 0)?, array.numbers(2, 0)?),
            Some(("large_list_view", _)) => {
                Offsets::LargeViews(array.numbers(1, 0)?, array.numbers(2, 0)?)
            }
            _ => return Err(unfit()),
        };
        let entries = array.values().ok_or_else(unfit)?;
        let field = |name| {
            let field = entries.field(name).ok_or_else(unfit)?;
            BytesColumn::new(&format!("headers.{name}"), Some(field))
        };
        Ok(Self {
            nulls: array.nulls()?,
            offsets,
            keys: field("key")?,
            values: field("value")?,
            entries: entries.nulls()?,
        })
    }

    /// Returns true if no row has headers.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.offsets {
            Offsets::Small(offsets) => offsets.windows(2).all(|pair| pair.first() == pair.last()),
            _ => false,
        }
    }

    /// Returns the column as the encoder's fast path needs it: with 32-bit offsets and without nulls.
    pub(crate) fn plain(&self) -> Option<PlainHeaders<'_>> {
        match &self.offsets {
            Offsets::Small(offsets) if !self.nulls.any() && !self.entries.any() => {
                Some(PlainHeaders {
                    offsets,
                    keys: self.keys.plain()?,
                    values: self.values.plain()?,
                })
            }
            _ => None,
        }
    }

    /// Returns list offsets, keys and values as Arrow arrays without a copy, if no header or key is null, offsets have
    /// 32 bits, and all lie in their memory.
    pub(crate) fn arrays(&self) -> Option<(OffsetBuffer<i32>, BinaryArray, BinaryArray)> {
        let Offsets::Small(offsets) = &self.offsets else {
            return None;
        };
        if self.nulls.any() || self.entries.any() || self.keys.nulls.any() {
            return None;
        }
        let (keys, values) = (self.keys.array()?, self.values.array()?);
        let entries = keys.len().min(values.len());
        let is_there = usize::try_from(*offsets.last()?).is_ok_and(|end| end <= entries);
        is_there.then_some((
            ascending(offsets)?,
            keys.slice(0, entries),
            values.slice(0, entries),
        ))
    }

    /// Puts the headers of a row into `headers`. A null list has none.
    pub(crate) fn get(&self, row: usize, headers: &mut HeadersBuffer) -> Result<()> {
        headers.clear();
        self.each(row, |key, value| headers.push(key, value))
    }

    /// Calls `take` with each header of a row, in order.
    pub(crate) fn each(
        &self,
        row: usize,
        mut take: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        if self.nulls.has(row) {
            return Ok(());
        }
        let entries = match &self.offsets {
            Offsets::Small(offsets) => range(offsets, row),
            Offsets::Large(offsets) => range(offsets, row),
            Offsets::Views(offsets, sizes) => span(offsets, sizes, row),
            Offsets::LargeViews(offsets, sizes) => span(offsets, sizes, row),
        };
        for entry in entries.ok_or_else(|| damaged("headers"))? {
            if self.entries.has(entry) {
                return Err(Error::invalid("a header is null"));
            }
            let key = self.keys.get(entry)?;
            let key = key.ok_or_else(|| Error::invalid("a header's key is null"))?;
            take(key, self.values.get(entry)?)?;
        }
        Ok(())
    }
}

/// Puts the value of the last header with a name into `header`. Returns false if it is null or absent.
pub(crate) fn last_header(
    headers: &HeadersColumn,
    row: usize,
    name: &str,
    header: &mut Vec<u8>,
) -> Result<bool> {
    let mut is_there = false;
    headers.each(row, |key, value| {
        if key == name.as_bytes() {
            header.clear();
            header.extend_from_slice(value.unwrap_or_default());
            is_there = value.is_some();
        }
        Ok(())
    })?;
    Ok(is_there)
}

/// The range from a row's offset to the next one.
fn range<T: Copy + TryInto<usize>>(offsets: &[T], row: usize) -> Option<std::ops::Range<usize>> {
    let &[start, end] = offsets.get(row..)?.first_chunk()?;
    Some(start.try_into().ok()?..end.try_into().ok()?)
}

/// The range from a row's offset on, with the row's size.
fn span<T: Copy + TryInto<usize>>(
    offsets: &[T],
    sizes: &[T],
    row: usize,
) -> Option<std::ops::Range<usize>> {
    let start: usize = (*offsets.get(row)?).try_into().ok()?;
    Some(start..start.checked_add((*sizes.get(row)?).try_into().ok()?)?)
}

/// A column of integers of any width.
pub(crate) struct Integers {
    nulls: Nulls,
    values: Widths,
}

enum Widths {
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
}

impl Integers {
    pub(crate) fn new(name: &str, array: &Array) -> PyResult<Self> {
        let values = match array.type_name.as_str() {
            "int8" => Widths::Int8(array.numbers(1, 0)?),
            "int16" => Widths::Int16(array.numbers(1, 0)?),
            "int32" => Widths::Int32(array.numbers(1, 0)?),
            "int64" => Widths::Int64(array.numbers(1, 0)?),
            "uint8" => Widths::UInt8(array.numbers(1, 0)?),
            "uint16" => Widths::UInt16(array.numbers(1, 0)?),
            "uint32" => Widths::UInt32(array.numbers(1, 0)?),
            "uint64" => Widths::UInt64(array.numbers(1, 0)?),
            _ => return Err(exception(unfit(name, array, "an integer"))),
        };
        Ok(Self {
            nulls: array.nulls()?,
            values,
        })
    }

    /// Returns an integer; None for null. An integer beyond 64 bits becomes the largest 64-bit integer, which no field
    /// accepts.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        if self.nulls.has(row) {
            return None;
        }
        match &self.values {
            Widths::Int8(values) => values.get(row).map(|&value| value.into()),
            Widths::Int16(values) => values.get(row).map(|&value| value.into()),
            Widths::Int32(values) => values.get(row).map(|&value| value.into()),
            Widths::Int64(values) => values.get(row).copied(),
            Widths::UInt8(values) => values.get(row).map(|&value| value.into()),
            Widths::UInt16(values) => values.get(row).map(|&value| value.into()),
            Widths::UInt32(values) => values.get(row).map(|&value| value.into()),
            Widths::UInt64(values) => values
                .get(row)
                .map(|&value| i64::try_from(value).unwrap_or(i64::MAX)),
        }
    }
}

/// A column of integers of one type.
pub(crate) struct NumbersColumn<T: ArrowNativeType> {
    nulls: Nulls,
    values: ScalarBuffer<T>,
}

impl<T: ArrowNativeType> NumbersColumn<T> {
    /// The numbers of a column; None if it has the type null.
    pub(crate) fn named(name: &str, array: &Array, wanted: &str) -> PyResult<Option<Self>> {
        match array.type_name.as_str() {
            "null" => Ok(None),
            found if found == wanted => Self::new(array).map(Some),
            _ => Err(exception(unfit(name, array, wanted))),
        }
    }

    fn new(array: &Array) -> PyResult<Self> {
        Ok(Self {
            nulls: array.nulls()?,
            values: array.numbers(1, 0)?,
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        if self.nulls.has(row) {
            return None;
        }
        self.values.get(row).copied()
    }
}

/// A column of timestamps, which are converted to milliseconds.
pub(crate) struct TimeColumn {
    times: NumbersColumn<i64>,
    unit: Unit,
}

enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl TimeColumn {
    pub(crate) fn new(name: &str, array: &Array) -> PyResult<Self> {
        let unit = match array.type_name.split([',', ']']).next() {
            Some("timestamp[s") => Unit::Seconds,
            Some("timestamp[ms" | "int64") => Unit::Millis,
            Some("timestamp[us") => Unit::Micros,
            Some("timestamp[ns") => Unit::Nanos,
            _ => {
                return Err(exception(unfit(
                    name,
                    array,
                    "timestamp or int64 of milliseconds",
                )));
            }
        };
        Ok(Self {
            times: NumbersColumn::new(array)?,
            unit,
        })
    }

    /// Returns the milliseconds of all rows, if the column has that unit and no nulls.
    pub(crate) fn plain(&self) -> Option<&[i64]> {
        let is_plain = matches!(self.unit, Unit::Millis) && !self.times.nulls.any();
        is_plain.then_some(&self.times.values)
    }

    #[inline]
    pub(crate) fn millis(&self, row: usize) -> Result<Option<i64>> {
        let Some(time) = self.times.get(row) else {
            return Ok(None);
        };
        Ok(Some(match self.unit {
            Unit::Seconds => of_seconds(time)?,
            Unit::Millis => time,
            Unit::Micros => whole(time, 1_000)?,
            Unit::Nanos => whole(time, 1_000_000)?,
        }))
    }
}

fn of_seconds(seconds: i64) -> Result<i64> {
    seconds
        .checked_mul(1000)
        .ok_or_else(|| Error::invalid(format!("timestamp of {seconds} seconds overflows")))
}

/// Converts to milliseconds, rounded down. A time before 1970 must not become -1, which means no timestamp.
#[inline]
fn whole(time: i64, unit: i64) -> Result<i64> {
    let millis = time.div_euclid(unit);
    if millis < 0 && time % unit != 0 {
        return Err(Error::invalid(format!(
            "timestamp {} ms is before 1970",
            time as f64 / unit as f64
        )));
    }
    Ok(millis)
}
