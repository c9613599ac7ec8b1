//! `Search`: what a record must hold to be found.

use std::sync::Arc;

use brokerless_core::{Criterion, SearchedPart, Test, TextTest};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::base::error::OrRaise as _;

/// A criterion as Python gives it: the part, the name of a header, and the test.
#[derive(FromPyObject)]
struct PyCriterion {
    part: String,
    header: Option<String>,
    test: String,
    texts: Vec<Vec<u8>>,
    ignores_case: bool,
    is_whole: bool,
}

impl TryFrom<PyCriterion> for Criterion {
    type Error = PyErr;

    fn try_from(given: PyCriterion) -> PyResult<Self> {
        let unknown = |word: &str| PyValueError::new_err(format!("unknown word {word:?}"));
        let part = match (given.part.as_str(), given.header) {
            ("any", _) => SearchedPart::Any,
            ("key", _) => SearchedPart::Key,
            ("value", _) => SearchedPart::Value,
            ("header", Some(name)) => SearchedPart::Header(name.into_bytes()),
            (part, _) => return Err(unknown(part)),
        };
        let test = match given.test.as_str() {
            "null" => Test::Null,
            "present" => Test::Present,
            word @ ("texts" | "patterns") => Test::Texts(TextTest {
                texts: given.texts,
                are_patterns: word == "patterns",
                is_whole: given.is_whole,
                ignores_case: given.ignores_case,
            }),
            word => return Err(unknown(word)),
        };
        Self::new(part, test).or_raise()
    }
}

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) search: Arc<brokerless_core::Search>,
}

#[pymethods]
impl Search {
    #[new]
    #[pyo3(signature = (criteria, *, is_inverted=false, producer_ids=Vec::new()))]
    fn new(
        py: Python<'_>,
        criteria: Vec<PyCriterion>,
        is_inverted: bool,
        producer_ids: Vec<i64>,
    ) -> PyResult<Self> {
        let criteria = py.detach(|| {
            let criteria = criteria.into_iter().map(Criterion::try_from);
            criteria.collect::<PyResult<Vec<_>>>()
        })?;
        let search = brokerless_core::Search::new(criteria, is_inverted, producer_ids);
        Ok(Self {
            search: Arc::new(search),
        })
    }

    #[getter]
    fn progress(&self) -> (u64, u64) {
        self.search.progress()
    }

    fn stop(&self) {
        self.search.stop();
    }
}
