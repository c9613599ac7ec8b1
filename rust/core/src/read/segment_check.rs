//! The check of a segment in one pass, as long as the segment is plain. A plain segment has sound batches of magic 2 in
//! the order of their offsets, and indexes that lead to them. The survey and the checks in Python, which define the
//! defects, handle all other segments. This pass only reports that a segment is sound, and sums up the facts with which
//! a log's other files are compared.

use std::collections::HashMap;

use crate::base::error::{Error, ErrorKind};
use crate::base::timestamp_type::TimestampType;
use crate::format::batch::Header;
use crate::format::compression::DEFAULT_MAX_BATCH_BYTES;
use crate::format::index::{OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset};
use crate::format::walk::{NextBatch, next_batch};
use crate::read::columns::Columns;
use crate::read::fetch::{Fetch, Progress, Selection};
use crate::read::file::{FileResult, ReadAt, ReadError, Window};
use crate::read::row_column::RowColumn;

/// The maximum distance of a batch from the previous one, because index entries hold 31 bits.
const REACH: i64 = 1 << 31;
/// The leader epoch of a batch that no leader has written (RecordBatch.NO_PARTITION_LEADER_EPOCH).
const NO_LEADER_EPOCH: i32 = -1;
/// The maximum number of gaps of one kind, and of changes of the leader epoch, that a check reports in a segment.
const MOST_GAPS: usize = 100;
const MOST_EPOCHS: usize = 100_000;
/// The maximum number of producers of one generation: see [`ProducerSequences`].
const MOST_PRODUCERS: usize = 1 << 17;
/// Bytes between two entries of an offset index, unless a topic says otherwise (index.interval.bytes).
const INDEX_INTERVAL: u64 = 4096;

/// The last sequence of each producer id and producer epoch, for the producers that appeared last.
///
/// There are two generations. When the younger one is full, it replaces the older one, which is forgotten.
#[derive(Debug, Clone, Default)]
pub struct ProducerSequences {
    recent: HashMap<(i64, i16), i32>,
    older: HashMap<(i64, i16), i32>,
}

impl ProducerSequences {
    /// Returns the sequence with which the producer's next batch begins; None if the producer is not known.
    pub fn expected(&self, producer_id: i64, producer_epoch: i16) -> Option<i32> {
        let key = (producer_id, producer_epoch);
        let last = *self.recent.get(&key).or_else(|| self.older.get(&key))?;
        Some(last.checked_add(1).unwrap_or(0))
    }

    /// Records the last sequence of a batch.
    pub fn insert(&mut self, producer_id: i64, producer_epoch: i16, last_sequence: i32) {
        if self.recent.len() >= MOST_PRODUCERS {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent
            .insert((producer_id, producer_epoch), last_sequence);
    }
}

/// The known facts about a segment before its check.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedSegment<'a> {
    /// The lowest offset that a batch may have.
    pub base_offset: i64,
    /// All batches end below this offset. None: only the reach of the indexes limits the offsets.
    pub limit_offset: Option<i64>,
    /// The length of the file.
    pub size: u64,
    /// The length of the reads.
    pub read_length: usize,
    /// The `.index`, if any.
    pub offset_index: Option<&'a OffsetIndex>,
    /// The `.timeindex`, if any.
    pub time_index: Option<&'a TimeIndex>,
    /// True if a broker has closed the indexes, so that the last entry of the time index must be the largest timestamp.
    pub is_closed: bool,
    /// True to decode records.
    pub decodes: bool,
    /// The offset after the previous segment; None for the first segment.
    pub log_offset: Option<i64>,
    /// The highest leader epoch in the previous segments; -1 for none.
    pub leader_epoch: i32,
}

/// The batches of one leader epoch, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRange {
    /// The epoch.
    pub leader_epoch: i32,
    /// The base offset of its first batch.
    pub base_offset: i64,
    /// The base offset of its last batch.
    pub last_base_offset: i64,
    /// The last offset of its last batch.
    pub last_offset: i64,
}

/// Offsets [start, end) that no batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetGap {
    /// The position of the batch after the gap.
    pub position: u64,
    /// The first missing offset.
    pub start_offset: i64,
    /// The offset after the last missing one.
    pub end_offset: i64,
}

/// A batch that does not begin with its producer's next sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceGap {
    /// The position of the batch.
    pub position: u64,
    /// Its first offset.
    pub base_offset: i64,
    /// Its producer.
    pub producer_id: i64,
    /// Its first sequence.
    pub base_sequence: i32,
    /// The producer's next sequence.
    pub expected: i32,
}

/// The facts from the batches of a plain segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The offset after the last batch.
    pub next_offset: i64,
    /// The greatest leader epoch so far.
    pub leader_epoch: i32,
    /// The leader epochs, in order. If there are very many, the last ones are left out.
    pub epochs: Vec<EpochRange>,
    /// The first gaps between offsets.
    pub offset_gaps: Vec<OffsetGap>,
    /// The first gaps between sequences.
    pub sequence_gaps: Vec<SequenceGap>,
    /// True if a batch has fewer records than offsets, as after compaction.
    pub is_compacted: bool,
    /// True if a batch has a producer.
    pub has_producers: bool,
    /// True if a batch is in a transaction.
    pub has_transactions: bool,
}

/// Checks a segment and returns its summary; None if the segment is not plain. `sequences` is then unchanged.
///
/// `take` gets the bytes of whole batches that are plain so far, in order, with their position.
pub fn check_segment<F: ReadAt>(
    file: &F,
    segment: &UncheckedSegment<'_>,
    sequences: &mut ProducerSequences,
    mut take: impl FnMut(&[u8], u64),
) -> FileResult<Option<SegmentSummary>, F> {
    let Some(mut pass) = Pass::new(segment, sequences) else {
        return Ok(None);
    };
    let mut window = Window::new(file, 0, segment.size, segment.read_length)?;
    while window.position < segment.size {
        let Some(taken) = pass.batches(window.data(), window.position) else {
            return Ok(None);
        };
        if taken > 0 {
            take(
                window.data().get(..taken).unwrap_or_default(),
                window.position,
            );
            window.advance(taken);
            continue;
        }
        match window.fill(pass.needed) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(ReadError::Format(error)) if error.kind != ErrorKind::Invalid => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if window.position != segment.size {
        return Ok(None);
    }
    if !pass.is_indexed() {
        return Ok(None);
    }
    let (summary, changed) = (pass.summary, pass.changed);
    if let Some(changed) = changed {
        *sequences = changed;
    }
    Ok(Some(summary))
}

struct Pass<'a> {
    summary: SegmentSummary,
    log_offset: Option<i64>,
    limit: i64,
    /// The size of the next batch in bytes; 0 if unknown.
    needed: usize,
    sequences: &'a ProducerSequences,
    /// A copy of `sequences`, with the sequences of this segment added.
    changed: Option<ProducerSequences>,
    /// Entries that lead to batches not reached yet.
    positions: Vec<OffsetPosition>,
    next_position: usize,
    times: Vec<TimestampOffset>,
    next_time: usize,
    is_closed: bool,
    /// The largest timestamp so far.
    max_timestamp: i64,
    /// The position of the last batch.
    last_position: u64,
    decoding: Option<(Fetch, Columns)>,
}

impl<'a> Pass<'a> {
    /// None if an index is not plain because its entries do not rise.
    fn new(segment: &UncheckedSegment<'_>, sequences: &'a ProducerSequences) -> Option<Self> {
        let positions: Vec<_> = segment
            .offset_index
            .map(|index| index.entries().collect())
            .unwrap_or_default();
        let times: Vec<_> = segment
            .time_index
            .map(|index| index.entries().collect())
            .unwrap_or_default();
        let is_rising = positions
            .is_sorted_by(|one, next| one.position < next.position && one.offset < next.offset)
            && positions.first().is_none_or(|entry| entry.position >= 0)
            && times.is_sorted_by(|one, next| {
                one.offset <= next.offset && one.timestamp < next.timestamp
            })
            && times
                .first()
                .is_none_or(|entry| entry.offset >= segment.base_offset);
        let columns = [RowColumn::Offset, RowColumn::Timestamp, RowColumn::Headers];
        is_rising.then(|| Self {
            summary: SegmentSummary {
                next_offset: segment.base_offset,
                leader_epoch: segment.leader_epoch,
                epochs: Vec::new(),
                offset_gaps: Vec::new(),
                sequence_gaps: Vec::new(),
                is_compacted: false,
                has_producers: false,
                has_transactions: false,
            },
            log_offset: segment.log_offset,
            limit: segment
                .limit_offset
                .unwrap_or(i64::MAX)
                .min(segment.base_offset.saturating_add(REACH)),
            needed: 0,
            sequences,
            changed: None,
            positions,
            next_position: 0,
            times,
            next_time: 0,
            is_closed: segment.is_closed,
            max_timestamp: -1,
            last_position: 0,
            decoding: segment.decodes.then(|| {
                let fetch = Fetch::new(Selection::new(&[]), true, DEFAULT_MAX_BATCH_BYTES);
                (fetch, RowColumn::decoded(&columns))
            }),
        })
    }

    /// Checks the whole batches at the start of `bytes`, and returns their size in bytes; None if a batch is not plain.
    fn batches(&mut self, bytes: &[u8], position: u64) -> Option<usize> {
        let mut taken = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            match next_batch(rest, position + taken as u64) {
                Ok(NextBatch::Batch(header, entry)) => {
                    self.offsets(&header)?;
                    self.records(&header, entry, rest)?;
                    self.indexes(&header)?;
                    self.epochs(&header)?;
                    self.sequences(&header);
                    self.summary.next_offset = header.next_offset();
                    self.log_offset = Some(header.next_offset());
                    taken += entry.len();
                }
                Ok(NextBatch::NeedMore(needed)) => {
                    self.needed = needed;
                    return Some(taken);
                }
                Err(_) => return None,
            }
        }
    }

    fn offsets(&mut self, header: &Header) -> Option<()> {
        let (first, last) = (header.base_offset, header.last_offset());
        let before = self.summary.next_offset;
        let is_plain = header.magic == 2
            && before <= first
            && first.checked_sub(before)? < REACH - 1
            && first <= last
            && last < self.limit;
        if !is_plain {
            return None;
        }
        let count = i64::from(header.records_count.unwrap_or(0));
        self.summary.is_compacted |= count <= last - first;
        if let Some(start_offset) = self.log_offset
            && start_offset < first
            && self.summary.offset_gaps.len() < MOST_GAPS
        {
            self.summary.offset_gaps.push(OffsetGap {
                position: header.position,
                start_offset,
                end_offset: first,
            });
        }
        Some(())
    }

    /// Verifies the checksum. With decoding, also checks the records, their offsets and their largest timestamp.
    fn records(&mut self, header: &Header, entry: &[u8], rest: &[u8]) -> Option<()> {
        let Some((fetch, columns)) = &mut self.decoding else {
            return header.check_crc(entry).ok();
        };
        let (mut last, mut max_timestamp) = (None, None);
        loop {
            let progress: Result<_, Error> = fetch.batch(header, rest, columns);
            let progress = progress.ok()?;
            for &offset in columns.offsets.iter().flatten() {
                if last.is_some_and(|last| offset <= last) {
                    return None;
                }
                last = Some(offset);
            }
            max_timestamp = max_timestamp.max(columns.timestamps.iter().flatten().copied().max());
            columns.reuse();
            if progress == Progress::Complete {
                break;
            }
        }
        let is_right = header.timestamp_type() != TimestampType::CreateTime
            || max_timestamp.is_none_or(|found| found.max(-1) == header.max_timestamp);
        is_right.then_some(())
    }

    /// Checks the entries that lead to this batch, and that no entry leads inside it.
    fn indexes(&mut self, header: &Header) -> Option<()> {
        let last = header.last_offset();
        while let Some(entry) = self.positions.get(self.next_position)
            && (entry.position as u64) < header.end_position()
        {
            let is_late = entry.offset < self.summary.next_offset && entry.position > 0;
            if entry.position as u64 != header.position
                || is_late
                || entry.offset < header.base_offset
            {
                return None;
            }
            self.next_position += 1;
        }
        while let Some(entry) = self.times.get(self.next_time)
            && entry.offset <= last
        {
            let is_own = entry.offset >= header.base_offset;
            if !is_own || entry.timestamp != self.max_timestamp.max(header.max_timestamp) {
                return None;
            }
            self.next_time += 1;
        }
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        self.last_position = header.position;
        Some(())
    }

    /// Returns true if no entry leads beyond the last batch, the time index has the largest timestamp, and the offset
    /// index is not empty where a broker would have added to it.
    fn is_indexed(&self) -> bool {
        let (position, time) = (self.positions.last(), self.times.last());
        let latest = time.map_or(-1, |entry| entry.timestamp);
        self.next_position == self.positions.len()
            && self.next_time == self.times.len()
            && position.is_none_or(|entry| entry.offset < self.summary.next_offset)
            && (!self.is_closed
                || (latest >= self.max_timestamp
                    && !(self.positions.is_empty() && self.last_position > INDEX_INTERVAL)))
    }

    fn epochs(&mut self, header: &Header) -> Option<()> {
        let leader_epoch = header.partition_leader_epoch;
        let (base_offset, last_offset) = (header.base_offset, header.last_offset());
        if leader_epoch < 0 {
            return (leader_epoch == NO_LEADER_EPOCH).then_some(());
        }
        if leader_epoch < self.summary.leader_epoch {
            return None;
        }
        self.summary.leader_epoch = leader_epoch;
        let epochs = &mut self.summary.epochs;
        if let Some(range) = epochs.last_mut()
            && range.leader_epoch == leader_epoch
        {
            (range.last_base_offset, range.last_offset) = (base_offset, last_offset);
        } else if epochs.len() < MOST_EPOCHS {
            epochs.push(EpochRange {
                leader_epoch,
                base_offset,
                last_base_offset: base_offset,
                last_offset,
            });
        }
        Some(())
    }

    fn sequences(&mut self, header: &Header) {
        self.summary.has_transactions |= header.is_transactional();
        self.summary.has_producers |= header.is_transactional();
        if header.producer_id < 0 || header.base_sequence < 0 {
            return;
        }
        self.summary.has_producers = true;
        let known = self.sequences;
        let sequences = self.changed.get_or_insert_with(|| known.clone());
        if let Some(expected) = sequences.expected(header.producer_id, header.producer_epoch)
            && expected != header.base_sequence
            && self.summary.sequence_gaps.len() < MOST_GAPS
        {
            self.summary.sequence_gaps.push(SequenceGap {
                position: header.position,
                base_offset: header.base_offset,
                producer_id: header.producer_id,
                base_sequence: header.base_sequence,
                expected,
            });
        }
        sequences.insert(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_are_forgotten_a_generation_at_a_time() {
        let mut sequences = ProducerSequences::default();
        assert_eq!(sequences.expected(1, 0), None);
        sequences.insert(1, 0, i32::MAX);
        assert_eq!(sequences.expected(1, 0), Some(0));
        assert_eq!(sequences.expected(1, 1), None);
        let others = MOST_PRODUCERS as i64;
        for producer_id in 2..=others + 1 {
            sequences.insert(producer_id, 0, 4);
        }
        assert_eq!(sequences.expected(1, 0), Some(0), "the older generation");
        for producer_id in others + 2..=2 * others + 2 {
            sequences.insert(producer_id, 0, 4);
        }
        assert_eq!(sequences.expected(1, 0), None);
        assert_eq!(sequences.expected(2 * others + 2, 0), Some(5));
        assert!(sequences.recent.len() + sequences.older.len() <= 2 * MOST_PRODUCERS);
    }
}
