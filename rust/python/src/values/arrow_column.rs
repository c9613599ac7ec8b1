//! A column of decoded keys or values as an array of Arrow.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, Float32Type, Float64Type, Int32Type,
    Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray,
    PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};
use brokerless_values::{Bits, Column, Ends, Type, Unit, Values};

use crate::values::json_text::json_field;

type Result<T> = std::result::Result<T, ArrowError>;

/// The field of a column.
pub(crate) fn field(name: &str, kind: &Type) -> Field {
    match kind {
        Type::Json => json_field(name),
        _ => Field::new(name, data_type(kind), true),
    }
}

fn data_type(kind: &Type) -> DataType {
    match kind {
        Type::Null => DataType::Null,
        Type::Boolean => DataType::Boolean,
        Type::Int32 => DataType::Int32,
        Type::Int64 => DataType::Int64,
        Type::UInt32 => DataType::UInt32,
        Type::UInt64 => DataType::UInt64,
        Type::Float32 => DataType::Float32,
        Type::Float64 => DataType::Float64,
        Type::Binary => DataType::Binary,
        Type::Utf8 | Type::Json => DataType::Utf8,
        Type::Date => DataType::Date32,
        Type::Time(Unit::Millis) => DataType::Time32(TimeUnit::Millisecond),
        Type::Time(unit) => DataType::Time64(time_unit(*unit)),
        Type::Timestamp(unit, is_utc) => {
            DataType::Timestamp(time_unit(*unit), is_utc.then(|| "UTC".into()))
        }
        Type::Duration(unit) => DataType::Duration(time_unit(*unit)),
        Type::Decimal(digits @ ..=38, scale) => DataType::Decimal128(*digits, *scale as i8),
        Type::Decimal(digits, scale) => DataType::Decimal256(*digits, *scale as i8),
        Type::Struct(columns) => DataType::Struct(fields(columns)),
        Type::List(items) => DataType::List(Arc::new(field(ITEM, items))),
        Type::Map(keys, values) => DataType::Map(Arc::new(entries(keys, values)), false),
    }
}

/// The names that Arrow has for the parts of lists and maps.
const ITEM: &str = "item";
const ENTRIES: &str = "entries";

fn fields(columns: &[(String, Type)]) -> Fields {
    columns
        .iter()
        .map(|(name, kind)| field(name, kind))
        .collect()
}

fn entries(keys: &Type, values: &Type) -> Field {
    let keys = field("key", keys).with_nullable(false);
    let columns = Fields::from(vec![keys, field("value", values)]);
    Field::new(ENTRIES, DataType::Struct(columns), false)
}

fn time_unit(unit: Unit) -> TimeUnit {
    match unit {
        Unit::Millis => TimeUnit::Millisecond,
        Unit::Micros => TimeUnit::Microsecond,
        Unit::Nanos => TimeUnit::Nanosecond,
    }
}

/// The array of a column, which is of this type.
pub(crate) fn array(kind: &Type, column: Column) -> Result<ArrayRef> {
    let rows = column.len();
    let nulls = column.validity.into_bytes();
    let nulls = nulls.map(|bits| NullBuffer::new(BooleanBuffer::new(bits.into(), 0, rows)));
    Ok(match (kind, column.values) {
        (Type::Null, _) => Arc::new(NullArray::new(rows)),
        (_, Values::Boolean(bits)) => Arc::new(BooleanArray::new(booleans(bits), nulls)),
        (Type::Date, Values::Int32(values)) => numbers::<Date32Type>(values, nulls)?,
        (Type::Time(_), Values::Int32(values)) => numbers::<Time32MillisecondType>(values, nulls)?,
        (_, Values::Int32(values)) => numbers::<Int32Type>(values, nulls)?,
        (Type::Time(Unit::Nanos), Values::Int64(values)) => {
            numbers::<Time64NanosecondType>(values, nulls)?
        }
        (Type::Time(_), Values::Int64(values)) => numbers::<Time64MicrosecondType>(values, nulls)?,
        (Type::Timestamp(unit, _), Values::Int64(values)) => {
            let array = match unit {
                Unit::Millis => numbers::<TimestampMillisecondType>(values, nulls)?,
                Unit::Micros => numbers::<TimestampMicrosecondType>(values, nulls)?,
                Unit::Nanos => numbers::<TimestampNanosecondType>(values, nulls)?,
            };
            typed(&array, kind)?
        }
        (Type::Duration(unit), Values::Int64(values)) => match unit {
            Unit::Millis => numbers::<DurationMillisecondType>(values, nulls)?,
            Unit::Micros => numbers::<DurationMicrosecondType>(values, nulls)?,
            Unit::Nanos => numbers::<DurationNanosecondType>(values, nulls)?,
        },
        (_, Values::Int64(values)) => numbers::<Int64Type>(values, nulls)?,
        (_, Values::UInt32(values)) => numbers::<UInt32Type>(values, nulls)?,
        (_, Values::UInt64(values)) => numbers::<UInt64Type>(values, nulls)?,
        (_, Values::Float32(values)) => numbers::<Float32Type>(values, nulls)?,
        (_, Values::Float64(values)) => numbers::<Float64Type>(values, nulls)?,
        (_, Values::Decimal128(values, ..)) => {
            typed(&numbers::<Decimal128Type>(values, nulls)?, kind)?
        }
        (_, Values::Decimal256(values, ..)) => {
            let values = values.into_iter().map(i256::from_le_bytes).collect();
            typed(&numbers::<Decimal256Type>(values, nulls)?, kind)?
        }
        (Type::Binary, Values::Bytes(ends, bytes)) => {
            Arc::new(BinaryArray::try_new(offsets(ends), bytes.into(), nulls)?)
        }
        (_, Values::Bytes(ends, bytes)) => {
            Arc::new(StringArray::try_new(offsets(ends), bytes.into(), nulls)?)
        }
        (Type::Struct(kinds), Values::Struct(columns)) => {
            let columns = kinds.iter().zip(columns);
            let columns: Result<Vec<_>> =
                columns.map(|((_, kind), one)| array(kind, one)).collect();
            Arc::new(StructArray::try_new_with_length(
                fields(kinds),
                columns?,
                nulls,
                rows,
            )?)
        }
        (Type::List(kind), Values::List(ends, items)) => {
            let items = array(kind, *items)?;
            let item = Arc::new(field(ITEM, kind));
            Arc::new(ListArray::try_new(item, offsets(ends), items, nulls)?)
        }
        (Type::Map(key_type, value_type), Values::Map(ends, parts)) => {
            let (keys, values) = *parts;
            let entries = entries(key_type, value_type);
            let DataType::Struct(columns) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map has no entries".to_owned()));
            };
            let arrays = vec![array(key_type, keys)?, array(value_type, values)?];
            let pairs = StructArray::try_new(columns.clone(), arrays, None)?;
            Arc::new(MapArray::try_new(
                Arc::new(entries),
                offsets(ends),
                pairs,
                nulls,
                false,
            )?)
        }
        _ => {
            return Err(ArrowError::SchemaError(
                "a column has another type".to_owned(),
            ));
        }
    })
}

fn booleans(bits: Bits) -> BooleanBuffer {
    let rows = bits.len();
    match bits.into_bytes() {
        Some(bytes) => BooleanBuffer::new(Buffer::from_vec(bytes), 0, rows),
        None => BooleanBuffer::new_set(rows),
    }
}

fn offsets(ends: Ends) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends.into_offsets()))
}

fn numbers<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?;
    Ok(Arc::new(array))
}

/// Gives an array its time zone, or its precision and scale.
fn typed(array: &ArrayRef, kind: &Type) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(data_type(kind));
    Ok(arrow_array::make_array(data.build()?))
}
