//! `brokerless.log.defect.Defect`, as a tuple of its fields.

use std::borrow::Cow;

use brokerless_core::Defect;
use pyo3::prelude::*;

/// The fields, in their order.
pub(crate) type DefectFields = (
    Option<String>,
    u64,
    i64,
    Option<i64>,
    String,
    Cow<'static, str>,
    Option<i64>,
    Option<u64>,
);

pub(crate) fn fields(defect: Defect) -> DefectFields {
    (
        defect.path,
        defect.position,
        defect.start_offset,
        defect.end_offset,
        defect.reason,
        defect.code,
        defect.base_offset,
        defect.next_position,
    )
}

/// A defect of Python.
#[derive(FromPyObject)]
pub(crate) struct PyDefect {
    path: Option<String>,
    position: u64,
    start_offset: i64,
    end_offset: Option<i64>,
    reason: String,
    code: String,
    base_offset: Option<i64>,
    next_position: Option<u64>,
}

impl From<PyDefect> for Defect {
    fn from(defect: PyDefect) -> Self {
        Self {
            path: defect.path,
            position: defect.position,
            start_offset: defect.start_offset,
            end_offset: defect.end_offset,
            reason: defect.reason,
            code: Cow::Owned(defect.code),
            base_offset: defect.base_offset,
            next_position: defect.next_position,
        }
    }
}
