//! `BatchCursor` and `skip_equal`: read two replicas of a log in lockstep.

use brokerless_core::{BatchCursor as Cursor, skip_equal as skip};
use pyo3::prelude::*;

use crate::base::error::OrRaise as _;
use crate::base::file::AnyFile;

#[pyclass(module = "brokerless._native")]
pub(crate) struct BatchCursor(Cursor<AnyFile>);

#[pymethods]
impl BatchCursor {
    #[new]
    fn new(file: AnyFile, position: u64, end: u64, start_offset: i64) -> PyResult<Self> {
        let read_length = file.read_length();
        Cursor::new(file, (position, end), start_offset, read_length)
            .map(Self)
            .or_raise()
    }

    #[getter]
    fn position(&self) -> u64 {
        self.0.position()
    }

    #[getter]
    fn is_at_end(&self) -> bool {
        self.0.is_at_end()
    }
}

#[pyfunction]
pub(crate) fn skip_equal(
    py: Python<'_>,
    one: &Bound<'_, BatchCursor>,
    other: &Bound<'_, BatchCursor>,
) -> PyResult<Option<i64>> {
    let (mut one, mut other) = (one.try_borrow_mut()?, other.try_borrow_mut()?);
    let (one, other) = (&mut one.0, &mut other.0);
    py.detach(|| skip(one, other)).or_raise()
}
