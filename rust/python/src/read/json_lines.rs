//! `json_lines`: writes Arrow rows as JSON, one object per line, without a Python object for each value.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, BinaryArray, Float32Array, Float64Array, ListArray, RecordBatch, StringArray,
};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{DataType, Field, TimeUnit};
use brokerless_core::{BytesFormat, Error, Json, Result, TimestampType};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::error::OrRaise as _;
use crate::read::rows::TIMESTAMP_TYPE;
use crate::read::typed_json::Typed;
use crate::values::json_text::is_json;

#[pyfunction]
#[pyo3(signature = (rows, bytes="utf8", objects=None))]
pub(crate) fn json_lines<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    bytes: &str,
    objects: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let rows = RecordBatch::from_pyarrow_bound(rows)?;
    let objects = objects.unwrap_or_default();
    let text = py
        .detach(|| lines(&rows, BytesFormat::from_name(bytes)?, &objects))
        .or_raise()?;
    Ok(PyBytes::new(py, &text))
}

/// Names the columns with bytes that are not all UTF-8.
#[pyfunction]
pub(crate) fn binary_columns(py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let rows = RecordBatch::from_pyarrow_bound(rows)?;
    py.detach(|| not_text(&rows)).or_raise()
}

fn not_text(rows: &RecordBatch) -> Result<Vec<String>> {
    let schema = rows.schema();
    let mut found = Vec::new();
    for (field, array) in schema.fields().iter().zip(rows.columns()) {
        let values = Values::of(field, array)?;
        let (bytes, places) = match values.innermost() {
            Values::Bytes(bytes) => (*bytes, 0..bytes.len()),
            // The headers of other rows are in the same array.
            Values::Headers(lists, _, bytes) => match *lists.value_offsets() {
                [start, .., end] => (*bytes, start as usize..end as usize),
                _ => continue,
            },
            _ => continue,
        };
        let mut fields = places.filter(|&place| bytes.is_valid(place));
        if !fields.all(|place| std::str::from_utf8(bytes.value(place)).is_ok()) {
            found.push(field.name().clone());
        }
    }
    Ok(found)
}

fn lines(rows: &RecordBatch, format: BytesFormat, objects: &[String]) -> Result<Vec<u8>> {
    let schema = rows.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(rows.columns())
        .map(|(field, array)| {
            let format = if objects.contains(field.name()) {
                BytesFormat::Object
            } else {
                format
            };
            Ok((field.name().as_str(), Values::of(field, array)?, format))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut text = Vec::with_capacity(rows.get_array_memory_size() * 3 / 2);
    for row in 0..rows.num_rows() {
        let mut json = Json::new(&mut text);
        json.begin_object();
        for (name, values, format) in &columns {
            json.key(name);
            values.write(row, *format, &mut json);
        }
        json.end_object();
        text.push(b'\n');
    }
    Ok(text)
}

/// A column, whose type is determined once.
enum Values<'a> {
    Bytes(&'a BinaryArray),
    Text(&'a StringArray),
    /// Each string is a JSON text.
    JsonText(&'a StringArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    TimestampType(&'a [i32]),
    Bool(&'a arrow_array::BooleanArray),
    Headers(&'a ListArray, &'a StringArray, &'a BinaryArray),
    /// A decoded key or value that is no JSON text.
    Typed(Typed<'a>),
    Nullable(&'a dyn Array, Box<Values<'a>>),
}

/// The columns that a schema may give any type.
const DECODED: [&str; 2] = ["key", "value"];

impl<'a> Values<'a> {
    fn of(field: &Field, array: &'a dyn Array) -> Result<Self> {
        let name = field.name();
        let unknown = || Error::invalid(format!("column {name:?} has type {}", array.data_type()));
        let is_decoded = DECODED.contains(&name.as_str());
        let values = match array.data_type() {
            DataType::Timestamp(..) | DataType::List(_) if is_decoded => {
                Self::Typed(Typed::of(field, array).ok_or_else(unknown)?)
            }
            DataType::Binary => Self::Bytes(array.as_binary()),
            DataType::Utf8 if is_json(field) => Self::JsonText(array.as_string()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Float32 => Self::Float32(array.as_primitive()),
            DataType::Float64 => Self::Float64(array.as_primitive()),
            DataType::Int8 => Self::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Self::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 if name == TIMESTAMP_TYPE => {
                Self::TimestampType(array.as_primitive::<Int32Type>().values())
            }
            DataType::Int32 => Self::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Self::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                Self::Int64(array.as_primitive::<TimestampMillisecondType>().values())
            }
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::List(_) => {
                let lists = array.as_list_opt::<i32>().ok_or_else(unknown)?;
                let pairs = lists.values().as_struct_opt().ok_or_else(unknown)?;
                match pairs.columns() {
                    [keys, values] => Self::Headers(
                        lists,
                        keys.as_string_opt().ok_or_else(unknown)?,
                        values.as_binary_opt().ok_or_else(unknown)?,
                    ),
                    _ => return Err(unknown()),
                }
            }
            _ if is_decoded => Self::Typed(Typed::of(field, array).ok_or_else(unknown)?),
            _ => return Err(unknown()),
        };
        Ok(if array.null_count() > 0 {
            Self::Nullable(array, Box::new(values))
        } else {
            values
        })
    }

    /// The values without the layer of nulls.
    fn innermost(&self) -> &Self {
        match self {
            Self::Nullable(_, values) => values,
            values => values,
        }
    }

    #[inline]
    fn write(&self, row: usize, format: BytesFormat, json: &mut Json<'_>) {
        match self {
            Self::Bytes(values) => json.bytes(Some(values.value(row)), format),
            Self::Text(values) => json.string(values.value(row)),
            Self::JsonText(values) => json.text(values.value(row)),
            Self::Float32(values) => json.float32(values.value(row)),
            Self::Float64(values) => json.float64(values.value(row)),
            Self::Int8(values) => write_int(values, row, json),
            Self::Int16(values) => write_int(values, row, json),
            Self::Int32(values) => write_int(values, row, json),
            Self::Int64(values) => write_int(values, row, json),
            Self::TimestampType(values) => {
                match values.get(row).copied().and_then(TimestampType::from_id) {
                    Some(timestamp_type) => json.string(timestamp_type.name()),
                    None => json.null(),
                }
            }
            Self::Bool(values) => json.bool(values.value(row)),
            Self::Typed(values) => values.write(row, json),
            Self::Headers(lists, keys, values) => {
                json.begin_array();
                for header in header_range(lists, row) {
                    json.begin_array();
                    json.string(keys.value(header));
                    json.bytes(
                        values.is_valid(header).then(|| values.value(header)),
                        format,
                    );
                    json.end_array();
                }
                json.end_array();
            }
            // A row without headers has an empty list, even if Spark's null stands for it.
            Self::Nullable(_, values) if matches!(**values, Self::Headers(..)) => {
                values.write(row, format, json);
            }
            Self::Nullable(array, _) if array.is_null(row) => json.null(),
            Self::Nullable(_, values) => values.write(row, format, json),
        }
    }
}

fn header_range(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    match lists.value_offsets().get(row..row + 2) {
        Some(&[start, end]) => start as usize..end as usize,
        _ => 0..0,
    }
}

#[inline]
fn write_int<T: Copy + brokerless_core::JsonInteger>(
    values: &[T],
    row: usize,
    json: &mut Json<'_>,
) {
    match values.get(row) {
        Some(&value) => json.int(value),
        None => json.null(),
    }
}
