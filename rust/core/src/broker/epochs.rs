//! Leader epochs and their start offsets (`LeaderEpochFileCache`).
//!
//! Leader epochs and start offsets both ascend. If a new entry contradicts older entries, the older entries are
//! dropped, because the newest leader is right.

use crate::base::error::{Error, Result};

/// The leader epochs of one log, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<(i32, i64)>,
}

impl LeaderEpochs {
    /// Creates the list from (leader epoch, start offset) pairs in any order. If an epoch has several pairs, the last
    /// pair is used, as in Kafka's reader.
    pub fn new(entries: impl IntoIterator<Item = (i32, i64)>) -> Self {
        let mut all: Vec<_> = entries.into_iter().collect();
        all.sort_by_key(|&(epoch, _)| epoch);
        let mut entries: Vec<(i32, i64)> = Vec::with_capacity(all.len());
        for entry in all {
            match entries.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => entries.push(entry),
            }
        }
        Self { entries }
    }

    /// (epoch, start offset), ascending.
    pub fn entries(&self) -> &[(i32, i64)] {
        &self.entries
    }

    /// The newest leader epoch.
    pub fn latest(&self) -> Option<i32> {
        self.entries.last().map(|&(epoch, _)| epoch)
    }

    /// Assigns a start offset to `epoch`; returns true if anything changed.
    pub fn assign(&mut self, epoch: i32, start_offset: i64) -> Result<bool> {
        if epoch < 0 || start_offset < 0 {
            return Err(Error::invalid(format!(
                "leader epoch {epoch} starting at offset {start_offset}: neither may be negative"
            )));
        }
        if let Some(&(latest, start)) = self.entries.last()
            && latest == epoch
            && start_offset >= start
        {
            return Ok(false);
        }
        while let Some(&(latest, start)) = self.entries.last()
            && (latest >= epoch || start >= start_offset)
        {
            self.entries.pop();
        }
        self.entries.push((epoch, start_offset));
        Ok(true)
    }

    /// Drops the epochs that began at `end_offset` or later; returns true if there were any.
    pub fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        let before = self.entries.len();
        while let Some(&(_, start)) = self.entries.last()
            && start >= end_offset.max(0)
        {
            self.entries.pop();
        }
        self.entries.len() < before
    }

    /// Drops the epochs that ended at or before `start_offset`. The epoch that contains `start_offset` then starts at
    /// this offset. Returns true if anything changed.
    pub fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        let begun = self
            .entries
            .iter()
            .take_while(|&&(_, start)| start <= start_offset)
            .count();
        let Some(ended) = begun.checked_sub(1) else {
            return false;
        };
        self.entries.drain(..ended);
        let is_cut = |first: &&mut (i32, i64)| ended > 0 || first.1 != start_offset;
        match self.entries.first_mut().filter(is_cut) {
            Some(first) => {
                first.1 = start_offset;
                true
            }
            None => false,
        }
    }

    /// Drops all epochs; returns true if there were any.
    pub fn clear(&mut self) -> bool {
        let had_any = !self.entries.is_empty();
        self.entries.clear();
        had_any
    }

    /// Returns the greatest epoch that is not above `requested`, and the offset after its last record. Returns (-1, -1)
    /// for an epoch that is newer than this log's newest epoch.
    pub fn end_offset_for(&self, requested: i32, log_end_offset: i64) -> (i32, i64) {
        const UNKNOWN: (i32, i64) = (-1, -1);
        let Some(&(latest, _)) = self.entries.last() else {
            return UNKNOWN;
        };
        if requested < 0 || requested > latest {
            return UNKNOWN;
        }
        if requested == latest {
            return (latest, log_end_offset);
        }
        let above = self
            .entries
            .partition_point(|&(epoch, _)| epoch <= requested);
        let end = self
            .entries
            .get(above)
            .map_or(log_end_offset, |&(_, start)| start);
        let floor = above.checked_sub(1).and_then(|at| self.entries.get(at));
        (floor.map_or(requested, |&(epoch, _)| epoch), end)
    }
}
