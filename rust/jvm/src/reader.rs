//! Reads the splits of a task, one after the other.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use brokerless_core::{
    Columns, DEFAULT_MAX_BATCH_BYTES, DecodeOptions, Defect, RowColumn, Search, SplitReader, Step,
};

use crate::column::{self, Flat};
use crate::criteria;
use crate::decoding::{DecodedColumn, Decoding, Place};
use crate::error::TaskError;
use crate::file::{self, Index};
use crate::task::{Task, TaskSplit};

/// The rows and bytes after which a chunk ends.
const CHUNK: (usize, usize) = (64 << 10, 2 << 20);

/// The number of counts in [`TaskReader::counts`].
pub(crate) const COUNTS: usize = 3;

/// A column of the rows.
#[derive(Debug)]
enum Wanted {
    Stored(RowColumn, Flat),
    Decoded(DecodedColumn),
}

/// A reader of one task.
pub struct TaskReader {
    wanted_columns: Vec<Wanted>,
    /// The columns that are read.
    stored: Vec<RowColumn>,
    decoding: Option<Decoding>,
    /// The rows that were returned last, of those in memory.
    shown: Range<usize>,
    check_crcs: bool,
    min_timestamp: i64,
    search: Option<Arc<Search>>,
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
    /// Creates a reader of a task that the planner wrote, for the columns of these names. `decoding` is what the planner
    /// wrote of a decoded read; it is empty for any other. `criteria` are those of a query's filters, as JSON, or empty:
    /// rows that do not meet them are left out.
    pub fn new(
        task: &[u8],
        names: &[String],
        decoding: &[u8],
        criteria: &[u8],
    ) -> Result<Self, TaskError> {
        let task = Task::parse(task)?;
        let mut decoding = match decoding {
            [] => None,
            text => Some(Decoding::parse(text)?),
        };
        let mut wanted_columns = Vec::with_capacity(names.len());
        let mut stored = Vec::new();
        for name in names {
            let decoded = decoding.as_mut().and_then(|decoding| decoding.column(name));
            wanted_columns.push(match (decoded, RowColumn::named(name)) {
                (Some(column), _) => Wanted::Decoded(column),
                (None, Some(column)) => {
                    stored.push(column);
                    Wanted::Stored(column, Flat::default())
                }
                (None, None) => {
                    return Err(TaskError::plain(format!("unknown column {name:?}")));
                }
            });
        }
        stored.extend(decoding.iter().flat_map(Decoding::stored));
        Ok(Self {
            wanted_columns,
            stored,
            decoding,
            shown: 0..0,
            check_crcs: task.check_crcs,
            min_timestamp: task.min_timestamp.unwrap_or(i64::MIN),
            search: criteria::search(criteria)?,
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
        if let Some((_, reader)) = &mut self.split
            && self.shown.end < reader.columns().rows()
        {
            return self.show(self.shown.end).map(Some);
        }
        self.shown = 0..0;
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
                    return self.show(0).map(Some);
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

    /// Decodes the keys and values of the rows in memory from one on, and returns the number of rows to show: all of
    /// these, unless their values are large.
    fn show(&mut self, start: usize) -> Result<usize, TaskError> {
        let Some((split, reader)) = &mut self.split else {
            return Ok(0);
        };
        let columns = reader.columns();
        let end = match &mut self.decoding {
            Some(decoding) => {
                let (topic, partition) = (split.topic.as_deref(), split.partition);
                decoding.decode(columns, start, Place { topic, partition })?
            }
            None => columns.rows(),
        };
        self.shown = start..end;
        Ok(end - start)
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
            columns: RowColumn::decoded(&self.stored),
            check_crcs: self.check_crcs,
            chunk: (CHUNK.0.min(self.wanted), CHUNK.1),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            by_headers: true,
            min_timestamp: self.min_timestamp,
            search: self.search.clone(),
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
        self.kept.bytes() + self.decoding.as_ref().map_or(0, Decoding::bytes)
    }

    /// Returns the addresses of the columns of the last rows, in the order of their names. Valid until the next rows.
    pub fn addresses(&mut self) -> Vec<u64> {
        let mut addresses = Vec::new();
        let Some((split, reader)) = &mut self.split else {
            return addresses;
        };
        let place = (split.topic.as_deref(), split.partition);
        let nulls = &mut self.null_timestamps;
        for wanted in &mut self.wanted_columns {
            match wanted {
                Wanted::Stored(column, flat) => {
                    let found = flat.fill(*column, reader.columns(), place, nulls);
                    addresses.extend(column::from_row(*column, found, self.shown.start));
                }
                Wanted::Decoded(column) => {
                    if let Some(decoding) = &mut self.decoding {
                        decoding.addresses(*column, &mut addresses);
                    }
                }
            }
        }
        addresses
    }

    /// The number and the bytes of the Kafka batches of the last rows, and the number of offsets lost so far. Offsets
    /// lost at an unknown end of the log are not counted.
    pub(crate) fn counts(&mut self) -> [u64; COUNTS] {
        let Some((_, reader)) = &mut self.split else {
            return [0, 0, self.lost_offsets];
        };
        let batches = &reader.columns().batches;
        if self.shown.start > 0 {
            // They were counted with the first of their rows.
            return [0, 0, self.lost_offsets];
        }
        let bytes = batches.iter().map(|batch| batch.header.size() as u64).sum();
        [batches.len() as u64, bytes, self.lost_offsets]
    }

    /// Returns the warnings about the rows so far, for the user: lost offsets, and timestamps that Spark cannot hold.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        warnings.extend(self.decoding.iter().flat_map(Decoding::warnings));
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
