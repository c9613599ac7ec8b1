//! Reads the splits of a task, one after the other.

use std::fs::File;
use std::sync::Arc;

use brokerless_core::{
    Columns, DEFAULT_MAX_BATCH_BYTES, DecodeOptions, Defect, RowColumn, SplitReader, Step,
};

use crate::column::{Addresses, Flat};
use crate::error::TaskError;
use crate::file::{self, Index};
use crate::task::{Task, TaskSplit};

/// The rows and bytes after which a chunk ends.
const CHUNK: (usize, usize) = (64 << 10, 2 << 20);

/// The number of counts in [`TaskReader::counts`].
pub(crate) const COUNTS: usize = 3;

/// A reader of one task.
pub struct TaskReader {
    columns: Vec<RowColumn>,
    flat: Vec<Flat>,
    check_crcs: bool,
    min_timestamp: i64,
    /// The number of rows that are still wanted.
    wanted: usize,
    splits: std::vec::IntoIter<TaskSplit>,
    split: Option<(TaskSplit, SplitReader<Arc<File>, Index>)>,
    /// The last rows, after [`TaskReader::stop`].
    kept: Columns,
    /// The warnings about the rows so far, for the user.
    warnings: Vec<String>,
    lost_offsets: u64,
    null_timestamps: u64,
}

impl TaskReader {
    /// Creates a reader of a task that the planner wrote, for the columns of these names.
    pub fn new(task: &[u8], names: &[String]) -> Result<Self, TaskError> {
        let task = Task::parse(task)?;
        let columns = names
            .iter()
            .map(|name| {
                RowColumn::named(name)
                    .ok_or_else(|| TaskError::plain(format!("unknown column {name:?}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            flat: columns.iter().map(|_| Flat::default()).collect(),
            columns,
            check_crcs: task.check_crcs,
            min_timestamp: task.min_timestamp.unwrap_or(i64::MIN),
            wanted: task.limit.unwrap_or(usize::MAX),
            splits: task.splits.into_iter(),
            split: None,
            kept: Columns::default(),
            warnings: Vec::new(),
            lost_offsets: 0,
            null_timestamps: 0,
        })
    }

    /// Decodes the next rows, and returns their number; None at the end. [`TaskReader::addresses`] returns their
    /// addresses.
    ///
    /// Ends when it has returned the task's limit of rows. It may return more rows, because it decodes whole batches.
    pub fn next_rows(&mut self) -> Result<Option<usize>, TaskError> {
        while self.wanted > 0 {
            let Some((split, reader)) = &mut self.split else {
                match self.splits.next() {
                    None => break,
                    Some(split) => self.split = Some(self.open(split)?),
                }
                continue;
            };
            reader.columns().reuse();
            let step = reader
                .step()
                .map_err(|error| TaskError::of_read(error, &split.path))?;
            match step {
                Some(Step::Rows) => {
                    let rows = reader.columns().rows();
                    self.wanted = self.wanted.saturating_sub(rows);
                    return Ok(Some(rows));
                }
                Some(Step::Lost(lost)) => {
                    let end = lost.end_offset.unwrap_or(lost.start_offset);
                    let count = u64::try_from(i128::from(end) - i128::from(lost.start_offset));
                    let lost_offsets = self.lost_offsets.saturating_add(count.unwrap_or(0));
                    self.lost_offsets = lost_offsets.min(i64::MAX as u64);
                    self.warnings.push(in_words(lost, &split.path));
                }
                Some(Step::Missing(missing)) => {
                    return Err(TaskError::corrupt(
                        &missing.reason,
                        missing.path.as_deref().unwrap_or(&split.path),
                        missing.position,
                        None,
                    ));
                }
                None => self.split = None,
            }
        }
        Ok(None)
    }

    fn open(
        &self,
        split: TaskSplit,
    ) -> Result<(TaskSplit, SplitReader<Arc<File>, Index>), TaskError> {
        let planned = split.planned();
        let (file, is_planned) = if planned.is_absent() {
            (None, true)
        } else {
            let (file, is_planned) = file::open(&split)?;
            (Some(file), is_planned)
        };
        let options = DecodeOptions {
            columns: RowColumn::decoded(&self.columns),
            check_crcs: self.check_crcs,
            chunk: (CHUNK.0.min(self.wanted), CHUNK.1),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            by_headers: true,
            min_timestamp: self.min_timestamp,
        };
        let reader = SplitReader::new(planned, file, is_planned, Index::of(&split), options)
            .map_err(|error| TaskError::of_read(error, &split.path))?;
        Ok((split, reader))
    }

    /// Closes the file, and ends. The columns of the last rows stay in memory. Returns their size in bytes.
    pub fn stop(&mut self) -> usize {
        self.wanted = 0;
        if let Some((_, mut reader)) = self.split.take() {
            self.kept = std::mem::take(reader.columns());
        }
        self.kept.bytes()
    }

    /// Returns the addresses of the columns of the last rows, in the order of their names. Valid until the next rows.
    pub fn addresses(&mut self) -> impl Iterator<Item = Addresses> {
        let nulls = &mut self.null_timestamps;
        let split = &mut self.split;
        self.columns
            .iter()
            .zip(&mut self.flat)
            .filter_map(move |(&column, flat)| {
                let (split, reader) = split.as_mut()?;
                let place = (split.topic.as_deref(), split.partition);
                Some(flat.fill(column, reader.columns(), place, nulls))
            })
    }

    /// The number and the bytes of the Kafka batches of the last rows, and the number of offsets lost so far. Offsets
    /// lost at an unknown end of the log are not counted.
    pub(crate) fn counts(&mut self) -> [u64; COUNTS] {
        let Some((_, reader)) = &mut self.split else {
            return [0, 0, self.lost_offsets];
        };
        let batches = &reader.columns().batches;
        let bytes = batches.iter().map(|batch| batch.header.size() as u64).sum();
        [batches.len() as u64, bytes, self.lost_offsets]
    }

    /// Returns the warnings about the rows so far, for the user: lost offsets, and timestamps that Spark cannot hold.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if self.null_timestamps > 0 {
            warnings.push(format!(
                "{} timestamps are beyond Spark's range: null",
                self.null_timestamps
            ));
        }
        warnings
    }
}

/// Lost offsets, worded as in `brokerless.log.reader.LostRange`.
fn in_words(lost: Defect, path: &str) -> String {
    let offsets = match lost.end_offset {
        None => format!("lost: offset {} and all later ones", lost.start_offset),
        Some(end) if end > lost.start_offset => {
            format!("lost: offsets {} to {}", lost.start_offset, end - 1)
        }
        Some(_) => "lost: no offset".to_owned(),
    };
    let path = lost.path.as_deref().unwrap_or(path);
    format!("{offsets} at {path}:{}: {}", lost.position, lost.reason)
}
