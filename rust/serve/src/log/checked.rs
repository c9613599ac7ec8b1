//! The ranges of a segment that have been checked.

use std::sync::Mutex;

use crate::base::sync::lock;

/// The most ranges that are remembered. Clients mostly read from one end to the other, so that few remain.
const MOST_RANGES: usize = 256;

/// The ranges of a segment that have been checked, so that a batch is checked once, however many clients read it.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<Vec<(u64, u64)>>);

impl Checked {
    /// Returns the first position from a position on that has not been checked.
    pub(crate) fn first_unchecked(&self, position: u64) -> u64 {
        let ranges = lock(&self.0);
        let holds = ranges
            .iter()
            .find(|(start, end)| *start <= position && position < *end);
        holds.map_or(position, |(_, end)| *end)
    }

    /// Adds a range. Ranges that touch become one.
    pub(crate) fn add(&self, start: u64, end: u64) {
        let mut ranges = lock(&self.0);
        let (mut low, mut high) = (start, end);
        ranges.retain(|&(from, to)| {
            let touches = from <= high && low <= to;
            if touches {
                (low, high) = (low.min(from), high.max(to));
            }
            !touches
        });
        if ranges.len() >= MOST_RANGES {
            ranges.remove(0);
        }
        ranges.push((low, high));
    }
}
