//! Converts old segments, on one or several threads.
//!
//! Batches that do not depend on others are converted by several threads, part by part, and pushed in their order. All
//! other batches are converted by this thread alone. The result is the same.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Conversion, Converted, Converter};
use crate::base::error::{Error, Result};
use crate::base::parallel::{in_parallel, workers};
use crate::format::batch::Header;
use crate::format::index::TransactionIndex;
use crate::format::walk::{NextBatch, next_batch};
use crate::read::fetch::AbortedTransaction;
use crate::rewrite::rewriter::Rewriter;
use crate::rewrite::segment_output::SegmentOutput;

/// A part ends with the batch that reaches this many bytes.
const PART_BYTES: usize = 128 << 10;

/// Threads stop once they have written this many bytes together, because a small batch may decompress to a large one.
const MAX_CONVERTED_BYTES: usize = 16 << 20;

/// A whole batch, and its position in the bytes that were fed.
struct PlacedBatch {
    header: Header,
    at: Range<usize>,
}

/// The converted batches of a part, up to a batch that failed or until enough bytes were written.
#[derive(Default)]
struct ConvertedPart {
    bytes: Vec<u8>,
    /// For each batch, its end in `bytes`; None for a batch that stays unchanged.
    ends: Vec<Option<usize>>,
    failed: Option<Error>,
    converted: Converted,
}

/// Converts one old segment after another.
#[derive(Debug)]
pub struct SegmentConverter {
    converter: Converter,
    /// One worker for each thread; none for a single thread.
    workers: Vec<Converter>,
    converted_by_workers: Converted,
    rewriter: Rewriter,
}

impl SegmentConverter {
    /// The arguments are those of [`Converter::new`]; `threads` is the number of threads that share the work.
    pub fn new(
        conversion: Conversion,
        aborted: &[AbortedTransaction],
        last_stable_offset: i64,
        log_end_offset: i64,
        max_batch_bytes: usize,
        threads: usize,
    ) -> Result<Self> {
        let converter = || {
            Converter::new(
                conversion,
                aborted,
                last_stable_offset,
                log_end_offset,
                max_batch_bytes,
            )
        };
        Ok(Self {
            converter: converter()?,
            workers: workers(threads, converter)?,
            converted_by_workers: Converted::default(),
            rewriter: Rewriter::new(u64::MAX),
        })
    }

    /// Starts an old segment that has this transaction index. New segments grow up to `max_segment_bytes`.
    pub fn begin(&mut self, aborted: &TransactionIndex, max_segment_bytes: u64) -> Result<()> {
        self.rewriter = Rewriter::new(max_segment_bytes);
        self.rewriter.begin(aborted)
    }

    /// Converts whole batches from the start of `data`, which starts at `position` of the old segment. Returns the size
    /// of these batches in bytes. It is 0 only if the new segment is full, or more bytes are needed.
    pub fn feed(
        &mut self,
        data: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        let parts = match self.workers.is_empty() {
            true => Vec::new(),
            false => self.independent_parts(data, position),
        };
        if parts.is_empty() || !self.rewriter.drain(output)? {
            return self
                .rewriter
                .feed(&mut self.converter, data, position, output);
        }
        let converted_bytes = AtomicUsize::new(0);
        let converted = in_parallel(
            &mut self.workers,
            &parts,
            || (),
            |converter, part| convert_part(converter, part, data, &converted_bytes),
        );
        let mut consumed = 0;
        for (part, converted) in parts.iter().zip(converted) {
            consumed = self
                .push_part(part, &converted, data, output)?
                .max(consumed);
            if let Some(error) = converted.failed {
                return Err(error);
            }
            if converted.ends.len() < part.len() {
                break;
            }
        }
        Ok(consumed)
    }

    /// Pushes the converted batches of a part; returns the end of the last one in `data`.
    fn push_part(
        &mut self,
        part: &[PlacedBatch],
        converted: &ConvertedPart,
        data: &[u8],
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        let (mut consumed, mut start) = (0, 0);
        for (batch, end) in part.iter().zip(&converted.ends) {
            self.converter.advance(&batch.header)?;
            let bytes = match *end {
                Some(end) => converted.bytes.get(std::mem::replace(&mut start, end)..end),
                None => data.get(batch.at.clone()),
            };
            self.rewriter
                .put(bytes.unwrap_or_default(), batch.header.position, output)?;
            consumed = batch.at.end;
        }
        self.converted_by_workers += converted.converted;
        Ok(consumed)
    }

    /// Pushes the waiting batches at the end of an old segment. Returns false if the new segment is full: call again
    /// with another new segment.
    pub fn finish(&mut self, output: &mut SegmentOutput) -> Result<bool> {
        self.rewriter.finish(&mut self.converter, output)
    }

    /// The size in bytes of the batch after the consumed bytes; 0 if unknown.
    pub fn needed(&self) -> usize {
        self.rewriter.needed
    }

    /// Returns true if the new segment is full. Continue with another segment, whose base offset is the end of this
    /// one.
    pub fn is_full(&self) -> bool {
        self.rewriter.is_full
    }

    /// Returns the counts so far.
    pub fn converted(&self) -> Converted {
        let mut converted = self.converter.converted();
        converted += self.converted_by_workers;
        converted
    }

    /// Divides the whole batches at the start of `data` into parts, up to the first batch that is out of place or has
    /// broken framing. That batch is converted alone, which reports its error. Returns nothing if a batch depends on
    /// others.
    fn independent_parts(&self, data: &[u8], position: u64) -> Vec<Vec<PlacedBatch>> {
        let mut parts: Vec<Vec<PlacedBatch>> = Vec::new();
        let (mut at, mut missing) = (0, 0_usize);
        let mut next_offset = self.converter.next_offset;
        while let Ok(NextBatch::Batch(header, entry)) =
            next_batch(data.get(at..).unwrap_or_default(), position + at as u64)
        {
            if !self.converter.is_independent(&header) {
                return Vec::new();
            }
            match self.converter.offset_after(&header, next_offset) {
                Ok(after) => next_offset = after,
                Err(_) => break,
            }
            let batch = PlacedBatch {
                header,
                at: at..at + entry.len(),
            };
            at += entry.len();
            match parts.last_mut() {
                Some(part) if missing > 0 => {
                    part.push(batch);
                    missing = missing.saturating_sub(entry.len());
                }
                _ => {
                    parts.push(vec![batch]);
                    missing = PART_BYTES.saturating_sub(entry.len());
                }
            }
        }
        parts
    }
}

/// Converts the batches of a part until all threads together have written enough bytes.
fn convert_part(
    converter: &mut Converter,
    part: &[PlacedBatch],
    data: &[u8],
    converted_bytes: &AtomicUsize,
) -> ConvertedPart {
    let mut made = ConvertedPart::default();
    for batch in part {
        // The first batch is always converted: a call that consumes nothing means that more bytes are needed.
        let is_first = batch.at.start == 0;
        if !is_first && converted_bytes.load(Ordering::Relaxed) >= MAX_CONVERTED_BYTES {
            break;
        }
        let before = made.bytes.len();
        let entry = data.get(batch.at.clone()).unwrap_or_default();
        match converter.convert_independent(&batch.header, entry, &mut made.bytes) {
            Ok(stays) => made.ends.push((!stays).then_some(made.bytes.len())),
            Err(error) => {
                made.failed = Some(error);
                break;
            }
        }
        converted_bytes.fetch_add(made.bytes.len() - before, Ordering::Relaxed);
    }
    made.converted = converter.take_converted();
    made
}
