//! `EndOffsets`: the log end offset at given times.

use arrow_array::{Array as _, Int64Array};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{EndOffsets as Search, Error};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::buffer::Bytes;
use crate::base::columns::NumbersColumn;
use crate::base::error::{OrRaise as _, exception};

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct EndOffsets(Search);

#[pymethods]
impl EndOffsets {
    #[new]
    fn new(py: Python<'_>, times: Bound<'_, PyAny>) -> PyResult<Self> {
        let array = Array::import(py, [times])?.next();
        let rows = array.as_ref().map_or(0, |array| array.rows.len());
        let column = match &array {
            Some(array) => NumbersColumn::<i64>::named("times", array, "int64")?,
            None => None,
        };
        let time = |row| column.as_ref().and_then(|column| column.get(row));
        let times: Option<Vec<i64>> = (0..rows).map(time).collect();
        match times {
            Some(times) if times.is_sorted() => Ok(Self(Search::new(times))),
            _ => Err(exception(Error::invalid("times are null, or fall"))),
        }
    }

    #[getter]
    fn next_time(&self) -> Option<i64> {
        self.0.next_time()
    }

    fn seek(&mut self, offset: i64) {
        self.0.seek(offset);
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.feed(data.as_slice(), position))
            .or_raise()
    }

    fn finish<'py>(&mut self, py: Python<'py>, end: i64) -> PyResult<Bound<'py, PyAny>> {
        let search = std::mem::replace(&mut self.0, Search::new(Vec::new()));
        Int64Array::from(search.finish(end))
            .to_data()
            .to_pyarrow(py)
    }
}
