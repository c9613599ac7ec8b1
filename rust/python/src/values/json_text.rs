//! The type of a column whose strings are JSON texts.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};

/// The metadata of a field whose strings are JSON texts. JSON lines have the value of each.
const CONTENT_TYPE: (&str, &str) = ("content-type", "application/json");

/// A field whose strings are JSON texts.
pub(crate) fn json_field(name: &str) -> Field {
    let (key, value) = CONTENT_TYPE;
    Field::new(name, DataType::Utf8, true)
        .with_metadata(HashMap::from([(key.to_owned(), value.to_owned())]))
}

/// Returns true if the strings of a field are JSON texts.
pub(crate) fn is_json(field: &Field) -> bool {
    let (key, value) = CONTENT_TYPE;
    field
        .metadata()
        .get(key)
        .is_some_and(|found| found == value)
}
