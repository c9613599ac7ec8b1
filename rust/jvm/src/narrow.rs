//! Narrows planned tasks to the rows that a query's filters and its limit can select. Only rows that certainly do not
//! match may be omitted. The remaining rows may include others, because Spark applies the filters and the limit again.

use brokerless_core::{OffsetIndex, batch_offsets_at};
use serde::Deserialize;

use crate::error::TaskError;
use crate::file;
use crate::task::{Task, TaskSplit};

/// The bounds that the filters and the limit of a query set for its rows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Bounds {
    topics: Option<Vec<String>>,
    partitions: Option<Vec<i32>>,
    start_offset: Option<i64>,
    /// Exclusive.
    end_offset: Option<i64>,
    /// Milliseconds.
    min_timestamp: Option<i64>,
    /// The number of rows after which a task may end.
    limit: Option<usize>,
}

impl Bounds {
    fn holds_partition_of(&self, split: &TaskSplit) -> bool {
        let topic = |topics: &Vec<String>| {
            split
                .topic
                .as_ref()
                .is_some_and(|topic| topics.contains(topic))
        };
        let partition = |partitions: &Vec<i32>| {
            split
                .partition
                .is_some_and(|partition| partitions.contains(&partition))
        };
        self.topics.as_ref().is_none_or(topic) && self.partitions.as_ref().is_none_or(partition)
    }
}

/// Returns the tasks that may have rows within `bounds`, which is JSON.
pub fn narrow(tasks: &[Vec<u8>], bounds: &[u8]) -> Result<Vec<Vec<u8>>, TaskError> {
    let bounds: Bounds = serde_json::from_slice(bounds)
        .map_err(|error| TaskError::plain(format!("the bounds cannot be read: {error}")))?;
    let mut tasks = tasks
        .iter()
        .map(|task| Task::parse(task))
        .collect::<Result<Vec<_>, _>>()?;
    let planned: Vec<_> = tasks
        .iter_mut()
        .map(|task| std::mem::take(&mut task.splits))
        .collect();
    let numbered = |(task, splits): (usize, Vec<_>)| splits.into_iter().map(move |s| (task, s));
    let mut splits = planned
        .into_iter()
        .enumerate()
        .flat_map(numbered)
        .peekable();
    while let Some((task, mut split)) = splits.next() {
        let next = splits.peek().map(|(_, next)| next);
        // Pieces that are cut by offset have the same positions.
        let next = next.filter(|next: &&TaskSplit| {
            next.path == split.path && next.position >= split.end_position
        });
        if keeps(&mut split, next, &bounds)
            && let Some(task) = tasks.get_mut(task)
        {
            task.splits.push(split);
        }
    }
    for task in &mut tasks {
        task.min_timestamp = bounds.min_timestamp;
        task.limit = bounds.limit;
    }
    tasks
        .iter()
        .filter(|task| !task.splits.is_empty())
        .map(Task::to_json)
        .collect()
}

/// Narrows a split, and returns whether it may have rows within the bounds. `next` is the split that begins at its end,
/// in the same segment.
fn keeps(split: &mut TaskSplit, next: Option<&TaskSplit>, bounds: &Bounds) -> bool {
    if !bounds.holds_partition_of(split) {
        return false;
    }
    let start = bounds
        .start_offset
        .unwrap_or(i64::MIN)
        .max(split.start_offset);
    let end = bounds.end_offset.unwrap_or(i64::MAX).min(split.end_offset);
    let is_narrower = start > split.start_offset || end < split.end_offset;
    (split.start_offset, split.end_offset) = (start, end);
    if start >= end {
        return false;
    }
    let is_before = split
        .following_offset
        .is_some_and(|following| following <= start);
    if !is_narrower || split.planned().is_absent() || split.skips() {
        return true;
    }
    if is_before || split.base_offset >= end {
        return false;
    }
    // Within a segment the index shows where batches are, if the batch of its entry is there.
    if split.entry.is_some() && first_offset_of(split).is_some_and(|first| first >= end) {
        return false;
    }
    if next.is_some_and(|next| first_offset_of(next).is_some_and(|first| first <= start)) {
        return false;
    }
    seek(split, start);
    true
}

/// The first offset of the batch to which the index entry of a split points, if that batch is at this position.
fn first_offset_of(split: &TaskSplit) -> Option<i64> {
    let (before, offset) = split.entry?;
    let (file, _) = file::open(split)
        .ok()
        .filter(|(_, is_planned)| *is_planned)?;
    let (first, last) = batch_offsets_at(&*file, split.position).ok()??;
    (before < last && last <= offset).then_some(first)
}

/// Moves the start of a split to the last index entry at or below `start`. The reader checks that entry.
fn seek(split: &mut TaskSplit, start: i64) {
    let Some(index) = file::offset_index(&split.path, split.base_offset) else {
        return;
    };
    let Some((before, offset, position)) = entry_below(&index, split.base_offset, start) else {
        return;
    };
    if split.position < position && position < split.end_position {
        // The fallback stays: an unverified position cannot stand for it.
        (split.position, split.entry) = (position, Some((before, offset)));
    }
}

/// The last entry at or below an offset, preceded by the offset of the previous entry; None if there is no useful
/// entry.
fn entry_below(index: &OffsetIndex, base_offset: i64, offset: i64) -> Option<(i64, i64, u64)> {
    let found = index.lookup(offset);
    // An entry for the first batch is useless, and no other batch ends at the base offset.
    if found.position <= 0 || found.offset <= base_offset {
        return None;
    }
    let before = index.lookup(found.offset - 1).offset;
    Some((before, found.offset, u64::try_from(found.position).ok()?))
}
