//! `decode_plain`: keys or values of the serializers that Kafka ships.

use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Error, Result};
use brokerless_values::{DecodedRows, plain};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::BytesColumn;
use crate::base::error::OrRaise as _;
use crate::values::decoded_batch::{batch, invalid};

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
    let form = plain::Form::named(form).map_err(invalid).or_raise()?;
    py.detach(|| {
        let mut decoded = DecodedRows::new(&form.kind());
        decode(form, &column, rows, &mut decoded)?;
        batch(&form.kind(), decoded, false)
    })
    .or_raise()?
    .to_pyarrow(py)
}

fn decode(
    form: plain::Form,
    payloads: &BytesColumn,
    rows: usize,
    decoded: &mut DecodedRows,
) -> Result<()> {
    let mut total = 0;
    for row in 0..rows {
        total += payloads.get(row)?.map_or(0, <[u8]>::len);
    }
    if total > MOST_BYTES {
        return Err(Error::invalid(format!(
            "{total} bytes: decode at most {MOST_BYTES} at once"
        )));
    }
    for row in 0..rows {
        match payloads.get(row)? {
            Some(payload) => form.push(payload, decoded),
            None => decoded.push_null(),
        }
        .map_err(invalid)?;
    }
    Ok(())
}
