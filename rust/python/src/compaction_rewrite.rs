//! `CompactionRewrite`: old segments and the verdicts on their records, into new ones. Batches are filtered by several
//! threads, and pushed in order.

use brokerless_core::{
    BatchFilter, CompactionRewrite as Rewrite, LastRecord, Producers, Result, RewriteOptions,
    TransactionIndex,
};
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;
use crate::segment_output::SegmentOutput;
use crate::share::{share, workers};

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct CompactionRewrite {
    rewrite: Rewrite,
    filters: Vec<BatchFilter>,
}

/// Batches that a thread takes at a time.
const TOGETHER: usize = 16;

impl CompactionRewrite {
    fn feed_all(
        &mut self,
        data: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        if self.filters.is_empty() {
            return self.rewrite.feed(data, position, &mut output.0);
        }
        if !self.rewrite.resume(&mut output.0)? {
            return Ok(0);
        }
        let (taken, pieces) = self.rewrite.walk(data, position)?;
        let verdicts = self.rewrite.verdicts();
        let parts: Vec<_> = pieces.chunks(TOGETHER).collect();
        let left = share(
            &mut self.filters,
            &parts,
            || (),
            |filter, pieces| {
                let (mut left, mut ends) = (Vec::new(), Vec::with_capacity(pieces.len()));
                for piece in *pieces {
                    verdicts.filter(piece, data, filter, &mut left)?;
                    ends.push(left.len());
                }
                Ok((left, ends))
            },
        )?;
        for (pieces, (left, ends)) in parts.iter().zip(&left) {
            let mut start = 0;
            for (piece, &end) in pieces.iter().zip(ends) {
                let batches = left.get(start..end).unwrap_or_default();
                self.rewrite.put(piece, batches, &mut output.0)?;
                start = end;
            }
        }
        Ok(taken)
    }
}

#[pymethods]
impl CompactionRewrite {
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
            .map_err(|error| to_py(py, error))?;
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
        };
        Ok(Self {
            rewrite: Rewrite::new(options),
            filters: (0..workers(threads))
                .map(|_| BatchFilter::new(max_batch_bytes))
                .collect(),
        })
    }

    fn begin(
        &mut self,
        py: Python<'_>,
        keep: Bytes,
        stamp: Bytes,
        txnindex: Bytes,
    ) -> PyResult<()> {
        let aborted = TransactionIndex::new(txnindex.as_slice(), 0);
        self.rewrite
            .begin(keep.as_slice(), stamp.as_slice(), &aborted)
            .map_err(|error| to_py(py, error))
    }

    fn feed(
        &mut self,
        py: Python<'_>,
        data: Bytes,
        position: u64,
        output: &mut SegmentOutput,
    ) -> PyResult<usize> {
        py.detach(|| self.feed_all(data.as_slice(), position, output))
            .map_err(|error| to_py(py, error))
    }

    fn finish(&mut self, py: Python<'_>, output: &mut SegmentOutput) -> PyResult<()> {
        self.rewrite
            .finish(&mut output.0)
            .map_err(|error| to_py(py, error))
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.rewrite.is_full()
    }

    #[getter]
    fn needed(&self) -> usize {
        self.rewrite.needed
    }

    #[getter]
    fn records(&self) -> u64 {
        self.rewrite.records
    }

    #[getter]
    fn kept(&self) -> u64 {
        self.rewrite.kept
    }
}
