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

/// The facts from the batches of a plain segment.
#[pyclass(module = "brokerless._native", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct PlainSegment {
    next_offset: i64,
    leader_epoch: i32,
    epochs: Vec<(i32, i64, i64, i64)>,
    offset_gaps: Vec<(u64, i64, i64)>,
    sequence_gaps: Vec<(u64, i64, i64, i32, i32)>,
    is_compacted: bool,
    has_producers: bool,
    has_transactions: bool,
    replays: bool,
}

impl PlainSegment {
    fn new(found: SegmentSummary, replays: bool) -> Self {
        let epoch = |range: EpochRange| {
            let EpochRange {
                leader_epoch,
                base_offset,
                last_base_offset,
                last_offset,
            } = range;
            (leader_epoch, base_offset, last_base_offset, last_offset)
        };
        let sequence_gap = |gap: SequenceGap| {
            let SequenceGap {
                position,
                base_offset,
                producer_id,
                base_sequence,
                expected,
            } = gap;
            (position, base_offset, producer_id, base_sequence, expected)
        };
        let offset_gap = |gap: OffsetGap| (gap.position, gap.start_offset, gap.end_offset);
        Self {
            next_offset: found.next_offset,
            leader_epoch: found.leader_epoch,
            epochs: found.epochs.into_iter().map(epoch).collect(),
            offset_gaps: found.offset_gaps.into_iter().map(offset_gap).collect(),
            sequence_gaps: found.sequence_gaps.into_iter().map(sequence_gap).collect(),
            is_compacted: found.is_compacted,
            has_producers: found.has_producers,
            has_transactions: found.has_transactions,
            replays,
        }
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
    Ok(checked.map(|found| PlainSegment::new(found, replays)))
}

#[pyfunction]
pub(crate) fn batch_offsets_at(
    py: Python<'_>,
    file: AnyFile,
    position: u64,
) -> PyResult<Option<(i64, i64)>> {
    py.detach(|| offsets_at(&file, position)).or_raise()
}
