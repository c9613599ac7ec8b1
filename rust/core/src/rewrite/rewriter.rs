//! Old segments to new ones, batch by batch: what a conversion and an erasure share.
//!
//! A rewrite says what becomes of each entry; here its bytes are walked, and what it leaves is put into a new segment, or into
//! the next one once that is full. Offsets do not change, and so entries of a transaction index move along with their
//! markers.

use std::collections::VecDeque;

use crate::base::error::{ErrorKind, Result};
use crate::format::batch::Header;
use crate::format::index::{AbortedTxn, TransactionIndex};
use crate::format::walk::{self, NextBatch};
use crate::rewrite::segment_output::SegmentOutput;

/// What becomes of entries.
pub trait Rewrite {
    /// Takes the next entry, and appends to `out` what becomes of it, after what becomes of those that it waited with. True:
    /// it stays as it is, and comes behind that.
    fn entry(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Appends to `out` what still waits, at the end of a segment.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// A rewrite stops for the caller to write when so many bytes are there: records may have been compressed well.
const MAX_PENDING: usize = 8 << 20;

/// A walk over old segments into new ones.
#[derive(Debug)]
pub struct Rewriter {
    /// No new segment grows beyond, unless by its first batch.
    max_segment_bytes: u64,
    /// Entries that are to be pushed, from `done` on.
    ready: Vec<u8>,
    done: usize,
    /// Where the last entry lies: damage that shows only in what became of it is there, or in those that it waited with.
    position: u64,
    /// Of the old segment, those whose marker was not met yet.
    aborted: VecDeque<AbortedTxn>,
    /// Bytes that the entry at the last `consumed` needs; 0: cannot be told.
    pub needed: usize,
    /// The new segment is full: go on with another one, based where it ends.
    pub is_full: bool,
}

impl Rewriter {
    /// Before the first segment.
    pub fn new(max_segment_bytes: u64) -> Self {
        Self {
            max_segment_bytes,
            ready: Vec::new(),
            done: 0,
            position: 0,
            aborted: VecDeque::new(),
            needed: 0,
            is_full: false,
        }
    }

    /// Goes on with an old segment that has this transaction index.
    pub fn begin(&mut self, aborted: &TransactionIndex) -> Result<()> {
        self.aborted = aborted.entries().collect::<Result<_>>()?;
        Ok(())
    }

    /// Takes the whole entries that `bytes`, at `position` of the old segment, start with; returns how many bytes that are.
    ///
    /// It may be less: nothing only where the new segment is full, else where it holds enough to be written.
    pub fn feed<R: Rewrite>(
        &mut self,
        rewrite: &mut R,
        bytes: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        self.needed = 0;
        let mut consumed = 0;
        while self.drain(output)? && (consumed == 0 || output.pending_bytes() < MAX_PENDING) {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let at = position + consumed as u64;
            match walk::next_batch(rest, at)? {
                NextBatch::NeedMore(needed) => {
                    self.needed = needed;
                    break;
                }
                NextBatch::Batch(header, entry) => {
                    consumed += entry.len();
                    self.position = at;
                    if rewrite.entry(&header, entry, &mut self.ready)? {
                        if self.ready.is_empty() && self.fits(entry, output) {
                            self.push(&header, entry, output)?;
                        } else {
                            self.ready.extend_from_slice(entry);
                        }
                    }
                }
            }
        }
        Ok(consumed)
    }

    /// At the end of an old segment, pushes what still waits. False: the new one is full, call again with another.
    pub fn finish<R: Rewrite>(
        &mut self,
        rewrite: &mut R,
        output: &mut SegmentOutput,
    ) -> Result<bool> {
        rewrite.finish(&mut self.ready)?;
        if !self.drain(output)? {
            return Ok(false);
        }
        self.end(output)?;
        Ok(true)
    }

    /// Pushes batches that were made of the old segment's entry at `position`; what the new one has no room for waits.
    pub fn put(&mut self, batches: &[u8], position: u64, output: &mut SegmentOutput) -> Result<()> {
        self.position = position;
        let mut rest = batches;
        while self.ready.is_empty()
            && let NextBatch::Batch(header, entry) = walk::next_batch(rest, 0)?
            && self.fits(entry, output)
        {
            self.push(&header, entry, output)?;
            rest = rest.get(entry.len()..).unwrap_or_default();
        }
        self.ready.extend_from_slice(rest);
        self.is_full = !self.ready.is_empty();
        Ok(())
    }

    /// Moves what is left of the old segment's transaction index: the cleaner may have dropped a marker before its entry.
    pub(crate) fn end(&mut self, output: &mut SegmentOutput) -> Result<()> {
        self.aborted
            .drain(..)
            .try_for_each(|entry| output.abort(&entry))
    }

    /// Pushes what is ready; false where it does not fit.
    pub fn drain(&mut self, output: &mut SegmentOutput) -> Result<bool> {
        let ready = std::mem::take(&mut self.ready);
        self.is_full = false;
        while let NextBatch::Batch(header, entry) =
            walk::next_batch(ready.get(self.done..).unwrap_or_default(), 0)?
        {
            if !self.fits(entry, output) {
                self.is_full = true;
                break;
            }
            self.push(&header, entry, output)?;
            self.done += entry.len();
        }
        self.ready = ready;
        if !self.is_full {
            self.ready.clear();
            self.done = 0;
        }
        Ok(!self.is_full)
    }

    fn fits(&self, entry: &[u8], output: &SegmentOutput) -> bool {
        let is_first = output.batches() == 0;
        let size = output.size() + entry.len() as u64;
        is_first || size <= self.max_segment_bytes && !output.is_full()
    }

    fn push(&mut self, header: &Header, entry: &[u8], output: &mut SegmentOutput) -> Result<()> {
        output.push(entry).map_err(|mut error| {
            // Here it is the old segment that is at fault: its offsets do not rise, or lie too far apart.
            error.kind = ErrorKind::Corrupt;
            error.at(self.position, Some(header.base_offset))
        })?;
        while let Some(aborted) = self.aborted.front()
            && aborted.last_offset <= header.last_offset()
        {
            output.abort(aborted)?;
            self.aborted.pop_front();
        }
        Ok(())
    }
}
