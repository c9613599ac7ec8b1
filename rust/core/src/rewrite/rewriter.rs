//! Rewrites old segments to new ones, batch by batch: the part that conversion and erasure share.
//!
//! A [`Rewrite`] decides the result for each entry. The [`Rewriter`] walks the old segment, and puts the results into a
//! new segment, or into the next one when that is full. Offsets do not change, so each transaction index entry moves to
//! the new segment of its marker.

use std::collections::VecDeque;

use crate::base::error::{ErrorKind, Result};
use crate::format::batch::Header;
use crate::format::index::{AbortedTxn, TransactionIndex};
use crate::format::walk::{self, NextBatch};
use crate::rewrite::segment_output::SegmentOutput;

/// Decides the result for each entry.
pub trait Rewrite {
    /// Rewrites the next entry and appends the result to `out`, after the results of earlier entries that waited.
    /// Returns true if the entry is unchanged. The caller must then put the entry itself after these results.
    fn entry(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Appends the result of the entries that wait, at the end of a segment.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// A call returns once this number of bytes waits to be written. The limit exists because small entries may become
/// large ones.
const MAX_PENDING: usize = 8 << 20;

/// A walk over old segments into new ones.
#[derive(Debug)]
pub struct Rewriter {
    /// The largest size of a new segment. Only its first batch may exceed it.
    max_segment_bytes: u64,
    /// Entries to be pushed, from `done` on.
    ready: Vec<u8>,
    done: usize,
    /// Position of the last entry. An error that is found only in the result has this position, although an entry that
    /// waited with this one may be the cause.
    position: u64,
    /// Transactions of the old segment whose marker has not been reached yet.
    aborted: VecDeque<AbortedTxn>,
    /// The size in bytes of the entry after the consumed bytes; 0 if unknown.
    pub needed: usize,
    /// True if the new segment is full. Continue with another segment, whose base offset is the end of this one.
    pub is_full: bool,
}

impl Rewriter {
    /// Creates a walk that has no segment yet.
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

    /// Starts an old segment that has this transaction index.
    pub fn begin(&mut self, aborted: &TransactionIndex) -> Result<()> {
        self.aborted = aborted.entries().collect::<Result<_>>()?;
        Ok(())
    }

    /// Rewrites the whole entries at the start of `bytes`, which start at `position` of the old segment. Returns their
    /// size in bytes.
    ///
    /// A call may leave some entries. It consumes nothing only if the new segment is full; otherwise it stops when
    /// enough bytes wait to be written.
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

    /// Pushes the waiting batches at the end of an old segment. Returns false if the new segment is full: call again
    /// with another new segment.
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

    /// Pushes batches that were made of the old segment's entry at `position`. Batches that do not fit wait.
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

    /// Moves the remaining entries of the old segment's transaction index. Their markers may be missing, because the
    /// cleaner may drop a marker before its index entry.
    pub(crate) fn end(&mut self, output: &mut SegmentOutput) -> Result<()> {
        self.aborted
            .drain(..)
            .try_for_each(|entry| output.abort(&entry))
    }

    /// Pushes the waiting entries; false if some do not fit.
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
            // The old segment is at fault: its offsets do not rise, or lie too far apart.
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
