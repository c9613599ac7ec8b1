//! `segment_files`: sorts the names in a partition directory. It creates no object for each name, because there may be
//! hundreds of thousands of files.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// Returns the kinds of files by offset, and all names that have another suffix or do not have Kafka's form.
///
/// `kinds` maps each extension to its bit.
#[pyfunction]
pub(crate) fn segment_files<'py>(
    py: Python<'py>,
    names: &Bound<'py, PyList>,
    kinds: HashMap<String, i64>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyList>)> {
    let mut found = Vec::with_capacity(names.len());
    let others = PyList::empty(py);
    for name in names {
        let parsed = name
            .cast::<PyString>()?
            .to_str()
            .ok()
            .and_then(|name| parsed(name, &kinds));
        match parsed {
            Some(file) => found.push(file),
            None => others.append(name)?,
        }
    }
    found.sort_unstable();
    let files = PyDict::new(py);
    for of_offset in found.chunk_by(|(one, _), (other, _)| one == other) {
        if let Some((offset, _)) = of_offset.first() {
            let all = of_offset.iter().fold(0, |all, (_, kind)| all | kind);
            files.set_item(offset, all)?;
        }
    }
    Ok((files, others))
}

/// Parses a file name. Its offset must have 20 digits, because Kafka opens no other names.
fn parsed(name: &str, kinds: &HashMap<String, i64>) -> Option<(i64, i64)> {
    let (digits, rest) = name.split_at_checked(20)?;
    let extension = rest.strip_prefix('.')?;
    let kind = kinds.get(extension)?;
    // Excludes signs, which number parsing would accept.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    Some((digits.parse().ok()?, *kind))
}
