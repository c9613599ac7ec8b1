//! `decode_plain`: keys or values of the serializers that Kafka ships.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{DataType, Field, Schema};
use brokerless_core::{Error, Result};
use brokerless_values::{json_document, plain, uuid_text};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::BytesColumn;
use crate::base::error::OrRaise as _;
use crate::values::json_text::json_field;

/// The bytes of keys or values that are decoded at once: the text of a batch must not be longer than its offsets count.
const MOST_BYTES: usize = 256 << 20;

#[pyfunction]
pub(crate) fn decode_plain<'py>(
    py: Python<'py>,
    payloads: Bound<'py, PyAny>,
    form: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::import(py, [payloads])?.next();
    let column = BytesColumn::new("payloads", array.as_ref())?;
    let rows = array.map_or(0, |array| array.rows.len());
    py.detach(|| Decoding::new(&column, rows)?.run(form))
        .or_raise()?
        .to_pyarrow(py)
}

/// The columns of a decoded key or value.
pub(crate) struct Decoding<'a> {
    payloads: &'a BytesColumn,
    rows: usize,
    bytes: BinaryBuilder,
    errors: StringBuilder,
}

impl<'a> Decoding<'a> {
    fn new(payloads: &'a BytesColumn, rows: usize) -> Result<Self> {
        let mut total = 0;
        for row in 0..rows {
            total += payloads.get(row)?.map_or(0, <[u8]>::len);
        }
        if total > MOST_BYTES {
            return Err(Error::invalid(format!(
                "{total} bytes: decode at most {MOST_BYTES} at once"
            )));
        }
        Ok(Self {
            payloads,
            rows,
            bytes: BinaryBuilder::new(),
            errors: StringBuilder::new(),
        })
    }

    fn run(self, form: &str) -> Result<RecordBatch> {
        match form {
            "utf8" => self.texts(text_field(), |bytes, out| {
                out.push_str(plain::utf8(bytes)?);
                Ok(())
            }),
            "json" => {
                let mut buffer = Vec::new();
                self.texts(json_field("decoded"), move |bytes, out| {
                    buffer.clear();
                    json_document(bytes, &mut buffer)?;
                    out.push_str(plain::utf8(&buffer)?);
                    Ok(())
                })
            }
            "hex" => self.texts(text_field(), |bytes, out| {
                plain::hex(bytes, out);
                Ok(())
            }),
            "uuid" => self.texts(text_field(), |bytes, out| {
                out.push_str(&uuid_text(plain::uuid(bytes)?));
                Ok(())
            }),
            "int32" => {
                self.numbers::<Int32Type>(|bytes| plain::number(bytes).map(i32::from_be_bytes))
            }
            "int64" => {
                self.numbers::<Int64Type>(|bytes| plain::number(bytes).map(i64::from_be_bytes))
            }
            "float32" => {
                self.numbers::<Float32Type>(|bytes| plain::number(bytes).map(f32::from_be_bytes))
            }
            "float64" => {
                self.numbers::<Float64Type>(|bytes| plain::number(bytes).map(f64::from_be_bytes))
            }
            _ => Err(Error::invalid(format!("no plain form {form:?}"))),
        }
    }

    fn texts(
        mut self,
        field: Field,
        mut decode: impl FnMut(&[u8], &mut String) -> brokerless_values::Result<()>,
    ) -> Result<RecordBatch> {
        let mut decoded = StringBuilder::new();
        let mut text = String::new();
        for row in 0..self.rows {
            let value = self.value(row, |bytes| {
                text.clear();
                decode(bytes, &mut text)
            })?;
            decoded.append_option(value.map(|()| &text));
        }
        self.finish(field, Arc::new(decoded.finish()))
    }

    fn numbers<T: ArrowPrimitiveType>(
        mut self,
        decode: impl Fn(&[u8]) -> brokerless_values::Result<T::Native>,
    ) -> Result<RecordBatch> {
        let mut decoded = PrimitiveBuilder::<T>::with_capacity(self.rows);
        for row in 0..self.rows {
            decoded.append_option(self.value(row, &decode)?);
        }
        let field = Field::new("decoded", T::DATA_TYPE, true);
        self.finish(field, Arc::new(decoded.finish()))
    }

    /// Decodes a row, and records its bytes and the error if it does not decode.
    fn value<T>(
        &mut self,
        row: usize,
        decode: impl FnOnce(&[u8]) -> brokerless_values::Result<T>,
    ) -> Result<Option<T>> {
        let Some(bytes) = self.payloads.get(row)? else {
            self.bytes.append_null();
            self.errors.append_null();
            return Ok(None);
        };
        Ok(match decode(bytes) {
            Ok(value) => {
                self.bytes.append_null();
                self.errors.append_null();
                Some(value)
            }
            Err(error) => {
                self.bytes.append_value(bytes);
                self.errors.append_value(error.to_string());
                None
            }
        })
    }

    fn finish(mut self, field: Field, decoded: ArrayRef) -> Result<RecordBatch> {
        let fields = [
            field,
            Field::new("bytes", DataType::Binary, true),
            Field::new("error", DataType::Utf8, true),
        ];
        let columns = vec![
            decoded,
            Arc::new(self.bytes.finish()) as ArrayRef,
            Arc::new(self.errors.finish()),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

fn text_field() -> Field {
    Field::new("decoded", DataType::Utf8, true)
}
