//! Sound and damaged ranges of a segment, and the offsets lost between them: checks and reads share these rules.
//!
//! A batch is sound if its checksum is right and its offsets follow those before it. After a damaged batch, scanning
//! continues at its claimed end if a sound batch starts there. Otherwise the file is searched byte by byte for a sound
//! batch. The search has a budget, so that crafted bytes cannot prolong it.
//!
//! No checksum covers base offsets. If batches contradict each other, as few batches as possible are dropped.

use std::borrow::Cow;

use crate::base::error::{Error, ErrorKind, Fault};
use crate::format::batch::BATCH_OVERHEAD;
use crate::format::find_batch::find_batch;
use crate::read::defect::{Defect, code};
use crate::read::file::{
    self, CHUNK, FileResult, FoundBatch, MAX_BATCH, ReadAt, ReadError, Window, probe_batch,
};
use crate::read::soundness::{BatchRange, SegmentEnd, Soundness};

/// The length of reads after damage, since more damage may be near.
pub(crate) const NEAR: usize = 1 << 18;
/// The block sizes of a search for a batch. Blocks overlap by the length of a header.
const MIN_BLOCK: usize = 1 << 14;
const MAX_BLOCK: usize = 1 << 20;
/// The budget of all searches in a segment: a fixed number of bytes, plus a number for each byte of the segment. Crafted
/// bytes can look like a large batch at every position, and each would be checksummed to its end.
const SEARCHED: i64 = 64 << 20;
const SEARCHED_PER_BYTE: i64 = 8;
/// The minimum number of bytes by which checking a candidate reduces the budget.
const TRY: i64 = 1 << 12;
/// The maximum distance of a segment's offsets from its base offset, because index entries hold 31 bits.
const REACH: i64 = 1 << 31;

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Consecutive sound batches, whose offsets rise.
    Run(BatchRange),
    /// A defect.
    Defect(Defect),
}

/// The parts of a segment in the order of the file, and the offset after the last run.
#[derive(Debug, PartialEq, Eq)]
pub struct Survey {
    /// Runs and defects.
    pub parts: Vec<Part>,
    /// The offset after the last run; without one, the segment's base offset.
    pub next_offset: i64,
}

/// The known facts about a segment before its survey.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedSegment {
    /// The lowest offset that a batch may have.
    pub base_offset: i64,
    /// The base offset of the next segment; None for the last segment.
    pub following_offset: Option<i64>,
    /// All batches of the last segment end below this offset; None if only the batches show the end.
    pub limit_offset: Option<i64>,
    /// The byte position at which the file ends.
    pub end: u64,
    /// True to verify checksums.
    pub check_crcs: bool,
    /// True if the log was shut down cleanly. A broker then truncates nothing.
    pub is_clean: bool,
}

impl Survey {
    /// Finds the sound batches of a segment and the damage between them. Reads the whole file, but decodes no record.
    pub fn of<F: ReadAt>(file: &F, segment: SurveyedSegment) -> FileResult<Self, F> {
        Walk::new(file, segment).survey()
    }

    /// Keeps all defects, and the runs that may hold offsets of a range.
    pub fn within(mut self, start_offset: i64, end_offset: i64) -> Self {
        let mut low = 0;
        self.parts.retain(|part| match part {
            Part::Defect(_) => true,
            Part::Run(run) => {
                // A wrapper's first offset is inside it. All that is known: it is not below the end of the run before.
                let keeps = run.next_offset > start_offset && low < end_offset;
                low = run.next_offset;
                keeps
            }
        });
        self
    }
}

/// A sound batch that contradicts others. `is_missed`: some of its offsets are in no other batch.
#[derive(Debug, Clone)]
struct Dropped {
    batch: BatchRange,
    is_missed: bool,
}

/// The content of the gap between two runs.
#[derive(Debug, Clone)]
enum InGap {
    Defect(Defect),
    Dropped(Dropped),
}

/// A gap between two runs, and the offsets [low, high) that neither run has.
struct Gap {
    parts: Vec<InGap>,
    low: i64,
    high: Option<i64>,
}

/// A walk through a segment from one sound batch to the next.
struct Walk<'f, F> {
    file: &'f F,
    segment: SurveyedSegment,
    limit: i64,
    check: Soundness,
    /// The length of the next reads.
    length: usize,
    budget: i64,
    /// The start of the last search, and the position that it found.
    last_search: Option<(u64, Option<u64>)>,
    parts: Vec<Part>,
    /// The byte position up to which the file has been checked or skipped.
    position: u64,
    /// The offset after the last sound batch or the skipped damage.
    next_offset: i64,
}

impl<'f, F: ReadAt> Walk<'f, F> {
    fn new(file: &'f F, segment: SurveyedSegment) -> Self {
        let limit = segment
            .following_offset
            .or(segment.limit_offset)
            .unwrap_or(i64::MAX);
        let end = i64::try_from(segment.end).unwrap_or(i64::MAX);
        Self {
            file,
            segment,
            limit,
            check: Soundness::new(segment.base_offset, limit, segment.check_crcs, false),
            length: CHUNK,
            budget: SEARCHED.saturating_add(end.saturating_mul(SEARCHED_PER_BYTE)),
            last_search: None,
            parts: Vec::new(),
            position: 0,
            next_offset: segment.base_offset,
        }
    }

    /// The offset below which the next batches have to end: no gap between two batches is as large as [`REACH`].
    fn limit(&self) -> i64 {
        self.limit.min(self.next_offset.saturating_add(REACH))
    }

    fn survey(mut self) -> FileResult<Survey, F> {
        while self.position < self.segment.end {
            if let Some(error) = self.next_defect()? {
                if self.segment.following_offset.is_none()
                    && file::is_zero_from(self.file, self.position)?
                {
                    break;
                }
                let defect = self.pass_over(error)?;
                let is_last = defect.next_position.is_none();
                self.parts.push(Part::Defect(defect));
                if is_last {
                    break;
                }
            }
        }
        if !self.check.is_rising {
            self.put_in_order()?;
        }
        let last_run = self.parts.iter().rev().find_map(|part| match part {
            Part::Run(run) => Some(run.next_offset),
            Part::Defect(_) => None,
        });
        Ok(Survey {
            next_offset: last_run.unwrap_or(self.segment.base_offset),
            parts: self.parts,
        })
    }

    /// Checks batches from `position` on, and adds the run of sound ones. Returns the error of the batch after them;
    /// None at the end.
    fn next_defect(&mut self) -> FileResult<Option<Error>, F> {
        let start = self.position;
        self.check.start_run();
        let checked = self.check_run();
        if let Some(first_offset) = self.check.first_offset {
            self.parts.push(Part::Run(BatchRange {
                position: start,
                end_position: self.position,
                first_offset,
                next_offset: self.check.next_offset,
            }));
            self.next_offset = self.check.next_offset;
        }
        defect::<F>(checked)
    }

    fn check_run(&mut self) -> FileResult<(), F> {
        let mut window = Window::new(self.file, self.position, self.segment.end, self.length)?;
        while self.position < self.segment.end {
            let consumed = self.check.check(window.data(), self.position)?;
            if consumed == 0 && !window.fill(self.check.needed)? {
                return Err(cut_batch(self.position, self.segment.end).into());
            }
            window.advance(consumed);
            self.position = window.position;
        }
        Ok(())
    }

    /// Returns the finding for the defect at `position`, and moves past it.
    fn pass_over(&mut self, error: Error) -> FileResult<Defect, F> {
        let (position, start_offset) = (self.position, self.next_offset);
        let mut code = code(&error);
        if error.fault == Fault::Framing && self.is_zero_header(position)? {
            code = "batch-zeros";
        }
        let mut reason = error.message;
        let framed = error.next_position;
        let end = self.segment.end;
        let (next_good, next_position, is_given_up);
        match framed.filter(|&framed| framed < end) {
            Some(framed) if self.is_good(framed)? => {
                next_good = Some(self.swallowed(position + 1, framed)?);
                (next_position, is_given_up) = (next_good, false);
            }
            framed => {
                next_good = self.search(position + 1)?;
                is_given_up = next_good.is_none() && self.budget <= 0;
                // A damaged neighbour gets its own defect.
                let stop = next_good.unwrap_or(end);
                next_position = match framed {
                    Some(framed) if framed < stop && self.seems_batch(framed)? => Some(framed),
                    _ => next_good,
                };
            }
        }
        let mut next_position = next_position;
        if is_given_up {
            if next_position.is_none() {
                reason += "; the search for the next sound batch was given up: too many bytes there look like a batch";
            }
        } else if next_good.is_none()
            && self.segment.following_offset.is_none()
            && !self.segment.is_clean
        {
            (code, next_position) = ("tail-torn", None);
        }
        self.length = NEAR;
        let mut end_offset = self.segment.following_offset;
        if let Some(next) = next_position {
            let first = probe_batch(self.file, next)?.and_then(|batch| batch.first_offset);
            // If the next batch is damaged, too, its own defect reports the offsets that it hides.
            let known = first.map_or(start_offset, |first| {
                first.min(self.limit()).max(start_offset)
            });
            end_offset = Some(known);
            (self.position, self.next_offset) = (next, known);
        }
        Ok(Defect {
            path: None,
            position,
            start_offset,
            end_offset,
            reason,
            code: Cow::Borrowed(code),
            base_offset: error.base_offset,
            next_position,
        })
    }

    /// Returns true if the bytes at `position`, as many as a header has, are zeros: file systems leave these for lost
    /// writes.
    fn is_zero_header(&self, position: u64) -> FileResult<bool, F> {
        let bytes = file::read_bytes(self.file, position, BATCH_OVERHEAD)?;
        Ok(bytes.iter().all(|&byte| byte == 0))
    }

    /// Replaces batches that contradict others by defects for the lost offsets.
    fn put_in_order(&mut self) -> FileResult<(), F> {
        let mut check = Soundness::new(self.segment.base_offset, self.limit, false, true);
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            if let Part::Run(run) = part {
                let mut window = Window::new(self.file, run.position, run.end_position, CHUNK)?;
                while window.position < run.end_position {
                    let consumed = check.check(window.data(), window.position)?;
                    if consumed == 0 && !window.fill(check.needed)? {
                        break;
                    }
                    window.advance(consumed);
                }
            }
        }
        let rising = check.rising(
            match (self.segment.following_offset, self.segment.limit_offset) {
                (Some(_), _) => SegmentEnd::Followed,
                (None, Some(_)) => SegmentEnd::Known,
                (None, None) => SegmentEnd::Unknown,
            },
        );
        let mut in_gaps: Vec<(u64, InGap)> = Vec::new();
        for part in parts {
            if let Part::Defect(defect) = part {
                in_gaps.push((defect.position, InGap::Defect(defect)));
            }
        }
        for (run, first_offset) in rising.overlapping {
            let (start, last) = (run.first_offset, run.next_offset - 1);
            in_gaps.push((
                run.position,
                InGap::Defect(Defect {
                    path: None,
                    code: Cow::Borrowed("offset-overlap"),
                    position: run.position,
                    base_offset: Some(first_offset),
                    next_position: Some(run.position),
                    start_offset: start,
                    end_offset: Some(start),
                    reason: format!(
                        "the batch has the offsets {first_offset} to {last}, and those below {start} are in a batch \
                         before it: Java's consumer gets them from that one"
                    ),
                }),
            ));
        }
        for (batch, is_missed) in rising.dropped {
            in_gaps.push((batch.position, InGap::Dropped(Dropped { batch, is_missed })));
        }
        in_gaps.sort_by_key(|&(position, _)| position);

        let mut in_gaps = in_gaps.into_iter().peekable();
        let mut gaps: Vec<Gap> = Vec::new();
        let mut low = self.segment.base_offset;
        for run in &rising.kept {
            let mut parts = Vec::new();
            while let Some((_, part)) = in_gaps.next_if(|&(position, _)| position <= run.position) {
                parts.push(part);
            }
            let high = Some(low.max(self.first_offset(run)?));
            gaps.push(Gap { parts, low, high });
            low = run.next_offset;
        }
        gaps.push(Gap {
            parts: in_gaps.map(|(_, part)| part).collect(),
            low,
            high: self.segment.following_offset,
        });
        let mut reported: Vec<(i64, i64)> = gaps
            .iter()
            .filter(|gap| !gap.parts.is_empty())
            .map(|gap| (gap.low, gap.high.unwrap_or(i64::MAX)))
            .collect();
        reported.extend(rising.covered);
        reported.sort_unstable();
        let mut runs = rising.kept.into_iter();
        for gap in gaps {
            self.report_gap(gap, &reported);
            self.parts.extend(runs.next().map(Part::Run));
        }
        Ok(())
    }

    /// Returns the first offset of a run, even if its first batch is a wrapper, which has that offset inside.
    fn first_offset(&self, run: &BatchRange) -> FileResult<i64, F> {
        let batch = file::batch_at(self.file, run.position, MAX_BATCH)?;
        Ok(batch
            .and_then(|batch| batch.first_offset)
            .unwrap_or(run.first_offset))
    }

    /// Divides the offsets of a gap among its defects and dropped batches. `reported` holds the offsets of all gaps
    /// and runs.
    fn report_gap(&mut self, gap: Gap, reported: &[(i64, i64)]) {
        let Gap { parts, low, high } = gap;
        let mut start = low;
        let last = parts.len().saturating_sub(1);
        for (i, part) in parts.into_iter().enumerate() {
            let mut end = match &part {
                InGap::Dropped(_) => Some(start),
                InGap::Defect(defect) => defect.end_offset,
            };
            if i == last {
                end = high.or(end);
            } else {
                end = end.map(|end| high.map_or(end, |high| end.min(high)).max(start));
            }
            match part {
                InGap::Dropped(batch) => {
                    let missing = (start, end.map_or(start, |end| end.max(start)));
                    self.report_dropped(&batch, low, missing, reported);
                }
                InGap::Defect(defect) => self.parts.push(Part::Defect(Defect {
                    start_offset: start,
                    end_offset: end,
                    ..defect
                })),
            }
            start = end.unwrap_or(start);
        }
    }

    /// Adds defects for the offsets of a dropped batch: the offsets missing at its place, and the offsets in its
    /// header.
    fn report_dropped(
        &mut self,
        dropped: &Dropped,
        low: i64,
        missing: (i64, i64),
        reported: &[(i64, i64)],
    ) {
        let batch = &dropped.batch;
        let (first, last) = (batch.first_offset, batch.next_offset.wrapping_sub(1));
        let reason = if first < low {
            format!("offset {first} is below {low}, where the segment continues")
        } else if last >= self.limit() {
            format!(
                "offset {last} is not below {}, where the segment has to end",
                self.limit()
            )
        } else {
            format!("offset {last} is above the offsets that follow it")
        };
        let is_own = dropped.is_missed && first >= self.segment.base_offset;
        let own = if is_own {
            uncovered((first, batch.next_offset), reported)
        } else {
            Vec::new()
        };
        let at_place = (missing.0 < missing.1 || own.is_empty()).then_some(missing);
        for (start_offset, end_offset) in at_place.into_iter().chain(own) {
            self.parts.push(Part::Defect(Defect {
                path: None,
                code: Cow::Borrowed("batch-order"),
                position: batch.position,
                base_offset: Some(first),
                next_position: Some(batch.end_position),
                start_offset,
                end_offset: Some(end_offset),
                reason: reason.clone(),
            }));
        }
    }

    /// Returns the start of sound batches before `end` that a wrong length has hidden; `end` if it has hidden none.
    fn swallowed(&mut self, position: u64, end: u64) -> FileResult<u64, F> {
        let Some(found) = self.find(position, end)? else {
            return Ok(end);
        };
        let mut check = Soundness::new(self.segment.base_offset, self.limit, true, false);
        let mut window = Window::new(self.file, found, end, NEAR)?;
        let walked = (|| {
            while window.position < end {
                let consumed = check.check(window.data(), window.position)?;
                if consumed == 0 && !window.fill(check.needed)? {
                    return Ok(());
                }
                window.advance(consumed);
            }
            Ok(())
        })();
        let is_sound = defect::<F>(walked)?.is_none() && window.position == end;
        Ok(if is_sound { found } else { end })
    }

    /// Finds the first sound batch that starts at `position` or later. Reuses the result of the last search if it still
    /// applies.
    ///
    /// If many successive batches are damaged, a search after each of them would find the same batch again.
    fn search(&mut self, position: u64) -> FileResult<Option<u64>, F> {
        if let Some((start, found)) = self.last_search {
            // The last search would have found a sound batch in between.
            if start <= position && found.is_none_or(|found| position <= found) {
                return Ok(found);
            }
        }
        let found = self.find(position, self.segment.end)?;
        if found.is_some() || self.budget > 0 {
            self.last_search = Some((position, found));
        }
        Ok(found)
    }

    /// Finds the first sound batch from `position` to `end`; None without such a batch, or if the budget is spent.
    fn find(&mut self, mut position: u64, end: u64) -> FileResult<Option<u64>, F> {
        let offsets = self.segment.base_offset..self.limit();
        let mut length = MIN_BLOCK;
        while self.budget > 0 && position < end {
            let room = usize::try_from(end - position).unwrap_or(usize::MAX);
            let block = file::read_bytes(self.file, position, length.min(room))?;
            let mut at = position;
            let rest = |at: u64| {
                let skip = usize::try_from(at - position).unwrap_or(usize::MAX);
                block.get(skip..).unwrap_or_default()
            };
            while let Some(header) = find_batch(rest(at), at, end, &offsets) {
                at = header.position;
                self.budget -= (header.size() as i64).saturating_add(TRY);
                if self.fits(file::batch_of_size(self.file, at, header.size())?) {
                    return Ok(Some(at));
                }
                if self.budget <= 0 {
                    return Ok(None);
                }
                at += 1;
            }
            if block.len() < length {
                return Ok(None);
            }
            self.budget -= length as i64;
            position = at.max(position + (length - BATCH_OVERHEAD + 1) as u64);
            length = (4 * length).min(MAX_BLOCK);
        }
        Ok(None)
    }

    /// Returns true if a batch with a right checksum and offsets of this segment starts at `position`.
    fn is_good(&self, position: u64) -> FileResult<bool, F> {
        Ok(self.fits(probe_batch(self.file, position)?))
    }

    /// Returns true if a possibly damaged batch with offsets of this segment starts at `position`.
    fn seems_batch(&self, position: u64) -> FileResult<bool, F> {
        let offset = probe_batch(self.file, position)?.and_then(|batch| batch.first_offset);
        Ok(offset.is_some_and(|offset| (self.next_offset..self.limit()).contains(&offset)))
    }

    /// Returns true if a batch has a right checksum and offsets of this segment. Their order is checked later.
    fn fits(&self, batch: Option<FoundBatch>) -> bool {
        let Some((batch, first)) = batch.and_then(|batch| Some((batch, batch.first_offset?)))
        else {
            return false;
        };
        let last = batch.header.last_offset();
        batch.is_valid && self.segment.base_offset <= first && first <= last && last < self.limit()
    }
}

/// Separates the errors that are defects from those that end a survey.
fn defect<F: ReadAt>(checked: FileResult<(), F>) -> FileResult<Option<Error>, F> {
    match checked {
        Ok(()) => Ok(None),
        Err(ReadError::Format(error)) if error.kind != ErrorKind::Invalid => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// The error for a batch that the end of its file cuts off.
pub fn cut_batch(position: u64, end: u64) -> Error {
    Error::corrupt(format!(
        "record batch is cut: {} bytes are left of it",
        i128::from(end) - i128::from(position)
    ))
    .of(Fault::Cut)
    .at(position, None)
}

/// Returns the parts of a range of offsets that are in none of the `others`, which are sorted.
fn uncovered((mut start, end): (i64, i64), others: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut parts = Vec::new();
    for &(low, high) in others {
        if low >= end {
            break;
        }
        if start < low {
            parts.push((start, low));
        }
        start = start.max(high);
    }
    if start < end {
        parts.push((start, end));
    }
    parts
}
