//! Decoded keys and values as JSON: numbers, texts, objects and lists, as the decoders write them from bodies.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, Float32Type, Float64Type, Int32Type,
    Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, BinaryArray, BooleanArray, StringArray};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use brokerless_core::{BytesFormat, Json};
use brokerless_values::{Unit, text};

use crate::values::json_text::is_json;

/// A column, whose type is determined once.
pub(crate) struct Typed<'a> {
    array: &'a dyn Array,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Bytes(&'a BinaryArray),
    Text(&'a StringArray),
    /// Each string is a JSON text.
    JsonText(&'a StringArray),
    Date(&'a [i32]),
    ShortTime(&'a [i32]),
    Time(&'a [i64], Unit),
    Timestamp(&'a [i64], Unit, bool),
    Duration(&'a [i64], Unit),
    Decimal128(&'a [i128], u32),
    Decimal256(&'a [i256], u32),
    Struct(Vec<(&'a str, Typed<'a>)>),
    List(&'a [i32], Box<Typed<'a>>),
    Map(&'a [i32], Box<(Typed<'a>, Typed<'a>)>),
}

impl<'a> Typed<'a> {
    /// Returns None for a type that decoded keys and values do not have.
    pub(crate) fn of(field: &Field, array: &'a dyn Array) -> Option<Self> {
        Some(Self {
            array,
            kind: kind(field, array)?,
        })
    }

    pub(crate) fn write(&self, row: usize, json: &mut Json<'_>) {
        if self.array.is_null(row) {
            json.null();
            return;
        }
        match &self.kind {
            Kind::Null => json.null(),
            Kind::Bool(values) => json.bool(values.value(row)),
            Kind::Int32(values) => json.int(at(values, row)),
            Kind::Int64(values) => json.int(at(values, row)),
            Kind::UInt32(values) => json.int(at(values, row)),
            Kind::UInt64(values) => json.int(at(values, row)),
            Kind::Float32(values) => json.float32(at(values, row)),
            Kind::Float64(values) => json.float64(at(values, row)),
            Kind::Bytes(values) => json.bytes(Some(values.value(row)), BytesFormat::Base64),
            Kind::Text(values) => json.string(values.value(row)),
            Kind::JsonText(values) => json.text(values.value(row)),
            Kind::Struct(fields) => {
                json.begin_object();
                for (name, values) in fields {
                    json.text_key(name);
                    values.write(row, json);
                }
                json.end_object();
            }
            Kind::List(offsets, items) => {
                json.begin_array();
                for item in range(offsets, row) {
                    items.write(item, json);
                }
                json.end_array();
            }
            Kind::Map(offsets, entries) => {
                let (keys, values) = entries.as_ref();
                json.begin_object();
                for entry in range(offsets, row) {
                    json.text_key(&keys.shown(entry));
                    values.write(entry, json);
                }
                json.end_object();
            }
            _ => json.string(&self.shown(row)),
        }
    }

    /// The text of a date, a time, a decimal, or of the key of a map.
    fn shown(&self, row: usize) -> String {
        let mut out = String::new();
        match &self.kind {
            Kind::Text(values) => out.push_str(values.value(row)),
            Kind::Bool(values) => return values.value(row).to_string(),
            Kind::Int32(values) => return at(values, row).to_string(),
            Kind::Int64(values) => return at(values, row).to_string(),
            Kind::UInt32(values) => return at(values, row).to_string(),
            Kind::UInt64(values) => return at(values, row).to_string(),
            Kind::Date(days) => text::date(at(days, row).into(), &mut out),
            Kind::ShortTime(values) => {
                text::time(at(values, row).into(), Unit::Millis, &mut out);
            }
            Kind::Time(values, unit) => text::time(at(values, row), *unit, &mut out),
            Kind::Timestamp(values, unit, is_utc) => {
                text::timestamp(at(values, row), *unit, &mut out);
                if *is_utc {
                    out.push('Z');
                }
            }
            Kind::Duration(values, unit) => {
                let (seconds, nanos) = unit.seconds_and_nanos(at(values, row));
                text::duration(seconds, nanos, &mut out);
            }
            Kind::Decimal128(values, scale) => {
                text::decimal(&at(values, row).to_be_bytes(), *scale, &mut out);
            }
            Kind::Decimal256(values, scale) => {
                let value = values.get(row).copied().unwrap_or(i256::ZERO);
                text::decimal(&value.to_be_bytes(), *scale, &mut out);
            }
            _ => {}
        }
        out
    }
}

fn kind<'a>(field: &Field, array: &'a dyn Array) -> Option<Kind<'a>> {
    Some(match array.data_type() {
        DataType::Null => Kind::Null,
        DataType::Boolean => Kind::Bool(array.as_boolean()),
        DataType::Int32 => Kind::Int32(values::<Int32Type>(array)),
        DataType::Int64 => Kind::Int64(values::<Int64Type>(array)),
        DataType::UInt32 => Kind::UInt32(values::<UInt32Type>(array)),
        DataType::UInt64 => Kind::UInt64(values::<UInt64Type>(array)),
        DataType::Float32 => Kind::Float32(values::<Float32Type>(array)),
        DataType::Float64 => Kind::Float64(values::<Float64Type>(array)),
        DataType::Binary => Kind::Bytes(array.as_binary()),
        DataType::Utf8 if is_json(field) => Kind::JsonText(array.as_string()),
        DataType::Utf8 => Kind::Text(array.as_string()),
        DataType::Date32 => Kind::Date(values::<Date32Type>(array)),
        DataType::Time32(TimeUnit::Millisecond) => {
            Kind::ShortTime(values::<Time32MillisecondType>(array))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Kind::Time(values::<Time64MicrosecondType>(array), Unit::Micros)
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            Kind::Time(values::<Time64NanosecondType>(array), Unit::Nanos)
        }
        DataType::Timestamp(unit, zone) => {
            let (values, unit) = match unit {
                TimeUnit::Millisecond => (values::<TimestampMillisecondType>(array), Unit::Millis),
                TimeUnit::Microsecond => (values::<TimestampMicrosecondType>(array), Unit::Micros),
                TimeUnit::Nanosecond => (values::<TimestampNanosecondType>(array), Unit::Nanos),
                TimeUnit::Second => return None,
            };
            Kind::Timestamp(values, unit, zone.is_some())
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            Kind::Duration(values::<DurationMillisecondType>(array), Unit::Millis)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            Kind::Duration(values::<DurationMicrosecondType>(array), Unit::Micros)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            Kind::Duration(values::<DurationNanosecondType>(array), Unit::Nanos)
        }
        DataType::Decimal128(_, scale) => {
            Kind::Decimal128(values::<Decimal128Type>(array), u32::try_from(*scale).ok()?)
        }
        DataType::Decimal256(_, scale) => {
            Kind::Decimal256(values::<Decimal256Type>(array), u32::try_from(*scale).ok()?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let typed = columns
                .map(|(field, column)| Some((field.name().as_str(), Typed::of(field, column)?)));
            Kind::Struct(typed.collect::<Option<_>>()?)
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let items = Typed::of(item, lists.values())?;
            Kind::List(lists.value_offsets(), Box::new(items))
        }
        DataType::Map(entry, _) => {
            let maps = array.as_map();
            let DataType::Struct(fields) = entry.data_type() else {
                return None;
            };
            let [key, value] = fields.iter().as_slice() else {
                return None;
            };
            let parts = (
                Typed::of(key, maps.keys())?,
                Typed::of(value, maps.values())?,
            );
            Kind::Map(maps.value_offsets(), Box::new(parts))
        }
        _ => return None,
    })
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

fn at<T: Copy + Default>(values: &[T], row: usize) -> T {
    values.get(row).copied().unwrap_or_default()
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    match offsets.get(row..row + 2) {
        Some(&[start, end]) => start as usize..end as usize,
        _ => 0..0,
    }
}
