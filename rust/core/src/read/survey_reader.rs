//! Rows of a surveyed segment: the decoded runs, with the defects between them.

use std::borrow::Cow;

use crate::base::error::{Error, ErrorKind};
use crate::read::decoder::Decoder;
use crate::read::defect::{Defect, code};
use crate::read::file::{
    CHUNK, FileResult, MAX_BATCH, ReadAt, ReadError, Window, batch_at, probe_batch,
};
use crate::read::soundness::BatchRange;
use crate::read::survey::{NEAR, Part, cut_batch};

/// The result of [`SurveyReader::step`].
#[derive(Debug)]
pub enum RowsOrDefect {
    /// The decoder's columns have rows.
    Rows,
    /// A defect, of the survey or of a sound batch with malformed records.
    Defect(Defect),
}

/// Reads the parts of a survey in their order.
pub struct SurveyReader<F> {
    file: F,
    parts: std::vec::IntoIter<Part>,
    run: Option<Run<F>>,
}

struct Run<F> {
    range: BatchRange,
    window: Window<F>,
    /// The offset after the last decoded batch.
    next_offset: i64,
    /// Rows below this offset are left out, because they were also in the previous batch.
    floor: i64,
}

impl<F: ReadAt + Clone> SurveyReader<F> {
    /// Creates a reader of `parts`, which lie in `file`.
    pub fn new(file: F, parts: Vec<Part>) -> Self {
        Self {
            file,
            parts: parts.into_iter(),
            run: None,
        }
    }

    /// Moves to the next rows, which are in `decoder`, or the next defect; None at the end.
    pub fn step(&mut self, decoder: &mut Decoder) -> FileResult<Option<RowsOrDefect>, F> {
        loop {
            let Some(run) = &mut self.run else {
                match self.parts.next() {
                    None => return Ok(None),
                    Some(Part::Defect(defect)) => {
                        return Ok(Some(RowsOrDefect::Defect(defect)));
                    }
                    Some(Part::Run(range)) => {
                        let window = self.window(range.position, &range, CHUNK)?;
                        let first = probe_batch(&self.file, range.position)?;
                        let is_over = first.is_some_and(|first| {
                            first.header.magic == 2 && first.header.base_offset < range.first_offset
                        });
                        self.run = Some(Run {
                            next_offset: range.first_offset,
                            floor: if is_over {
                                range.first_offset
                            } else {
                                i64::MIN
                            },
                            range,
                            window,
                        });
                    }
                }
                continue;
            };
            match run.decode(decoder) {
                Ok(true) => return Ok(Some(RowsOrDefect::Rows)),
                Ok(false) => self.run = None,
                Err(ReadError::Format(error)) if error.kind != ErrorKind::Invalid => {
                    return self.pass_over(error).map(Some);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn window(&self, position: u64, run: &BatchRange, length: usize) -> FileResult<Window<F>, F> {
        Window::new(self.file.clone(), position, run.end_position, length)
    }

    /// Moves past a sound batch with malformed records.
    fn pass_over(&mut self, error: Error) -> FileResult<RowsOrDefect, F> {
        let Some(run) = self.run.take() else {
            return Err(error.into());
        };
        let (position, end) = (run.window.position, run.range.end_position);
        let bad = batch_at(&self.file, position, MAX_BATCH)?;
        let next_position = bad.map_or(end, |bad| bad.header.end_position());
        let after = if next_position < end {
            probe_batch(&self.file, next_position)?
        } else {
            None
        };
        let start_offset = run.next_offset;
        let end_offset = after
            .and_then(|after| after.first_offset)
            .map_or(run.range.next_offset, |first| first.max(start_offset));
        if next_position < end {
            self.run = Some(Run {
                window: self.window(next_position, &run.range, NEAR)?,
                next_offset: end_offset,
                floor: run.floor,
                range: run.range,
            });
        }
        Ok(RowsOrDefect::Defect(Defect {
            path: None,
            code: Cow::Borrowed(code(&error)),
            position,
            base_offset: error.base_offset,
            next_position: Some(next_position),
            start_offset,
            end_offset: Some(end_offset),
            reason: error.message,
        }))
    }
}

impl<F: ReadAt> Run<F> {
    /// Decodes up to the next rows. Returns false at the end of the run.
    fn decode(&mut self, decoder: &mut Decoder) -> FileResult<bool, F> {
        decoder.floor = self.floor;
        while self.window.position < self.range.end_position && !decoder.is_stopped() {
            let consumed = decoder.decode(self.window.data(), self.window.position)?;
            let has_rows = decoder.columns.rows() > 0;
            if !has_rows && consumed == 0 && !self.window.fill(decoder.needed)? {
                return Err(cut_batch(self.window.position, self.range.end_position).into());
            }
            if consumed > 0 {
                self.next_offset = decoder.next_offset;
            }
            self.window.advance(consumed);
            if has_rows {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
