//! `Soundness`: which batches of a segment are sound, by their headers and checksums.

use brokerless_core::Soundness as Check;
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;

/// Position, end position, first offset, next offset.
type Place = (u64, u64, i64, i64);
/// The same, and whether offsets of it are missing from the batches that stay.
type Dropped = (u64, u64, i64, i64, bool);

/// From the first one to before the other.
type Offsets = (i64, i64);

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Soundness(Check);

#[pymethods]
impl Soundness {
    #[new]
    #[pyo3(signature = (base_offset, limit, *, check_crcs=true, collects=false))]
    fn new(base_offset: i64, limit: i64, check_crcs: bool, collects: bool) -> Self {
        Self(Check::new(base_offset, limit, check_crcs, collects))
    }

    fn check(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.check(data.as_slice(), position))
            .map_err(|error| to_py(py, error))
    }

    fn start_run(&mut self) {
        self.0.start_run();
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }

    #[getter]
    fn first_offset(&self) -> Option<i64> {
        self.0.first_offset
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.0.next_offset
    }

    #[getter]
    fn is_rising(&self) -> bool {
        self.0.is_rising
    }

    /// The batches that stay, neighbours put together, and the others; and the offsets of those that stay.
    #[pyo3(signature = (*, is_limited))]
    fn rising(&self, py: Python<'_>, is_limited: bool) -> (Vec<Place>, Vec<Dropped>, Vec<Offsets>) {
        py.detach(|| {
            let (places, stays) = self.0.rising();
            let mut kept: Vec<Place> = Vec::new();
            let mut runs: Vec<Place> = Vec::new();
            let mut dropped = Vec::new();
            for (place, stays) in places.iter().zip(stays) {
                let (position, end) = (place.position, place.end_position);
                let found = (position, end, place.first_offset, place.next_offset);
                if !stays {
                    dropped.push(found);
                    continue;
                }
                kept.push(found);
                match runs.last_mut() {
                    Some(run) if run.1 == position => (run.1, run.3) = (end, found.3),
                    _ => runs.push(found),
                }
            }
            // Some of its offsets are those of no batch that stays, below the last of them, or where the segment surely ends.
            let is_missed = |first: i64, next: i64| {
                let behind = kept.partition_point(|batch| batch.3 <= first);
                let shared = kept.iter().skip(behind).take_while(|batch| batch.2 < next);
                let covered: i64 = shared
                    .map(|batch| batch.3.min(next).saturating_sub(batch.2.max(first)))
                    .sum();
                let last = kept.last().map_or(i64::MIN, |last| last.3);
                let end = if is_limited {
                    last.max(self.0.limit())
                } else {
                    last
                };
                // Or the log goes on with it.
                let is_within = covered > 0 || next <= end || first == last;
                is_within && covered < next.saturating_sub(first)
            };
            let dropped = dropped.into_iter();
            let others = dropped
                .map(|(at, end, first, next)| (at, end, first, next, is_missed(first, next)));
            let mut covered: Vec<Offsets> = Vec::new();
            for &(_, _, first, next) in &kept {
                match covered.last_mut() {
                    Some(range) if range.1 == first => range.1 = next,
                    _ => covered.push((first, next)),
                }
            }
            (runs, others.collect(), covered)
        })
    }
}
