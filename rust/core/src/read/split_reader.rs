//! Reads a split: the batches that start in one range of a `.log` file, checked against the plan.
//!
//! A range that begins inside the file comes from an entry of the offset index, which may be wrong. So the reader looks
//! for the batch of that entry first. If a broker has replaced the file since the planning, the reader reads the whole
//! file.

use std::sync::Arc;

use crate::base::error::{Error, Fault};
use crate::format::batch::{BATCH_OVERHEAD, Header};
use crate::format::walk::{is_continued, may_overlap};
use crate::read::batch_scan::HeaderWalk;
use crate::read::columns::Columns;
use crate::read::decoder::Decoder;
use crate::read::defect::Defect;
use crate::read::fetch::{AbortedTransaction, Fetch, Selection};
use crate::read::file::{
    CHUNK, FileResult, MAX_BATCH, ReadAt, ReadError, Window, batch_at, probe_batch, read_bytes,
    sweep,
};
use crate::read::search::Search;
use crate::read::survey::{Part, Survey, SurveyedSegment, cut_batch};
use crate::read::survey_reader::{RowsOrDefect, SurveyReader};
use crate::read::transactions::Transactions;

/// A part of one `.log` file, as planned.
#[derive(Debug, Clone, Default)]
pub struct Split {
    /// The segment's base offset.
    pub base_offset: i64,
    /// The byte position of the first batch.
    pub position: u64,
    /// Batches that start here or later belong to another split.
    pub end_position: u64,
    /// Rows below this offset are left out.
    pub start_offset: i64,
    /// Rows at this offset and above are left out.
    pub end_offset: i64,
    /// The offset of the first batch after the segment, if it is known.
    pub following_offset: Option<i64>,
    /// The batch expected at `position`: its last offset is above the first number, but not above the second. None if
    /// `position` is 0.
    pub entry: Option<(i64, i64)>,
    /// If that batch is not there, reading starts with the first batch at this position or later.
    pub fallback_position: u64,
    /// The planned size of the file; None for the active segment, which grows.
    pub file_size: Option<u64>,
    /// Transactions to leave out.
    pub aborted: Vec<AbortedTransaction>,
    /// True if damage is skipped, and the lost offsets reported.
    pub skips: bool,
    /// The offset below which every batch of the file ends, if it is known.
    pub limit_offset: Option<i64>,
    /// True if this is the last split of the segment.
    pub ends_segment: bool,
    /// Records that are missing after the split.
    pub missing: Vec<Defect>,
    /// True if records that the segment's index lists after the end of the file are reported as missing.
    pub trusts_index: bool,
}

impl Split {
    /// Returns true if it has no file to read and only reports missing records.
    pub fn is_absent(&self) -> bool {
        !self.missing.is_empty() && self.end_position == 0
    }

    /// Returns true if reading stops at `end_offset`.
    ///
    /// If `end_offset` is the end of the segment, all bytes are read, because bytes after the last batch of an older
    /// segment are damage that must be reported.
    fn is_bounded(&self) -> bool {
        self.end_offset < self.following_offset.unwrap_or(i64::MAX)
    }

    /// Returns the selection of a reader of this split. `is_planned`: the file is the planned one.
    pub fn selection(&self, is_planned: bool) -> Selection {
        let mut selection = Selection::new(&self.aborted);
        selection.start_offset = self.start_offset;
        selection.end_offset = match self.following_offset {
            // The cleaner may have merged the next segments into the file. Their rows belong to other splits.
            Some(following) if !is_planned => self.end_offset.min(following),
            _ => self.end_offset,
        };
        selection
    }

    /// The part of a range of offsets that belongs to this split.
    fn clipped(&self, start: i64, end: Option<i64>) -> (i64, Option<i64>) {
        let end = match (self.end_offset, end) {
            (i64::MAX, end) => end,
            (limit, end) => Some(end.map_or(limit, |end| end.min(limit))),
        };
        let start = start.max(self.start_offset);
        (start, end.map(|end| end.max(start)))
    }
}

/// The result of [`SplitReader::step`].
#[derive(Debug)]
pub enum Step {
    /// The decoder's columns have rows.
    Rows,
    /// Offsets were lost to damage. Only a split that skips damage returns this step.
    Lost(Defect),
    /// Records are missing according to another file, which is an error here.
    Missing(Defect),
}

/// The other files of the split's segment, as a reader needs them.
pub trait SegmentFiles {
    /// The error when these files are read.
    type Error;

    /// Returns the records that the segment's index lists after the end of the `.log`, whose last batch ends at
    /// `next_offset`. Called only if neither file is growing.
    fn cut_short(&self, next_offset: i64) -> Result<Option<Defect>, Self::Error>;
}

/// The options for decoding rows.
#[derive(Debug)]
pub struct DecodeOptions {
    /// The wanted columns, empty.
    pub columns: Columns,
    /// True to verify checksums.
    pub check_crcs: bool,
    /// The rows and bytes after which a chunk ends.
    pub chunk: (usize, usize),
    /// The cap on one batch's decompressed size.
    pub max_batch_bytes: usize,
    /// True if rows may be made from headers: see [`Fetch::by_headers`].
    pub by_headers: bool,
    /// Rows below this timestamp, in ms, may be left out.
    pub min_timestamp: i64,
    /// The records to return; None for all.
    pub search: Option<Arc<Search>>,
}

/// The bytes of a file that a search reads at once.
const SEARCHED: usize = 256 << 10;

/// A reader of one split.
pub struct SplitReader<F, S> {
    split: Split,
    files: S,
    decoder: Decoder,
    is_planned: bool,
    has_restarted: bool,
    state: State<F>,
    /// Losses found at the end that are not returned yet.
    rest: std::vec::IntoIter<Step>,
}

enum State<F> {
    /// Decodes batch after batch, up to the first damage.
    Decoding {
        window: Window<F>,
        end: u64,
        next_offset: i64,
    },
    /// Decodes the sound batches of a survey.
    Skipping {
        parts: SurveyReader<F>,
        next_offset: i64,
        /// True if no finding covers the end of the segment.
        is_sound: bool,
    },
    Finished,
}

impl<F, S> SplitReader<F, S>
where
    F: ReadAt + Clone,
    S: SegmentFiles<Error = F::Error>,
{
    /// Opens a reader of `split` in `file`; None for an absent file. `is_planned`: the file is the planned one.
    pub fn new(
        split: Split,
        file: Option<F>,
        is_planned: bool,
        files: S,
        options: DecodeOptions,
    ) -> FileResult<Self, F> {
        let mut selection = split.selection(is_planned);
        selection.min_timestamp = options.min_timestamp;
        let mut fetch = Fetch::new(selection, options.check_crcs, options.max_batch_bytes);
        fetch.by_headers = options.by_headers;
        // What is only searched stays in the cache of a core until then.
        let chunk = if options.search.is_some() {
            SEARCHED
        } else {
            CHUNK
        };
        fetch.search = options.search;
        let mut decoder = Decoder::new(
            fetch,
            options.columns,
            options.chunk,
            None,
            options.check_crcs,
        );
        let mut rest = Vec::new();
        let state = match file {
            None => {
                rest = miss(&split, -1, None);
                State::Finished
            }
            Some(file) if split.skips => {
                decoder.order = Some((split.base_offset, i64::MAX));
                skipping(&split, file, is_planned, options.check_crcs)?
            }
            Some(file) => {
                let (position, next_offset) = start(&split, &file)?;
                let (end, limit) = if is_planned {
                    (split.end_position, split.limit_offset)
                } else {
                    (file.size().map_err(ReadError::File)?, None)
                };
                decoder.order = Some((next_offset, limit.unwrap_or(i64::MAX)));
                State::Decoding {
                    window: Window::new(file, position, end, chunk)?,
                    end,
                    next_offset,
                }
            }
        };
        Ok(Self {
            split,
            files,
            decoder,
            is_planned,
            has_restarted: false,
            state,
            rest: rest.into_iter(),
        })
    }

    /// The rows of the last step. Take them before the next one.
    pub fn columns(&mut self) -> &mut Columns {
        &mut self.decoder.columns
    }

    /// Moves to the next rows or lost offsets; None at the end.
    pub fn step(&mut self) -> FileResult<Option<Step>, F> {
        loop {
            if self.decoder.is_stopped() {
                return Ok(None);
            }
            if let Some(step) = self.rest.next() {
                return Ok(Some(step));
            }
            let step = match &mut self.state {
                State::Finished => return Ok(None),
                State::Decoding { .. } => match self.decode() {
                    Err(ReadError::Format(error)) if self.is_overlap(&error)? => None,
                    Err(ReadError::Format(error)) if self.may_restart(&error) => self.restart()?,
                    found => found?,
                },
                State::Skipping { .. } => self.skip()?,
            };
            if step.is_some() {
                return Ok(step);
            }
        }
    }

    /// Returns true if an error is about a batch that overlaps the previous batch. The decoder then accepts the batch.
    fn is_overlap(&mut self, error: &Error) -> FileResult<bool, F> {
        let (State::Decoding { window, .. }, Some((next_offset, limit))) =
            (&self.state, self.decoder.order)
        else {
            return Ok(false);
        };
        let position = error.position;
        let is_behind_others = self.decoder.next_offset >= 0 && !self.decoder.has_gap;
        let is_new = self.decoder.overlapping != Some(position);
        if error.fault != Fault::Order || !is_behind_others || !is_new {
            return Ok(false);
        }
        let file = &window.file;
        let Some(header) = probe_batch(file, position)?.map(|batch| batch.header) else {
            return Ok(false);
        };
        // The last batch of a log has nothing after it that shows where it ends.
        let limit = if self.split.file_size.is_some() {
            limit
        } else {
            i64::MAX
        };
        let after = read_bytes(file, header.end_position(), BATCH_OVERHEAD)?;
        let is_over =
            may_overlap(&header, next_offset, limit) && is_continued(&header, limit, &after);
        if is_over {
            self.decoder.overlapping = Some(position);
        }
        Ok(is_over)
    }

    /// Returns true if an error is about offsets that the batches before the planned position may explain.
    fn may_restart(&self, error: &Error) -> bool {
        error.fault == Fault::Order
            && self.split.position > 0
            && self.split.fallback_position == 0
            && !self.has_restarted
    }

    /// Reads the segment from its start, without the rows that have been returned.
    fn restart(&mut self) -> FileResult<Option<Step>, F> {
        self.has_restarted = true;
        if let State::Decoding {
            window,
            end,
            next_offset,
        } = &mut self.state
        {
            let limit = self.decoder.order.map_or(i64::MAX, |(_, limit)| limit);
            self.decoder.restart((self.split.base_offset, limit));
            *next_offset = self.split.base_offset;
            *window = Window::new(window.file.clone(), 0, *end, CHUNK)?;
        }
        Ok(None)
    }

    fn decode(&mut self) -> FileResult<Option<Step>, F> {
        let State::Decoding {
            window,
            end,
            next_offset,
        } = &mut self.state
        else {
            return Ok(None);
        };
        let (split, decoder) = (&self.split, &mut self.decoder);
        while window.position < *end {
            if decoder.is_stopped() {
                return Ok(None);
            }
            let reached = (*next_offset).max(decoder.next_offset);
            if split.is_bounded()
                && reached >= split.end_offset
                && below(reached, window, decoder.has_gap)?.is_none()
            {
                self.state = State::Finished;
                return Ok(None);
            }
            let consumed = decoder.decode(window.data(), window.position)?;
            let has_rows = decoder.columns.rows() > 0;
            if let Some(position) = decoder.doubted.take() {
                verify(&window.file, position)?;
                window.advance(consumed);
                continue;
            }
            if !has_rows && consumed == 0 && !window.fill(decoder.needed)? {
                let size = window.file.size().map_err(ReadError::File)?;
                return Err(cut_batch(window.position, size).into());
            }
            window.advance(consumed);
            if has_rows {
                gather(window, decoder, split, *end, consumed)?;
                return Ok(Some(Step::Rows));
            }
        }
        let reached = (*next_offset).max(decoder.next_offset);
        if self.is_planned && split.ends_segment {
            let cut_short = cut_short::<F, S>(split, &self.files, reached)?;
            self.rest = miss(split, reached, cut_short).into_iter();
        } else if self.is_planned {
            // The next split cannot check that its first batch follows this split's last one.
            let is_done = split.is_bounded() && decoder.next_offset >= split.end_offset;
            let position = if is_done {
                below(reached, window, decoder.has_gap)?
            } else {
                Some(window.position)
            };
            let Some(position) = position else {
                self.state = State::Finished;
                return Ok(None);
            };
            let file = &window.file;
            let first_offset =
                batch_at(file, position, MAX_BATCH)?.and_then(|batch| batch.first_offset);
            let header = read_bytes(file, position, BATCH_OVERHEAD)?;
            decoder.check_order(&header, position, first_offset)?;
        }
        self.state = State::Finished;
        Ok(None)
    }

    fn skip(&mut self) -> FileResult<Option<Step>, F> {
        let State::Skipping {
            parts, next_offset, ..
        } = &mut self.state
        else {
            return Ok(None);
        };
        let split = &self.split;
        match parts.step(&mut self.decoder)? {
            Some(RowsOrDefect::Rows) => return Ok(Some(Step::Rows)),
            // Nothing is lost, and a check reports it.
            Some(RowsOrDefect::Defect(defect)) if defect.code == "offset-overlap" => {}
            Some(RowsOrDefect::Defect(defect)) => {
                let mut end_offset = defect.end_offset;
                if let (None, Some(last)) = (end_offset, split.missing.last()) {
                    // Damage hides the end of the log, but other files know it.
                    end_offset = last.end_offset;
                    *next_offset = end_offset.unwrap_or(i64::MAX);
                }
                return Ok(lose(
                    split,
                    Defect {
                        end_offset,
                        ..defect
                    },
                ));
            }
            None => return self.end_skipping(),
        }
        Ok(None)
    }

    fn end_skipping(&mut self) -> FileResult<Option<Step>, F> {
        let State::Skipping {
            next_offset,
            is_sound,
            ..
        } = &self.state
        else {
            return Ok(None);
        };
        let split = &self.split;
        if self.is_planned {
            let cut_short = if *is_sound {
                cut_short::<F, S>(split, &self.files, *next_offset)?
            } else {
                None
            };
            self.rest = miss(split, *next_offset, cut_short).into_iter();
        }
        self.state = State::Finished;
        Ok(None)
    }
}

/// Surveys the file of a split that skips damage.
fn skipping<F: ReadAt + Clone>(
    split: &Split,
    file: F,
    is_planned: bool,
    check_crcs: bool,
) -> FileResult<State<F>, F> {
    let (end, following) = if is_planned {
        (split.end_position, split.limit_offset)
    } else {
        (file.size().map_err(ReadError::File)?, None)
    };
    let segment = SurveyedSegment {
        base_offset: split.base_offset,
        following_offset: following.filter(|_| split.file_size.is_some()),
        limit_offset: split.limit_offset.filter(|_| is_planned),
        end,
        check_crcs,
        is_clean: true,
    };
    let found = Survey::of(&file, segment)?;
    let next_offset = found.next_offset;
    // A finding at the end covers all offsets up to the next segment.
    let is_sound = !matches!(found.parts.last(), Some(Part::Defect(_)));
    // The survey has checked the order of the headers. Only the decoder sees the first offset of a wrapper.
    let parts = found.within(split.start_offset, split.end_offset).parts;
    Ok(State::Skipping {
        parts: SurveyReader::new(file, parts),
        next_offset,
        is_sound,
    })
}

/// Returns the position of the first batch of a split, and the lowest offset that it can have.
fn start<F: ReadAt>(split: &Split, file: &F) -> FileResult<(u64, i64), F> {
    let Some((before, offset)) = split.entry else {
        return Ok((split.position, split.base_offset));
    };
    let is_expected = probe_batch(file, split.position)?.is_some_and(|batch| {
        let last = batch.header.last_offset();
        batch.is_valid && before < last && last <= offset
    });
    if is_expected {
        // The split before this one checks that this batch follows its last one: an entry's offsets may be wrong.
        return Ok((split.position, split.base_offset));
    }
    let boundary = split.fallback_position;
    let mut walk = HeaderWalk::new(Transactions::default());
    sweep(file, 0, boundary, |bytes, position, end| {
        let wanted = walk.feed(bytes, position, end)?;
        Ok(if walk.done { end } else { wanted })
    })?;
    let next_offset = walk.next_offset.unwrap_or(split.base_offset);
    if walk.end_position >= boundary {
        return Ok((boundary, next_offset));
    }
    // This batch starts before the boundary, so it belongs to the split before. This split starts with the next one.
    Ok(match batch_at(file, walk.end_position, MAX_BATCH)? {
        None => (walk.end_position, next_offset),
        Some(batch) => (batch.header.end_position(), batch.header.next_offset()),
    })
}

/// Verifies the checksum of a batch.
fn verify<F: ReadAt>(file: &F, position: u64) -> FileResult<(), F> {
    if let Some(batch) = batch_at(file, position, MAX_BATCH)? {
        let entry = read_bytes(file, position, batch.header.size())?;
        batch
            .header
            .check_crc(&entry)
            .map_err(|error| batch.header.locate(error))?;
    }
    Ok(())
}

/// Adds more rows to those of a search that has read less than a chunk: a consumer gets as many bytes at once as without a
/// search. Errors come after these rows, with the next ones.
fn gather<F: ReadAt>(
    window: &mut Window<F>,
    decoder: &mut Decoder,
    split: &Split,
    end: u64,
    mut searched: usize,
) -> FileResult<(), F> {
    while window.position < end
        && decoder.needed > 0
        && window.length() + searched <= CHUNK
        && !(split.is_bounded() && decoder.next_offset >= split.end_offset)
        && window.fill(decoder.needed)?
    {
        let consumed = decoder.decode(window.data(), window.position)?;
        if let Some(position) = decoder.doubted.take() {
            verify(&window.file, position)?;
        }
        window.advance(consumed);
        searched += consumed;
    }
    Ok(())
}

/// The number of bytes in which a read that ends at missing offsets searches for moved batches. The number is small
/// because a compacted log has many gaps, and a search at each of them would take time.
const LOOK_AHEAD: u64 = 1 << 20;

/// Returns the position of a batch that starts below `reached`. Such a batch shows that a flipped bit, or a moved
/// batch, is before it.
///
/// Checks the next batch. With `looks_on`, checks all batches in the next [`LOOK_AHEAD`] bytes, up to the first bytes
/// that are not a batch.
fn below<F: ReadAt>(
    reached: i64,
    window: &Window<F>,
    looks_on: bool,
) -> FileResult<Option<u64>, F> {
    let (file, position) = (&window.file, window.position);
    let first = probe_batch(file, position)?.and_then(|batch| batch.first_offset);
    if first.is_some_and(|first| first < reached) {
        return Ok(Some(position));
    }
    let mut found = None;
    let end = file.size().map_err(ReadError::File)?;
    if looks_on {
        sweep(
            file,
            position,
            end.min(position.saturating_add(LOOK_AHEAD)),
            |bytes, position, end| {
                let mut at = position;
                while let Some(rest) = usize::try_from(at - position)
                    .ok()
                    .and_then(|skip| bytes.get(skip..))
                {
                    match Header::parse(rest, at) {
                        Ok(Some(header)) if header.base_offset < reached => {
                            found = Some(at);
                            return Ok(end);
                        }
                        Ok(Some(header)) => at = header.end_position(),
                        Ok(None) => break,
                        Err(_) => return Ok(end),
                    }
                }
                Ok(at)
            },
        )?;
    }
    Ok(found)
}

/// Returns the records that the segment's index lists after the end of the file, unless a live broker changes both.
fn cut_short<F: ReadAt, S: SegmentFiles<Error = F::Error>>(
    split: &Split,
    files: &S,
    next_offset: i64,
) -> FileResult<Option<Defect>, F> {
    let is_older = split.file_size.is_some() && split.limit_offset.is_some();
    if !is_older || !split.trusts_index {
        return Ok(None);
    }
    files.cut_short(next_offset).map_err(ReadError::File)
}

/// Returns the records missing after a segment that ends at `next_offset`, according to other files.
fn miss(split: &Split, next_offset: i64, cut_short: Option<Defect>) -> Vec<Step> {
    let mut steps = Vec::new();
    for missing in split.missing.iter().cloned().chain(cut_short) {
        if next_offset > missing.start_offset {
            continue;
        }
        let (start, end) = split.clipped(missing.start_offset, missing.end_offset);
        if end.is_some_and(|end| end <= start) {
            continue;
        }
        if !split.skips {
            steps.push(Step::Missing(missing));
            break;
        }
        steps.extend(lose(split, missing));
    }
    steps
}

/// Limits a lost range to the offsets of the split. Returns None if nothing is left of it.
fn lose(split: &Split, lost: Defect) -> Option<Step> {
    let is_nothing = lost.end_offset == Some(lost.start_offset);
    let (start_offset, end_offset) = split.clipped(lost.start_offset, lost.end_offset);
    let is_lost = is_nothing || end_offset.is_none_or(|end| start_offset < end);
    is_lost.then_some(Step::Lost(Defect {
        start_offset,
        end_offset,
        ..lost
    }))
}
