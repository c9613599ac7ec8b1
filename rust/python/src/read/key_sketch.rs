//! `KeySketch`: the approximate number of distinct keys.

use brokerless_core::Error;
use datasketches::hll::{HllSketch, HllType, HllUnion};
use pyo3::prelude::*;

use crate::base::error::exception;

/// Binary logarithm of the number of registers: 4 KiB, and a standard error of 1.6 %.
const LG_REGISTERS: u8 = 12;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct KeySketch {
    pub(crate) sketch: HllSketch,
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
