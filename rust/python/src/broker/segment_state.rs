//! `SegmentState`: the active segment after the load of a log.

use brokerless_core::{OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;

#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct SegmentState {
    pub(crate) base_offset: i64,
    pub(crate) size: u64,
    pub(crate) created_ms: i64,
    pub(crate) first_timestamp: Option<i64>,
    pub(crate) max_timestamp: Option<TimestampOffset>,
    pub(crate) index: OffsetIndex,
    pub(crate) timeindex: TimeIndex,
    pub(crate) last_txn_offset: Option<i64>,
}

#[pymethods]
impl SegmentState {
    #[new]
    #[pyo3(signature = (base_offset, *, created_ms, size=0, first_timestamp=None, index=None, timeindex=None,
        txnindex=None, max_timestamp=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        base_offset: i64,
        created_ms: i64,
        size: u64,
        first_timestamp: Option<i64>,
        index: Option<Bytes>,
        timeindex: Option<Bytes>,
        txnindex: Option<Bytes>,
        max_timestamp: Option<(i64, i64)>,
    ) -> PyResult<Self> {
        let bytes = |file: &Option<Bytes>| file.as_ref().map_or(vec![], |b| b.as_slice().to_vec());
        let transactions = TransactionIndex::new(&bytes(&txnindex), base_offset)
            .entries()
            .last()
            .transpose()
            .or_raise()?;
        Ok(Self {
            base_offset,
            size,
            created_ms,
            first_timestamp,
            max_timestamp: max_timestamp
                .map(|(timestamp, offset)| TimestampOffset { timestamp, offset }),
            // A tail of zeros counts, as for Kafka.
            index: OffsetIndex::new(&bytes(&index), base_offset, true),
            timeindex: TimeIndex::new(&bytes(&timeindex), base_offset, true),
            last_txn_offset: transactions.map(|entry| entry.last_offset),
        })
    }
}
