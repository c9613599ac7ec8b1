//! `check_segment`: the check of a plain segment in one pass.

use brokerless_core::{
    EpochRange, OffsetGap, ProducerReplay, ProducerSequences as Sequences, SegmentSummary,
    SequenceGap, UncheckedSegment, WalkEnd, batch_offsets_at as offsets_at, check_segment as check,
};
use pyo3::prelude::*;

use crate::base::error::{OrRaise as _, exception};
use crate::base::file::AnyFile;
use crate::broker::producers::Producers;
use crate::format::index::{OffsetIndex, TimeIndex};

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct ProducerSequences(Sequences);

#[pymethods]
impl ProducerSequences {
    #[new]
    fn new() -> Self {
        Self(Sequences::default())
    }

    fn expected(&self, producer_id: i64, producer_epoch: i16) -> Option<i32> {
        self.0.expected(producer_id, producer_epoch)
    }

    fn insert(&mut self, producer_id: i64, producer_epoch: i16, last_sequence: i32) {
        self.0.insert(producer_id, producer_epoch, last_sequence);
    }
}

/// What the batches of a plain segment tell.
#[pyclass(module = "brokerless._native", frozen)]
#[derive(Debug)]
pub(crate) struct PlainSegment {
    summary: SegmentSummary,
    replays: bool,
}

#[pymethods]
impl PlainSegment {
    #[getter]
    fn next_offset(&self) -> i64 {
        self.summary.next_offset
    }

    #[getter]
    fn leader_epoch(&self) -> i32 {
        self.summary.leader_epoch
    }

    #[getter]
    fn epochs(&self) -> Vec<(i32, i64, i64, i64)> {
        let fields = |range: &EpochRange| {
            let EpochRange {
                leader_epoch,
                base_offset,
                last_base_offset,
                last_offset,
            } = *range;
            (leader_epoch, base_offset, last_base_offset, last_offset)
        };
        self.summary.epochs.iter().map(fields).collect()
    }

    #[getter]
    fn offset_gaps(&self) -> Vec<(u64, i64, i64)> {
        let fields = |gap: &OffsetGap| (gap.position, gap.start_offset, gap.end_offset);
        self.summary.offset_gaps.iter().map(fields).collect()
    }

    #[getter]
    fn sequence_gaps(&self) -> Vec<(u64, i64, i64, i32, i32)> {
        let fields = |gap: &SequenceGap| {
            let SequenceGap {
                position,
                base_offset,
                producer_id,
                base_sequence,
                expected,
            } = *gap;
            (position, base_offset, producer_id, base_sequence, expected)
        };
        self.summary.sequence_gaps.iter().map(fields).collect()
    }

    #[getter]
    fn is_compacted(&self) -> bool {
        self.summary.is_compacted
    }

    #[getter]
    fn has_producers(&self) -> bool {
        self.summary.has_producers
    }

    #[getter]
    fn has_transactions(&self) -> bool {
        self.summary.has_transactions
    }

    #[getter]
    fn replays(&self) -> bool {
        self.replays
    }
}

#[pyfunction]
#[pyo3(signature = (
    file, size, base_offset, *, sequences, limit_offset=None, offset_index=None, time_index=None,
    is_closed=false, decodes=false, log_offset=None, leader_epoch=-1, producers=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(crate) fn check_segment(
    py: Python<'_>,
    file: AnyFile,
    size: u64,
    base_offset: i64,
    sequences: &Bound<'_, ProducerSequences>,
    limit_offset: Option<i64>,
    offset_index: Option<Py<OffsetIndex>>,
    time_index: Option<Py<TimeIndex>>,
    is_closed: bool,
    decodes: bool,
    log_offset: Option<i64>,
    leader_epoch: i32,
    producers: Option<&Bound<'_, Producers>>,
) -> PyResult<Option<PlainSegment>> {
    let mut sequences = sequences.try_borrow_mut()?;
    let mut producers = producers.map(Bound::try_borrow_mut).transpose()?;
    let sequences = &mut sequences.0;
    let mut producers = producers.as_mut().map(|producers| &mut producers.0);
    let segment = UncheckedSegment {
        base_offset,
        limit_offset,
        size,
        read_length: file.read_length(),
        offset_index: offset_index.as_ref().map(|index| &index.get().0),
        time_index: time_index.as_ref().map(|index| &index.get().0),
        is_closed,
        decodes,
        log_offset,
        leader_epoch,
    };
    let mut replay = ProducerReplay::new(base_offset);
    let (checked, failed) = py.detach(|| {
        let mut failed = None;
        let checked = check(&file, &segment, sequences, |batches, position| {
            if let Some(producers) = producers.as_deref_mut()
                && failed.is_none()
                && replay.walk.ended.is_none()
            {
                failed = replay.feed(batches, position, size, producers).err();
            }
        });
        (checked, failed)
    });
    if let Some(error) = failed {
        return Err(exception(error));
    }
    let checked = checked.or_raise()?;
    let replays = !matches!(replay.walk.ended, Some(WalkEnd::Failed(_)));
    Ok(checked.map(|summary| PlainSegment { summary, replays }))
}

#[pyfunction]
pub(crate) fn batch_offsets_at(
    py: Python<'_>,
    file: AnyFile,
    position: u64,
) -> PyResult<Option<(i64, i64)>> {
    py.detach(|| offsets_at(&file, position)).or_raise()
}
