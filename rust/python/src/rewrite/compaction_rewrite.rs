//! `CompactionRewrite`: copies old segments, without the records that a scan dropped, into new ones.

use brokerless_core::{
    CompactionRewrite as Rewrite, LastRecord, Producers, RewriteOptions, TransactionIndex,
};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::rewrite::segment_output::SegmentOutput;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct CompactionRewrite(Rewrite);

segment_rewrite!(CompactionRewrite, {
    #[new]
    #[pyo3(signature = (producers, *, end_offset, delete_horizon_ms, max_batch_bytes, threads=1))]
    fn new(
        py: Python<'_>,
        producers: Bytes,
        end_offset: i64,
        delete_horizon_ms: i64,
        max_batch_bytes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let producers = py
            .detach(|| Producers::from_snapshot(producers.as_slice(), 0, 0, i64::MAX))
            .or_raise()?;
        let last_record = |last: brokerless_core::ProducerState| {
            let record = LastRecord {
                last_offset: last.last_offset,
                producer_epoch: last.producer_epoch,
            };
            (last.producer_id, record)
        };
        let options = RewriteOptions {
            end_offset,
            delete_horizon_ms,
            producers: producers.entries().into_iter().map(last_record).collect(),
            max_batch_bytes,
            threads,
        };
        Rewrite::new(options).map(Self).or_raise()
    }

    fn begin(&mut self, keep: Bytes, stamp: Bytes, txnindex: Bytes) -> PyResult<()> {
        let aborted = TransactionIndex::new(txnindex.as_slice(), 0);
        self.0
            .begin(keep.as_slice(), stamp.as_slice(), &aborted)
            .or_raise()
    }

    #[getter]
    fn records(&self) -> u64 {
        self.0.records
    }

    #[getter]
    fn kept(&self) -> u64 {
        self.0.kept
    }
});
