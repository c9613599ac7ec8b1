//! `Profile`: sums of records and batches by time, format and codec.

use std::sync::Arc;

use arrow_array::{Int8Array, Int64Array, RecordBatch, StringArray};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{DataType, Field, Schema};
use brokerless_core::{Compression, Profile as Sums, ProfileFact};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::error::OrRaise as _;
use crate::base::file::AnyFile;
use crate::base::table::table;
use crate::read::key_sketch::KeySketch;

#[pyclass(module = "brokerless._native")]
pub(crate) struct Profile(Sums);

#[pymethods]
impl Profile {
    #[new]
    #[pyo3(signature = (serialized=None, *, is_bounded=false))]
    fn new(serialized: Option<&[u8]>, is_bounded: bool) -> PyResult<Self> {
        Ok(Self(match serialized {
            Some(bytes) => Sums::from_bytes(bytes).or_raise()?,
            None => Sums::new(is_bounded),
        }))
    }

    #[pyo3(signature = (file, position, end, *, first_offset=None, keys=None))]
    fn feed(
        &mut self,
        py: Python<'_>,
        file: AnyFile,
        position: u64,
        end: u64,
        first_offset: Option<i64>,
        keys: Option<&Bound<'_, KeySketch>>,
    ) -> PyResult<()> {
        let mut keys = keys.map(Bound::try_borrow_mut).transpose()?;
        let mut keys = keys.as_mut().map(|keys| &mut keys.sketch);
        let length = file.read_length();
        py.detach(|| {
            self.0
                .feed(file, (position, end), first_offset, length, &mut |key| {
                    if let Some(sketch) = &mut keys {
                        sketch.update(key);
                    }
                })
        })
        .or_raise()
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let groups: Vec<_> = self.0.groups().collect();
        let codec = |id: u8| Compression::from_id(id).map(Compression::name);
        let mut fields = vec![
            Field::new("time", DataType::Int64, true),
            Field::new("magic", DataType::Int8, false),
            Field::new("compression", DataType::Utf8, true),
        ];
        let mut columns: Vec<arrow_array::ArrayRef> = vec![
            Arc::new(
                groups
                    .iter()
                    .map(|((time, _, _), _)| *time)
                    .collect::<Int64Array>(),
            ),
            Arc::new(
                groups
                    .iter()
                    .map(|((_, magic, _), _)| Some(*magic))
                    .collect::<Int8Array>(),
            ),
            Arc::new(
                groups
                    .iter()
                    .map(|((_, _, id), _)| codec(*id))
                    .collect::<StringArray>(),
            ),
        ];
        for (name, fact) in ProfileFact::ALL {
            fields.push(Field::new(name, DataType::Int64, true));
            let values = groups.iter().map(|(_, sums)| sums.get(fact));
            columns.push(Arc::new(values.collect::<Int64Array>()));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| PyValueError::new_err(error.to_string()))?
            .to_pyarrow(py)
    }

    #[getter]
    fn records(&self) -> i64 {
        self.0.total().get(ProfileFact::Records).unwrap_or(0)
    }

    #[getter]
    fn first_timestamp(&self) -> Option<i64> {
        self.0.total().get(ProfileFact::FirstTimestamp)
    }

    #[getter]
    fn last_timestamp(&self) -> Option<i64> {
        self.0.total().get(ProfileFact::LastTimestamp)
    }

    #[getter]
    fn interval_width(&self) -> Option<i64> {
        self.0.interval_width()
    }

    fn intervals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sums: Vec<_> = self.0.intervals().collect();
        let column = |value: fn(&(i64, i64, i64)) -> i64| -> arrow_array::ArrayRef {
            Arc::new(
                sums.iter()
                    .map(|sum| Some(value(sum)))
                    .collect::<Int64Array>(),
            )
        };
        let columns = vec![
            ("time", column(|sum| sum.0)),
            ("records", column(|sum| sum.1)),
            ("bytes", column(|sum| sum.2)),
        ];
        table(py, columns)
    }

    fn batch_sizes(&self) -> Vec<(i64, i64, i64)> {
        let sizes = self.0.batch_sizes();
        sizes
            .map(|(size, found)| (size, found.batches, found.bytes))
            .collect()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.try_borrow()?.to_bytes(slf.py());
        Ok((slf.get_type().into_any(), (bytes,)))
    }
}
