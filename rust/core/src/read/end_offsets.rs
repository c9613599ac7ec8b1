//! The log end offset at given times, from batch headers.

use crate::base::error::Result;
use crate::format::walk::{NextBatch, next_batch};

/// The search for the log end offset at ascending times.
///
/// A batch was in the log at a time if its largest timestamp and those of all earlier batches are not later.
#[derive(Debug)]
pub struct EndOffsets {
    times: Vec<i64>,
    ends: Vec<i64>,
    /// The offset after the batches so far.
    end: i64,
}

impl EndOffsets {
    /// Starts the search for these times, which must ascend.
    pub fn new(times: Vec<i64>) -> Self {
        Self {
            ends: Vec::with_capacity(times.len()),
            times,
            end: 0,
        }
    }

    /// The first time whose end offset is not known yet.
    pub fn next_time(&self) -> Option<i64> {
        self.times.get(self.ends.len()).copied()
    }

    /// Skips to a batch. All batches before it are earlier than the next time, and end before `offset`.
    pub fn seek(&mut self, offset: i64) {
        self.end = offset;
    }

    /// Reads the whole batches at the start of `data`, which lies at `position`. Returns their size in bytes.
    ///
    /// Stops before a batch that is later than all times.
    pub fn feed(&mut self, data: &[u8], position: u64) -> Result<usize> {
        let mut consumed = 0;
        while let Some(time) = self.next_time() {
            let rest = data.get(consumed..).unwrap_or_default();
            let NextBatch::Batch(header, _) = next_batch(rest, position + consumed as u64)? else {
                break;
            };
            if header.max_timestamp > time {
                self.ends.push(self.end);
            } else {
                self.end = header.last_offset().saturating_add(1);
                consumed += header.size();
            }
        }
        Ok(consumed)
    }

    /// Returns the end offset at each time. If no batch is later than a time, the end offset is `end`.
    pub fn finish(mut self, end: i64) -> Vec<i64> {
        self.ends.resize(self.times.len(), end);
        self.ends
    }
}
