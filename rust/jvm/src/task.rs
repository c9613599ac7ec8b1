//! A task as the Python planner writes it: JSON, the fields of `brokerless.log.split.Split`.

use brokerless_core::{AbortedTransaction, Defect, Split};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// The version of the form.
const VERSION: u32 = 1;

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Task {
    version: u32,
    pub(crate) check_crcs: bool,
    /// Rows below this time, in ms, may be left out.
    #[serde(default)]
    pub(crate) min_timestamp: Option<i64>,
    /// The number of rows after which the task may end.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    pub(crate) splits: Vec<TaskSplit>,
}

/// Refuses input from another version of the package on the driver. `form` is the name of the input.
pub(crate) fn check_version(form: &str, found: u32, expected: u32) -> Result<(), TaskError> {
    if found == expected {
        return Ok(());
    }
    Err(TaskError::plain(format!(
        "the {form} has version {found}, expected {expected}: driver and executors need the same jar"
    )))
}

impl Task {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TaskError> {
        let task: Self = serde_json::from_slice(text)
            .map_err(|error| TaskError::plain(format!("the task cannot be read: {error}")))?;
        check_version("task", task.version, VERSION)?;
        Ok(task)
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>, TaskError> {
        serde_json::to_vec(self).map_err(|error| TaskError::plain(error.to_string()))
    }
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct TaskSplit {
    pub(crate) path: String,
    pub(crate) topic: Option<String>,
    pub(crate) partition: Option<i32>,
    pub(crate) base_offset: i64,
    pub(crate) position: u64,
    pub(crate) end_position: u64,
    pub(crate) start_offset: i64,
    pub(crate) end_offset: i64,
    pub(crate) following_offset: Option<i64>,
    pub(crate) entry: Option<(i64, i64)>,
    pub(crate) fallback_position: u64,
    pub(crate) file_size: Option<u64>,
    /// Byte position of the last batch, and its first bytes in hexadecimal.
    pub(crate) last_batch: Option<(u64, String)>,
    aborted: Vec<(i64, i64, i64)>,
    on_corrupt: String,
    pub(crate) limit_offset: Option<i64>,
    ends_segment: bool,
    missing: Vec<TaskDefect>,
    trusts_index: bool,
}

/// A [`Defect`].
#[derive(Debug, Clone, Deserialize, Serialize)]
struct TaskDefect {
    path: Option<String>,
    position: u64,
    start_offset: i64,
    end_offset: Option<i64>,
    reason: String,
    code: String,
    base_offset: Option<i64>,
    next_position: Option<u64>,
}

impl TaskSplit {
    /// Returns true if damage is skipped.
    pub(crate) fn skips(&self) -> bool {
        self.on_corrupt == "skip"
    }

    /// Returns true if the split covers the whole planned segment, or all of it from the position of the first wanted
    /// offset.
    pub(crate) fn is_whole(&self) -> bool {
        let is_known = self.file_size.is_some() || self.last_batch.is_some();
        self.fallback_position == 0 && is_known && self.ends_segment
    }

    /// The split in the form that the core reads.
    pub(crate) fn planned(&self) -> Split {
        let missing = |missing: &TaskDefect| Defect {
            path: missing.path.clone(),
            position: missing.position,
            start_offset: missing.start_offset,
            end_offset: missing.end_offset,
            reason: missing.reason.clone(),
            code: missing.code.clone().into(),
            base_offset: missing.base_offset,
            next_position: missing.next_position,
        };
        Split {
            base_offset: self.base_offset,
            position: self.position,
            end_position: self.end_position,
            start_offset: self.start_offset,
            end_offset: self.end_offset,
            following_offset: self.following_offset,
            entry: self.entry,
            fallback_position: self.fallback_position,
            file_size: self.file_size,
            aborted: self
                .aborted
                .iter()
                .copied()
                .map(AbortedTransaction::from)
                .collect(),
            skips: self.skips(),
            limit_offset: self.limit_offset,
            ends_segment: self.ends_segment,
            missing: self.missing.iter().map(missing).collect(),
            trusts_index: self.trusts_index,
        }
    }
}
