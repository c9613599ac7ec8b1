//! `Decoder`: decodes the bytes of a log to Arrow rows, chunk by chunk.

use arrow_array::RecordBatch;
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{AbortedTransaction, DEFAULT_MAX_BATCH_BYTES, Error, Fetch, Selection};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::read::hand_over::HandOver;
use crate::read::rows::{Projection, RowBuilder};

/// The maximum number of rows of an Arrow batch. Larger batches have no advantage, and a topic's name that is repeated
/// in each row must fit 32-bit offsets.
pub(crate) const MAX_ROWS: usize = 1 << 20;

#[pyclass(module = "brokerless._native")]
pub(crate) struct Decoder {
    pub(crate) decoder: brokerless_core::Decoder,
    rows: RowBuilder,
    pub(crate) hand_over: HandOver,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (columns, *, topic=None, partition=None, start_offset=i64::MIN, end_offset=i64::MAX,
        aborted=vec![], check_crcs=true, max_rows=65536, max_bytes=2 << 20, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES, spark=false,
        order=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        py: Python<'_>,
        columns: Vec<String>,
        topic: Option<String>,
        partition: Option<i32>,
        start_offset: i64,
        end_offset: i64,
        aborted: Vec<(i64, i64, i64)>,
        check_crcs: bool,
        max_rows: usize,
        max_bytes: usize,
        max_batch_bytes: usize,
        spark: bool,
        order: Option<(i64, i64)>,
    ) -> PyResult<Self> {
        let aborted: Vec<_> = aborted.into_iter().map(AbortedTransaction::from).collect();
        let mut selection = Selection::new(&aborted);
        selection.start_offset = start_offset;
        selection.end_offset = end_offset;
        let projection = Projection::new(&columns, spark).or_raise()?;
        Ok(Self {
            hand_over: HandOver::new(py, &projection.schema)?,
            decoder: brokerless_core::Decoder::new(
                Fetch::new(selection, check_crcs, max_batch_bytes),
                projection.empty_columns(),
                (max_rows.min(MAX_ROWS), max_bytes),
                order,
                check_crcs,
            ),
            rows: RowBuilder::new(projection, topic, partition),
        })
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.rows.schema().to_pyarrow(py)
    }

    /// The size in bytes of the batch after the consumed bytes; 0 if unknown.
    #[getter]
    fn needed(&self) -> usize {
        self.decoder.needed
    }

    /// The offset after the last consumed batch; -1 before any.
    #[getter]
    fn next_offset(&self) -> i64 {
        self.decoder.next_offset
    }

    /// Timestamps that became null because Spark's type cannot hold them.
    #[getter]
    fn null_timestamps(&self) -> u64 {
        self.rows.null_timestamps
    }

    #[pyo3(signature = (data, position=0))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        data: Bytes,
        position: u64,
    ) -> PyResult<(Option<Bound<'py, PyAny>>, usize)> {
        let (rows, consumed) = py
            .detach(|| self.chunk(data.as_slice(), position))
            .or_raise()?;
        Ok((
            rows.map(|rows| self.hand_over.rows(py, rows)).transpose()?,
            consumed,
        ))
    }
}

impl Decoder {
    fn chunk(&mut self, data: &[u8], position: u64) -> Result<(Option<RecordBatch>, usize), Error> {
        let consumed = self.decoder.decode(data, position)?;
        Ok((self.take()?, consumed))
    }

    /// Takes the rows of the last call; None without rows.
    pub(crate) fn take(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.rows.take(&mut self.decoder.columns)
    }
}
