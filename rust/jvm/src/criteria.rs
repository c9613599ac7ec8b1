//! The conditions on keys and values in the filters of a query: `java/brokerless/spark/Criterion.java` writes it as JSON.

use std::sync::Arc;

use brokerless_core::{BytesFormat, Criterion, Search, SearchedPart, Test, TextTest};
use serde::Deserialize;

use crate::error::TaskError;

/// A condition that a key or a value must meet.
#[derive(Debug, Deserialize)]
struct PushedCriterion {
    /// `key` or `value`.
    part: String,
    /// In base64, of which one suffices; None if the part must be null.
    texts: Option<Vec<String>>,
    is_whole: bool,
}

impl TryFrom<PushedCriterion> for Criterion {
    type Error = TaskError;

    fn try_from(pushed: PushedCriterion) -> Result<Self, TaskError> {
        let part = match pushed.part.as_str() {
            "key" => SearchedPart::Key,
            "value" => SearchedPart::Value,
            part => return Err(TaskError::plain(format!("unknown part {part:?}"))),
        };
        let unread = |error: brokerless_core::Error| TaskError::plain(error.to_string());
        let test = match pushed.texts {
            None => Test::Null,
            Some(texts) => Test::Texts(TextTest {
                texts: texts
                    .iter()
                    .map(|text| BytesFormat::Base64.decode(text))
                    .collect::<Result<_, _>>()
                    .map_err(unread)?,
                is_whole: pushed.is_whole,
                ..TextTest::default()
            }),
        };
        Self::new(part, test).map_err(unread)
    }
}

/// Returns the search for rows that meet all criteria, which are JSON; None for no criteria.
pub(crate) fn search(criteria: &[u8]) -> Result<Option<Arc<Search>>, TaskError> {
    if criteria.is_empty() {
        return Ok(None);
    }
    let pushed: Vec<PushedCriterion> = serde_json::from_slice(criteria)
        .map_err(|error| TaskError::plain(format!("the criteria cannot be read: {error}")))?;
    let prepared = pushed.into_iter().map(Criterion::try_from);
    let criteria = prepared.collect::<Result<Vec<_>, _>>()?;
    Ok((!criteria.is_empty()).then(|| Arc::new(Search::new(criteria, false, Vec::new()))))
}
