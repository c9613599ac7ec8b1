//! `survey`: the sound and damaged ranges of a segment.

use brokerless_core::{Part, Survey, SurveyedSegment};
use pyo3::prelude::*;

use crate::base::error::OrRaise as _;
use crate::base::file::AnyFile;
use crate::read::defect::{DefectFields, fields};

/// Position, end position, first offset, next offset.
type Run = (u64, u64, i64, i64);
#[derive(IntoPyObject)]
pub(crate) enum AnyPart {
    Run(Run),
    Defect(DefectFields),
}

impl From<Part> for AnyPart {
    fn from(part: Part) -> Self {
        match part {
            Part::Run(run) => Self::Run((
                run.position,
                run.end_position,
                run.first_offset,
                run.next_offset,
            )),
            Part::Defect(defect) => Self::Defect(fields(defect)),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (file, base_offset, following_offset, end, *, check_crcs=true, is_clean=true, limit_offset=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(crate) fn survey(
    py: Python<'_>,
    file: AnyFile,
    base_offset: i64,
    following_offset: Option<i64>,
    end: u64,
    check_crcs: bool,
    is_clean: bool,
    limit_offset: Option<i64>,
) -> PyResult<(Vec<AnyPart>, i64)> {
    let segment = SurveyedSegment {
        base_offset,
        following_offset,
        limit_offset,
        end,
        check_crcs,
        is_clean,
    };
    let found = py.detach(|| Survey::of(&file, segment)).or_raise()?;
    let parts = found.parts.into_iter().map(AnyPart::from).collect();
    Ok((parts, found.next_offset))
}

#[pyfunction]
pub(crate) fn cut_short_in_words(size: u64, offset: i64, position: i32) -> String {
    brokerless_core::cut_short_in_words(size, (offset, position))
}
