//! Arrow columns as records' fields, whatever types of Arrow they come in.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, TimeUnit};
use brokerless_core::{Error, HeadersBuffer, PlainColumn, PlainHeaders};

type Result<T> = std::result::Result<T, Error>;

/// The column of this name; None where there is none, or only nulls of no type.
pub(crate) fn column<'a>(rows: &'a RecordBatch, name: &str) -> Option<&'a dyn Array> {
    let column = rows.column_by_name(name)?;
    (column.data_type() != &DataType::Null).then_some(column.as_ref())
}

fn unfit(name: &str, array: &dyn Array, wanted: &str) -> Error {
    Error::invalid(format!(
        "column {name} is {}; {wanted} is wanted",
        array.data_type()
    ))
}

/// Keys, values, and those of headers.
#[derive(Clone, Copy)]
pub(crate) enum BytesColumn<'a> {
    Absent,
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    String(&'a StringArray),
    LargeString(&'a LargeStringArray),
    StringView(&'a StringViewArray),
}

impl<'a> BytesColumn<'a> {
    pub(crate) fn new(name: &str, array: Option<&'a dyn Array>) -> Result<Self> {
        let Some(array) = array else {
            return Ok(Self::Absent);
        };
        let column = match array.data_type() {
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view()),
            DataType::Utf8 => Self::String(array.as_string()),
            DataType::LargeUtf8 => Self::LargeString(array.as_string()),
            DataType::Utf8View => Self::StringView(array.as_string_view()),
            DataType::Null => Self::Absent,
            _ => return Err(unfit(name, array, "binary or string")),
        };
        Ok(if array.null_count() == array.len() {
            Self::Absent
        } else {
            column
        })
    }

    /// The same, where no field is null and 32-bit offsets say where each lies.
    pub(crate) fn plain(&self) -> Option<PlainColumn<'a>> {
        let (offsets, data, nulls) = match self {
            Self::Binary(array) => (
                array.value_offsets(),
                array.value_data(),
                array.null_count(),
            ),
            Self::String(array) => (
                array.value_offsets(),
                array.value_data(),
                array.null_count(),
            ),
            _ => return None,
        };
        (nulls == 0).then_some(PlainColumn { offsets, data })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Absent => None,
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::BinaryView(array) => array.is_valid(row).then(|| array.value(row)),
            Self::String(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::LargeString(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::StringView(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
        }
    }
}

/// Lists of headers.
pub(crate) struct HeadersColumn<'a> {
    list: &'a dyn Array,
    offsets: Offsets<'a>,
    entries: &'a StructArray,
    keys: BytesColumn<'a>,
    values: BytesColumn<'a>,
}

enum Offsets<'a> {
    Small(&'a OffsetBuffer<i32>),
    Large(&'a OffsetBuffer<i64>),
}

impl<'a> HeadersColumn<'a> {
    pub(crate) fn new(array: &'a dyn Array) -> Result<Self> {
        const WANTED: &str = "list<struct<key: string, value: binary>>";
        let unfit = || unfit("headers", array, WANTED);
        let (offsets, entries) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Offsets::Small(list.offsets()), list.values())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Offsets::Large(list.offsets()), list.values())
            }
            _ => return Err(unfit()),
        };
        let entries = entries.as_struct_opt().ok_or_else(unfit)?;
        let field = |name| {
            let array = entries.column_by_name(name).ok_or_else(unfit)?;
            BytesColumn::new(&format!("headers.{name}"), Some(array.as_ref()))
        };
        Ok(Self {
            list: array,
            offsets,
            entries,
            keys: field("key")?,
            values: field("value")?,
        })
    }

    /// No row has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The same, where nothing is null and 32-bit offsets say where each lies.
    pub(crate) fn plain(&self) -> Option<PlainHeaders<'a>> {
        let Offsets::Small(offsets) = &self.offsets else {
            return None;
        };
        if self.list.null_count() + self.entries.null_count() > 0 {
            return None;
        }
        Some(PlainHeaders {
            offsets,
            keys: self.keys.plain()?,
            values: self.values.plain()?,
        })
    }

    /// The headers of this row; a null list has none.
    pub(crate) fn get(&self, row: usize, headers: &mut HeadersBuffer) -> Result<()> {
        headers.clear();
        if self.list.is_null(row) {
            return Ok(());
        }
        for entry in self.offsets.range(row) {
            if self.entries.is_null(entry) {
                return Err(Error::invalid("a header is null"));
            }
            let key = self
                .keys
                .get(entry)
                .ok_or_else(|| Error::invalid("a header's key is null"))?;
            headers.push(key, self.values.get(entry))?;
        }
        Ok(())
    }
}

impl Offsets<'_> {
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let at = |row| match self {
            Self::Small(offsets) => offsets.get(row).map_or(0, |&offset| offset as usize),
            Self::Large(offsets) => offsets.get(row).map_or(0, |&offset| offset as usize),
        };
        at(row)..at(row + 1)
    }
}

/// Times, of which milliseconds are wanted.
pub(crate) enum TimeColumn<'a> {
    Seconds(&'a PrimitiveArray<TimestampSecondType>),
    Millis(&'a PrimitiveArray<TimestampMillisecondType>),
    Micros(&'a PrimitiveArray<TimestampMicrosecondType>),
    Nanos(&'a PrimitiveArray<TimestampNanosecondType>),
    Plain(&'a PrimitiveArray<Int64Type>),
}

impl<'a> TimeColumn<'a> {
    pub(crate) fn new(name: &str, array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => Self::Seconds(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Self::Millis(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Micros(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Self::Nanos(array.as_primitive()),
            DataType::Int64 => Self::Plain(array.as_primitive()),
            _ => return Err(unfit(name, array, "timestamp or int64 of milliseconds")),
        })
    }

    /// The milliseconds of all rows, if that is what there is, and none is null.
    pub(crate) fn plain(&self) -> Option<&'a [i64]> {
        match self {
            Self::Millis(array) if array.null_count() == 0 => Some(array.values()),
            Self::Plain(array) if array.null_count() == 0 => Some(array.values()),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn millis(&self, row: usize) -> Result<Option<i64>> {
        Ok(match self {
            Self::Seconds(array) if array.is_valid(row) => Some(of_seconds(array.value(row))?),
            Self::Millis(array) if array.is_valid(row) => Some(array.value(row)),
            Self::Micros(array) if array.is_valid(row) => Some(whole(array.value(row), 1_000)?),
            Self::Nanos(array) if array.is_valid(row) => Some(whole(array.value(row), 1_000_000)?),
            Self::Plain(array) if array.is_valid(row) => Some(array.value(row)),
            _ => None,
        })
    }
}

fn of_seconds(seconds: i64) -> Result<i64> {
    seconds
        .checked_mul(1000)
        .ok_or_else(|| Error::invalid(format!("timestamp of {seconds} seconds overflows")))
}

/// Rounded down, but never to below zero: a time just before 1970 is no sign of none.
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

/// A column of whole numbers that may be absent.
pub(crate) fn int32<'a>(
    rows: &'a RecordBatch,
    name: &str,
) -> Result<Option<&'a PrimitiveArray<Int32Type>>> {
    column(rows, name)
        .map(|array| {
            array
                .as_primitive_opt()
                .ok_or_else(|| unfit(name, array, "int32"))
        })
        .transpose()
}

/// One that must be there.
pub(crate) fn int64<'a>(
    rows: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<Int64Type>> {
    let array = column(rows, name)
        .ok_or_else(|| Error::invalid(format!("there is no column {name}, which is to be kept")))?;
    array
        .as_primitive_opt()
        .ok_or_else(|| unfit(name, array, "int64"))
}
