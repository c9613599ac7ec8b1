//! Carrying it out: the batches of old segments, without the records that go, into a new one.

use std::collections::HashMap;

use crate::base::bits::{is_set, ones};
use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::index::TransactionIndex;
use crate::format::walk;
use crate::rewrite::filter::{BatchFilter, Retention, Verdict};
use crate::rewrite::rewriter::Rewriter;
use crate::rewrite::segment_output::SegmentOutput;
use crate::write::transcode;

/// An active producer's last record, as the log's producer state has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Of its last data; -1: it has only markers.
    pub last_offset: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

/// What a rewrite needs besides the verdicts.
#[derive(Debug, Clone, Default)]
pub struct RewriteOptions {
    /// The batch that ends here stays, be it empty.
    pub end_offset: i64,
    /// The delete horizon for those that get one, ms: the clock plus `delete.retention.ms`.
    pub delete_horizon_ms: i64,
    /// By producer id, of the active ones.
    pub producers: HashMap<i64, LastRecord>,
    /// The most that one batch may decompress to.
    pub max_batch_bytes: usize,
}

/// What is known of the segment in hand: all that filtering one of its batches needs.
#[derive(Debug, Default)]
pub struct RewriteVerdicts {
    options: RewriteOptions,
    keep: Vec<u8>,
    stamp: Vec<u8>,
}

/// A batch of which something may be left.
#[derive(Debug, Clone, Copy)]
pub struct KeptBatch {
    header: Header,
    /// Where it begins in the bytes that were walked.
    at: usize,
    /// Numbers of its records in the segment.
    first: u64,
    count: u64,
    kept: u64,
}

/// A rewrite of segments, one after the other.
#[derive(Debug)]
pub struct CompactionRewrite {
    verdicts: RewriteVerdicts,
    filter: BatchFilter,
    decompressor: Decompressor,
    rewriter: Rewriter,
    /// After the last batch of the old segments.
    next_offset: i64,
    /// Records of the segment so far.
    pub records: u64,
    /// Those of them that stayed.
    pub kept: u64,
    /// Bytes that the batch at the end of the last `feed` takes; 0 if not even that can be known.
    pub needed: usize,
}

impl CompactionRewrite {
    /// Starts one.
    pub fn new(options: RewriteOptions) -> Self {
        Self {
            filter: BatchFilter::new(options.max_batch_bytes),
            decompressor: Decompressor::new(options.max_batch_bytes),
            // Batches are counted by where they stand, in 32 bits.
            rewriter: Rewriter::new(i32::MAX as u64),
            next_offset: 0,
            verdicts: RewriteVerdicts {
                options,
                ..RewriteVerdicts::default()
            },
            records: 0,
            kept: 0,
            needed: 0,
        }
    }

    /// Goes on with a segment and what was decided about it.
    pub fn begin(&mut self, keep: &[u8], stamp: &[u8], aborted: &TransactionIndex) -> Result<()> {
        self.verdicts.keep = keep.to_vec();
        self.verdicts.stamp = stamp.to_vec();
        self.records = 0;
        self.kept = 0;
        self.rewriter.begin(aborted)
    }

    /// Pushes what waits since the last new segment was full; false: so is this one.
    pub fn resume(&mut self, output: &mut SegmentOutput) -> Result<bool> {
        self.rewriter.drain(output)
    }

    /// The new segment is full, and batches wait: go on with another one, based where it ends.
    pub fn is_full(&self) -> bool {
        self.rewriter.is_full
    }

    /// Ends a segment of which nothing waits.
    pub fn finish(&mut self, output: &mut SegmentOutput) -> Result<()> {
        self.rewriter.end(output)
    }

    /// Takes the whole batches that `data`, at `position` of the segment's file, starts with; how many bytes they are. Where
    /// the new segment was full before, and so is this one, nothing is taken.
    pub fn feed(
        &mut self,
        data: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        if !self.resume(output)? {
            return Ok(0);
        }
        let (taken, pieces) = self.walk(data, position)?;
        let mut left = Vec::new();
        for piece in &pieces {
            left.clear();
            self.verdicts
                .filter(piece, data, &mut self.filter, &mut left)?;
            self.put(piece, &left, output)?;
        }
        Ok(taken)
    }

    /// The first part of it, where nothing waits: the batches of which something may be left.
    pub fn walk(&mut self, data: &[u8], position: u64) -> Result<(usize, Vec<KeptBatch>)> {
        let mut pieces = Vec::new();
        let (taken, needed) = walk::for_each(data, position, |header, entry| {
            let first = self.records;
            let count =
                transcode::count_from(header, entry, &mut self.decompressor, self.next_offset)?;
            self.next_offset = header.next_offset();
            let kept = ones(&self.verdicts.keep, first, count);
            self.records += count;
            self.kept += kept;
            if kept > 0 || self.verdicts.options.is_retained(header) {
                pieces.push(KeptBatch {
                    header: *header,
                    at: (header.position - position) as usize,
                    first,
                    count,
                    kept,
                });
            }
            Ok(())
        })?;
        self.needed = needed;
        Ok((taken, pieces))
    }

    /// For the second part, [`RewriteVerdicts::filter`], piece by piece. The last part is [`Self::put`], in their order.
    pub fn verdicts(&self) -> &RewriteVerdicts {
        &self.verdicts
    }

    /// Pushes what is left of a batch, or lets it wait.
    pub fn put(
        &mut self,
        piece: &KeptBatch,
        left: &[u8],
        output: &mut SegmentOutput,
    ) -> Result<()> {
        self.rewriter.put(left, piece.header.position, output)
    }
}

impl RewriteVerdicts {
    /// Appends what is left of a batch of `data`, which was walked.
    pub fn filter(
        &self,
        piece: &KeptBatch,
        data: &[u8],
        filter: &mut BatchFilter,
        left: &mut Vec<u8>,
    ) -> Result<()> {
        let header = &piece.header;
        let rest = data.get(piece.at..).unwrap_or_default();
        let entry = rest.get(..header.size()).unwrap_or(rest);
        let retain_empty = self.options.is_retained(header);
        if header.magic == 2 && piece.kept == 0 {
            if retain_empty {
                left.extend(BatchFilter::emptied(header));
            }
            return Ok(());
        }
        let is_stamped =
            header.delete_horizon_ms().is_none() && ones(&self.stamp, piece.first, piece.count) > 0;
        if header.magic == 2 && piece.kept == piece.count && !is_stamped {
            left.extend_from_slice(entry);
            return Ok(());
        }
        let retention = Retention {
            retain_empty,
            delete_horizon_ms: is_stamped.then_some(self.options.delete_horizon_ms),
        };
        let verdict = |number| match is_set(&self.keep, piece.first + number as u64) {
            true => Verdict::Keep,
            false => Verdict::Drop,
        };
        let filtered = filter.filter(header, entry, retention, verdict)?;
        left.extend_from_slice(filtered.batch);
        Ok(())
    }
}

impl RewriteOptions {
    /// Whether the batch stays though none of its records does.
    fn is_retained(&self, header: &Header) -> bool {
        let is_last_of_producer = header.producer_id >= 0
            && self.producers.get(&header.producer_id).is_some_and(|last| {
                if last.last_offset >= 0 {
                    header.last_offset() == last.last_offset
                } else {
                    header.is_control() && header.producer_epoch == last.producer_epoch
                }
            });
        is_last_of_producer || header.next_offset() == self.end_offset
    }
}
