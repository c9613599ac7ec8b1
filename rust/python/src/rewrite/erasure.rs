//! `ErasureScan` and `SegmentErasure`: find records to erase, and write segments without them.

use brokerless_core::{
    DEFAULT_MAX_BATCH_BYTES, Eraser, ErasureScan as Scan, RecordMatcher, Result, Rewriter,
    SegmentOutput as Output, TransactionIndex,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::rewrite::segment_output::SegmentOutput;

/// The records to erase in a segment.
#[pyclass(module = "brokerless._native", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct ErasedRecords {
    bits: Py<PyBytes>,
    records: u64,
    bytes: u64,
    ranges: Vec<(i64, i64)>,
    examined: u64,
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct ErasureScan(Scan);

#[pymethods]
impl ErasureScan {
    #[new]
    #[pyo3(signature = (*, keys=vec![], key_prefixes=vec![], headers=vec![], blank=false, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES))]
    fn new(
        keys: Vec<Vec<u8>>,
        key_prefixes: Vec<Vec<u8>>,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        blank: bool,
        max_batch_bytes: usize,
    ) -> Self {
        let matcher = RecordMatcher {
            keys: keys.into_iter().collect(),
            key_prefixes,
            headers,
        };
        Self(Scan::new(matcher, blank, max_batch_bytes))
    }

    fn begin(&mut self, base_offset: i64, limit: i64) {
        self.0.begin(base_offset, limit);
    }

    fn feed(&mut self, py: Python<'_>, data: Bytes, position: u64) -> PyResult<usize> {
        py.detach(|| self.0.feed(data.as_slice(), position))
            .or_raise()
    }

    fn take(&mut self, py: Python<'_>) -> ErasedRecords {
        let found = self.0.take();
        ErasedRecords {
            bits: PyBytes::new(py, &found.bits).unbind(),
            records: found.records,
            bytes: found.bytes,
            ranges: found.ranges,
            examined: found.examined,
        }
    }

    #[getter]
    fn needed(&self) -> usize {
        self.0.needed
    }
}

/// An eraser and the segments that it rewrites.
#[derive(Debug)]
struct Erasure {
    eraser: Eraser,
    rewriter: Rewriter,
}

impl Erasure {
    fn feed(&mut self, data: &[u8], position: u64, output: &mut Output) -> Result<usize> {
        let Self { eraser, rewriter } = self;
        rewriter.feed(eraser, data, position, output)
    }

    fn finish(&mut self, output: &mut Output) -> Result<bool> {
        self.rewriter.finish(&mut self.eraser, output)
    }

    fn needed(&self) -> usize {
        self.rewriter.needed
    }

    fn is_full(&self) -> bool {
        self.rewriter.is_full
    }
}

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentErasure(Erasure);

segment_rewrite!(SegmentErasure, {
    #[new]
    #[pyo3(signature = (*, blank=false, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES))]
    fn new(blank: bool, max_batch_bytes: usize) -> Self {
        Self(Erasure {
            eraser: Eraser::new(blank, max_batch_bytes),
            rewriter: Rewriter::new(u64::MAX),
        })
    }

    fn begin(&mut self, erased: Bytes, txnindex: Bytes, max_segment_bytes: u64) -> PyResult<()> {
        let Erasure { eraser, rewriter } = &mut self.0;
        eraser.begin(erased.as_slice());
        *rewriter = Rewriter::new(max_segment_bytes);
        let aborted = TransactionIndex::new(txnindex.as_slice(), 0);
        rewriter.begin(&aborted).or_raise()
    }
});
