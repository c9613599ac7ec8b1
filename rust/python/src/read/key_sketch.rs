//! `KeySketch`: the approximate number of distinct keys.

use brokerless_core::Error;
use datasketches::hll::{HllSketch, HllType, HllUnion};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::BytesColumn;
use crate::base::error::{OrRaise as _, exception};

/// Binary logarithm of the number of registers: 4 KiB, and a standard error of 1.6 %.
const LG_REGISTERS: u8 = 12;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct KeySketch {
    sketch: HllSketch,
}

#[pymethods]
impl KeySketch {
    #[new]
    #[pyo3(signature = (serialized=None))]
    fn new(serialized: Option<&[u8]>) -> PyResult<Self> {
        let sketch = match serialized {
            Some(bytes) => HllSketch::deserialize(bytes),
            None => HllSketch::new(LG_REGISTERS, HllType::Hll8),
        };
        let sketch = sketch.map_err(|error| refused(&error))?;
        Ok(Self { sketch })
    }

    fn push(&mut self, py: Python<'_>, keys: Bound<'_, PyAny>) -> PyResult<()> {
        let arrays: Vec<_> = Array::import(py, [keys])?.collect();
        let keys = BytesColumn::new("key", arrays.first())?;
        let rows = arrays.first().map_or(0, |array| array.rows.len());
        let sketch = &mut self.sketch;
        py.detach(|| {
            (0..rows).try_for_each(|row| {
                if let Some(key) = keys.get(row)? {
                    sketch.update(key);
                }
                Ok::<_, Error>(())
            })
        })
        .or_raise()
    }

    fn merge(&mut self, other: &Self) -> PyResult<()> {
        let mut union = HllUnion::new(LG_REGISTERS).map_err(|error| refused(&error))?;
        union.update(&self.sketch);
        union.update(&other.sketch);
        self.sketch = union.to_sketch(HllType::Hll8);
        Ok(())
    }

    /// The estimate that depends on the registers alone, not on the order in which sketches were merged.
    fn estimate(&self) -> f64 {
        self.sketch.composite_estimate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.sketch.serialize()
    }
}

fn refused(error: &datasketches::error::Error) -> PyErr {
    exception(Error::invalid(format!("no sketch of keys: {error}")))
}
