//! `SplitReader` and `RunReader`: the rows of an open `.log` as Arrow, and the losses between them.

use arrow_array::RecordBatch;
use brokerless_core::{
    AbortedTransaction, BatchRange, DEFAULT_MAX_BATCH_BYTES, DecodeOptions, Defect, Part,
    ReadError, RowsOrDefect, SegmentFiles, Split, Step, SurveyReader,
};
use pyo3::prelude::*;

use crate::base::error::{OrRaise as _, raised};
use crate::base::file::AnyFile;
use crate::read::decoder::{Decoder, MAX_ROWS};
use crate::read::defect::{DefectFields, PyDefect, fields};
use crate::read::hand_over::HandOver;
use crate::read::rows::{Projection, RowBuilder};
use crate::read::search::Search;

/// The fields of `brokerless.log.split.Split` that reading needs.
#[derive(FromPyObject)]
struct PlannedSplit {
    topic: Option<String>,
    partition: Option<i32>,
    base_offset: i64,
    position: u64,
    end_position: u64,
    start_offset: i64,
    end_offset: i64,
    following_offset: Option<i64>,
    entry: Option<(i64, i64)>,
    fallback_position: u64,
    file_size: Option<u64>,
    aborted: Vec<(i64, i64, i64)>,
    on_corrupt: String,
    limit_offset: Option<i64>,
    ends_segment: bool,
    missing: Vec<PyDefect>,
    trusts_index: bool,
}

impl From<PlannedSplit> for Split {
    fn from(split: PlannedSplit) -> Self {
        Self {
            base_offset: split.base_offset,
            position: split.position,
            end_position: split.end_position,
            start_offset: split.start_offset,
            end_offset: split.end_offset,
            following_offset: split.following_offset,
            entry: split.entry,
            fallback_position: split.fallback_position,
            file_size: split.file_size,
            aborted: split
                .aborted
                .into_iter()
                .map(AbortedTransaction::from)
                .collect(),
            skips: split.on_corrupt == "skip",
            limit_offset: split.limit_offset,
            ends_segment: split.ends_segment,
            missing: split.missing.into_iter().map(Defect::from).collect(),
            trusts_index: split.trusts_index,
        }
    }
}

/// A Python function that reads the segment's index.
#[derive(Debug)]
struct Index(Py<PyAny>);

impl SegmentFiles for Index {
    type Error = PyErr;

    fn cut_short(&self, next_offset: i64) -> PyResult<Option<Defect>> {
        Python::attach(|py| {
            let missing: Option<PyDefect> = self.0.call1(py, (next_offset,))?.extract(py)?;
            Ok(missing.map(Defect::from))
        })
    }
}

#[derive(IntoPyObject)]
enum PyRowsOrDefect<'py> {
    Rows(Bound<'py, PyAny>),
    Defect(DefectFields),
}

enum Found {
    Rows(RecordBatch),
    Lost(Defect),
    Missing(Defect),
}

#[pyclass(module = "brokerless._native")]
pub(crate) struct SplitReader {
    reader: brokerless_core::SplitReader<AnyFile, Index>,
    rows: RowBuilder,
    hand_over: HandOver,
}

#[pymethods]
impl SplitReader {
    #[new]
    #[pyo3(signature = (split, file, columns, *, is_planned, cut_short, check_crcs=true, max_rows=65536,
        max_bytes=2 << 20, spark=false, search=None, by_headers=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        py: Python<'_>,
        split: PlannedSplit,
        file: Option<AnyFile>,
        columns: Vec<String>,
        is_planned: bool,
        cut_short: Py<PyAny>,
        check_crcs: bool,
        max_rows: usize,
        max_bytes: usize,
        spark: bool,
        search: Option<Py<Search>>,
        by_headers: bool,
    ) -> PyResult<Self> {
        let projection = Projection::new(&columns, spark).or_raise()?;
        let hand_over = HandOver::new(py, &projection.schema)?;
        let options = DecodeOptions {
            columns: projection.empty_columns(),
            check_crcs,
            chunk: (max_rows.min(MAX_ROWS), max_bytes),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            by_headers,
            min_timestamp: i64::MIN,
            search: search.map(|search| search.get().search.clone()),
        };
        let rows = RowBuilder::new(projection, split.topic.clone(), split.partition);
        let index = Index(cut_short);
        let reader = py
            .detach(|| {
                brokerless_core::SplitReader::new(split.into(), file, is_planned, index, options)
            })
            .or_raise()?;
        Ok(Self {
            reader,
            rows,
            hand_over,
        })
    }

    /// Timestamps that became null because Spark's type cannot hold them.
    #[getter]
    fn null_timestamps(&self) -> u64 {
        self.rows.null_timestamps
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<PyRowsOrDefect<'py>>> {
        let found = py.detach(|| self.step()).or_raise()?;
        Ok(match found {
            None => None,
            Some(Found::Rows(rows)) => Some(PyRowsOrDefect::Rows(self.hand_over.rows(py, rows)?)),
            Some(Found::Lost(lost)) => Some(PyRowsOrDefect::Defect(fields(lost))),
            Some(Found::Missing(missing)) => {
                return Err(raised("CorruptRecordError", missing.reason, |place| {
                    place.set_item("path", missing.path)?;
                    place.set_item("position", missing.position)
                }));
            }
        })
    }
}

impl SplitReader {
    fn step(&mut self) -> Result<Option<Found>, ReadError<PyErr>> {
        Ok(match self.reader.step()? {
            None => None,
            Some(Step::Rows) => self.rows.take(self.reader.columns())?.map(Found::Rows),
            Some(Step::Missing(missing)) => Some(Found::Missing(missing)),
            Some(Step::Lost(lost)) => Some(Found::Lost(lost)),
        })
    }
}

#[pyclass(module = "brokerless._native")]
pub(crate) struct RunReader {
    reader: SurveyReader<AnyFile>,
    decoder: Py<Decoder>,
}

#[pymethods]
impl RunReader {
    #[new]
    fn new(file: AnyFile, run: (u64, u64, i64, i64), decoder: Py<Decoder>) -> Self {
        let (position, end_position, first_offset, next_offset) = run;
        let run = BatchRange {
            position,
            end_position,
            first_offset,
            next_offset,
        };
        Self {
            reader: SurveyReader::new(file, vec![Part::Run(run)]),
            decoder,
        }
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<PyRowsOrDefect<'py>>> {
        let mut decoder = self.decoder.bind(py).borrow_mut();
        let decoder = &mut *decoder;
        let reader = &mut self.reader;
        let found = py
            .detach(|| {
                Ok::<_, ReadError<PyErr>>(match reader.step(&mut decoder.decoder)? {
                    None => None,
                    Some(RowsOrDefect::Rows) => decoder.take()?.map(Ok),
                    Some(RowsOrDefect::Defect(defect)) => Some(Err(defect)),
                })
            })
            .or_raise()?;
        Ok(match found {
            None => None,
            Some(Ok(rows)) => Some(PyRowsOrDefect::Rows(decoder.hand_over.rows(py, rows)?)),
            Some(Err(defect)) => Some(PyRowsOrDefect::Defect(fields(defect))),
        })
    }
}
