//! `Decoder`: decodes the bytes of a log to Arrow rows, chunk by chunk.

use arrow_array::RecordBatch;
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{
    AbortedTransaction, DEFAULT_MAX_BATCH_BYTES, Error, Fetch, Header, NextBatch, Progress,
    Selection, check_first_offset, check_offset_range, framing_holds, next_batch,
};
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::to_py;
use crate::hand_over::HandOver;
use crate::rows::{Projection, RowBuilder};

/// The most rows of an Arrow batch. Larger ones have no use, and a topic's name repeated in each row must fit 32-bit
/// offsets.
const MAX_ROWS: usize = 1 << 20;

#[pyclass(module = "brokerless._native")]
pub(crate) struct Decoder {
    fetch: Fetch,
    rows: RowBuilder,
    hand_over: HandOver,
    max_rows: usize,
    max_bytes: usize,
    /// Bytes that the batch after the consumed ones needs; 0 if unknown.
    #[pyo3(get)]
    needed: usize,
    /// The offset after the last consumed batch; -1 before any.
    #[pyo3(get)]
    next_offset: i64,
    /// The lowest offset that the next batch may have, and the first that no batch may have. None: any.
    order: Option<(i64, i64)>,
    check_crcs: bool,
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
        let projection = Projection::new(&columns, spark).map_err(|error| to_py(py, error))?;
        Ok(Self {
            hand_over: HandOver::new(py, &projection.schema)?,
            fetch: Fetch::new(selection, check_crcs, max_batch_bytes),
            rows: RowBuilder::new(projection, topic, partition),
            max_rows: max_rows.min(MAX_ROWS),
            max_bytes,
            needed: 0,
            next_offset: -1,
            order,
            check_crcs,
        })
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.rows.schema().to_pyarrow(py)
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
            .map_err(|error| to_py(py, error))?;
        Ok((
            rows.map(|rows| self.hand_over.rows(py, rows)).transpose()?,
            consumed,
        ))
    }

    /// Refuses a first batch in `data` that does not continue where the last one ended. `first_offset` is that of its
    /// first record, which a wrapper's header does not tell.
    #[pyo3(signature = (data, position, first_offset=None))]
    fn check_order(
        &self,
        py: Python<'_>,
        data: Bytes,
        position: u64,
        first_offset: Option<i64>,
    ) -> PyResult<()> {
        // Decoding reports what is wrong with a header.
        match (
            self.order,
            Header::parse(data.as_slice(), position).ok().flatten(),
        ) {
            (Some((next_offset, limit)), Some(header)) => {
                check_offset_range(&header, next_offset, limit)
                    .and_then(|()| {
                        check_first_offset(first_offset.unwrap_or(i64::MAX), next_offset)
                    })
                    .map_err(|error| to_py(py, error.at(position, Some(header.base_offset))))
            }
            _ => Ok(()),
        }
    }
}

impl Decoder {
    /// Decodes whole batches until there are enough rows, the bytes end, or a batch is damaged.
    fn chunk(&mut self, data: &[u8], position: u64) -> Result<(Option<RecordBatch>, usize), Error> {
        let mut consumed = 0;
        self.needed = 0;
        while self.rows.columns.rows() < self.max_rows && self.rows.columns.bytes() < self.max_bytes
        {
            let rest = data.get(consumed..).unwrap_or_default();
            let (header, entry) = match next_batch(rest, position + consumed as u64) {
                Ok(NextBatch::Batch(header, entry)) => (header, entry),
                Ok(NextBatch::NeedMore(bytes)) => {
                    self.needed = bytes;
                    break;
                }
                Err(_) if self.has_progress(consumed) => break,
                Err(error) => return Err(error),
            };
            let taken = self
                .is_in_order(&header, entry)
                .and_then(|()| self.fetch.batch(&header, rest, &mut self.rows.columns));
            match taken {
                Ok(Progress::Complete) => {
                    consumed += header.size();
                    self.next_offset = header.next_offset();
                    if let Some((next_offset, _)) = &mut self.order {
                        *next_offset = self.next_offset;
                        self.fetch.next_offset = self.next_offset;
                    }
                }
                // The next call continues with this batch. If none of its rows were wanted, there is nothing to return
                // yet.
                Ok(Progress::Partial) if self.rows.columns.rows() == 0 => {}
                Ok(Progress::Partial | Progress::ColumnsFull) => break,
                // The rows before the damage are returned first. The next call starts at it and reports it.
                Err(_) if self.has_progress(consumed) => break,
                Err(mut error) => {
                    let after = rest.get(entry.len()..).unwrap_or_default();
                    if framing_holds(after, header.end_position(), header.base_offset) {
                        error.next_position = Some(header.end_position());
                    }
                    return Err(error);
                }
            }
        }
        if self.rows.columns.rows() == 0 {
            return Ok((None, consumed));
        }
        let rows = self
            .rows
            .finish()
            .map_err(|error| Error::invalid(error.to_string()))?;
        Ok((Some(rows), consumed))
    }

    /// Checks a batch's offsets before it may be skipped by them: no checksum covers them.
    fn is_in_order(&self, header: &Header, entry: &[u8]) -> Result<(), Error> {
        let Some((next_offset, limit)) = self.order else {
            return Ok(());
        };
        check_offset_range(header, next_offset, limit).map_err(|error| {
            let summed = if self.check_crcs {
                header.check_crc(entry)
            } else {
                Ok(())
            };
            // If the header itself is damaged, that is the error to report.
            summed
                .err()
                .unwrap_or(error)
                .at(header.position, Some(header.base_offset))
        })
    }

    fn has_progress(&self, consumed: usize) -> bool {
        consumed > 0 || self.rows.columns.rows() > 0
    }
}
