//! `CompactionScan` and `SegmentVerdicts`: decide which records of a log stay.

use brokerless_core::{CompactionScan as Scan, HashRange, Phase, ScanOptions, TransactionIndex};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct SegmentVerdicts {
    first_number: u64,
    keep: Py<PyBytes>,
    stamp: Py<PyBytes>,
    txnindex: Py<PyBytes>,
    records: u64,
    aborted: u64,
    control: u64,
    discarded: u64,
    expired: u64,
    unkeyed: u64,
    first_unkeyed: Option<i64>,
    tombstones: u64,
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct CompactionScan(Scan);

#[pymethods]
impl CompactionScan {
    #[new]
    #[pyo3(signature = (txnindexes, *, log_start_offset, first_dirty_offset, now, hash_key, hash_range, max_bytes,
        max_batch_bytes, threads=1))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        py: Python<'_>,
        txnindexes: Vec<Bytes>,
        log_start_offset: i64,
        first_dirty_offset: i64,
        now: i64,
        hash_key: (u64, u64),
        hash_range: (u64, u64),
        max_bytes: usize,
        max_batch_bytes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let (start, width) = hash_range;
        let options = ScanOptions {
            log_start_offset,
            first_dirty_offset,
            now,
            hash_key: [hash_key.0, hash_key.1],
            range: HashRange { start, width },
            max_bytes,
            max_batch_bytes,
            threads,
        };
        py.detach(|| {
            let index = |data: &Bytes| TransactionIndex::new(data.as_slice(), 0);
            Scan::new(options, txnindexes.iter().map(index).collect())
        })
        .map(Self)
        .or_raise()
    }

    #[pyo3(signature = (phase, *, keeps_legacy_tombstones=true))]
    fn begin(&mut self, phase: &str, keeps_legacy_tombstones: bool) -> PyResult<()> {
        let phase = match phase {
            "follow" => Phase::Follow,
            "dirty" => Phase::Dirty,
            "clean" => Phase::Clean,
            other => {
                return Err(PyValueError::new_err(format!(
                    "phase {other:?}: follow, dirty or clean expected"
                )));
            }
        };
        self.0.begin(phase, keeps_legacy_tombstones).or_raise()
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.feed(data.as_slice(), position))
            .or_raise()
    }

    fn finish(&mut self, py: Python<'_>) -> SegmentVerdicts {
        let found = self.0.finish();
        SegmentVerdicts {
            first_number: found.first_number,
            keep: PyBytes::new(py, &found.keep).unbind(),
            stamp: PyBytes::new(py, &found.stamp).unbind(),
            txnindex: PyBytes::new(py, &found.txnindex).unbind(),
            records: found.records,
            aborted: found.counts.aborted,
            control: found.counts.control,
            discarded: found.counts.discarded,
            expired: found.expired,
            unkeyed: found.counts.unkeyed,
            first_unkeyed: found.counts.first_unkeyed,
            tombstones: found.counts.tombstones,
        }
    }

    fn newest<'py>(&self, py: Python<'py>, first: u64, end: u64) -> [Bound<'py, PyBytes>; 3] {
        let newest = py.detach(|| self.0.newest(first, end));
        [newest.keep, newest.stamp, newest.expired].map(|bits| PyBytes::new(py, &bits))
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }

    #[getter]
    fn keys(&self) -> usize {
        self.0.keys()
    }

    #[getter]
    fn next_hash_range(&self) -> Option<(u64, u64)> {
        self.0.range().next().map(|next| (next.start, next.width))
    }
}
