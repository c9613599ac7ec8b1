//! The second half of compaction: copies the batches of old segments, without the dropped records, into new segments.
//!
//! Batches are filtered by several threads, and pushed in their order.

use std::collections::HashMap;

use crate::base::bits::{is_set, ones};
use crate::base::error::{Error, Result};
use crate::base::parallel::{in_parallel, workers};
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::index::TransactionIndex;
use crate::format::walk;
use crate::rewrite::filter::{BatchFilter, Retention, Verdict};
use crate::rewrite::rewriter::Rewriter;
use crate::rewrite::segment_output::SegmentOutput;
use crate::write::transcode;

/// The number of batches that a thread filters at a time.
const PART_BATCHES: usize = 16;

/// An active producer's last record, as the log's producer state has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Offset of its last data record; -1 if it has markers only.
    pub last_offset: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

/// The options of a rewrite, besides the verdicts.
#[derive(Debug, Clone, Default)]
pub struct RewriteOptions {
    /// The batch that ends at this offset stays, even without records.
    pub end_offset: i64,
    /// The delete horizon for batches that get one, ms: the clock plus `delete.retention.ms`.
    pub delete_horizon_ms: i64,
    /// The active producers by id.
    pub producers: HashMap<i64, LastRecord>,
    /// The cap on the decompressed size of one batch.
    pub max_batch_bytes: usize,
    /// The number of threads that filter batches.
    pub threads: usize,
}

/// The verdicts on the current segment: everything that filtering one of its batches needs.
#[derive(Debug, Default)]
struct RewriteVerdicts {
    options: RewriteOptions,
    /// A bit for each record that stays.
    keep: Vec<u8>,
    /// A bit for each record that stays and needs a delete horizon.
    stamp: Vec<u8>,
}

/// A batch that stays, or at least its header.
#[derive(Debug, Clone, Copy)]
struct KeptBatch {
    header: Header,
    /// Its position in the bytes that were fed.
    at: usize,
    /// Number of its first record in the segment.
    first: u64,
    /// Records in it.
    count: u64,
    /// Records of it that stay.
    kept: u64,
}

/// The filtered batches of a part.
#[derive(Default)]
struct FilteredPart {
    bytes: Vec<u8>,
    /// The ends of the batches in `bytes`.
    ends: Vec<usize>,
    failed: Option<Error>,
}

/// Rewrites one segment after another.
#[derive(Debug)]
pub struct CompactionRewrite {
    verdicts: RewriteVerdicts,
    filter: BatchFilter,
    /// One worker for each thread; none for a single thread.
    workers: Vec<BatchFilter>,
    decompressor: Decompressor,
    rewriter: Rewriter,
    /// The offset after the last batch of the old segments.
    next_offset: i64,
    /// Records of the current segment so far.
    pub records: u64,
    /// Records among them that stayed.
    pub kept: u64,
}

impl CompactionRewrite {
    /// Creates a rewrite that has no segment yet.
    pub fn new(options: RewriteOptions) -> Result<Self> {
        let max_batch_bytes = options.max_batch_bytes;
        Ok(Self {
            filter: BatchFilter::new(max_batch_bytes),
            workers: workers(options.threads, || Ok(BatchFilter::new(max_batch_bytes)))?,
            decompressor: Decompressor::new(max_batch_bytes),
            // Positions of batches are stored in 32 bits.
            rewriter: Rewriter::new(i32::MAX as u64),
            next_offset: 0,
            verdicts: RewriteVerdicts {
                options,
                ..RewriteVerdicts::default()
            },
            records: 0,
            kept: 0,
        })
    }

    /// Starts the next old segment, with the verdicts on its records.
    pub fn begin(&mut self, keep: &[u8], stamp: &[u8], aborted: &TransactionIndex) -> Result<()> {
        self.verdicts.keep = keep.to_vec();
        self.verdicts.stamp = stamp.to_vec();
        self.records = 0;
        self.kept = 0;
        self.rewriter.begin(aborted)
    }

    /// The size in bytes of the batch after the consumed bytes; 0 if unknown.
    pub fn needed(&self) -> usize {
        self.rewriter.needed
    }

    /// Returns true if the new segment is full while batches wait. Continue with another segment, whose base offset is
    /// the end of this one.
    pub fn is_full(&self) -> bool {
        self.rewriter.is_full
    }

    /// Ends an old segment. Returns false if the new segment is full: call again with another new segment.
    pub fn finish(&mut self, output: &mut SegmentOutput) -> Result<bool> {
        if !self.rewriter.drain(output)? {
            return Ok(false);
        }
        self.rewriter.end(output)?;
        Ok(true)
    }

    /// Rewrites the whole batches at the start of `data`, which starts at `position` of the segment's file; returns
    /// their size in bytes. If the previous new segment was full and this one is full too, nothing is consumed.
    pub fn feed(
        &mut self,
        data: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        if !self.rewriter.drain(output)? {
            return Ok(0);
        }
        let (consumed, batches) = self.walk(data, position)?;
        if self.workers.is_empty() {
            self.rewrite_here(&batches, data, output)?;
        } else {
            self.rewrite_in_parallel(&batches, data, output)?;
        }
        Ok(consumed)
    }

    /// Counts the records of the whole batches, and returns the batches that may stay in part or whole.
    fn walk(&mut self, data: &[u8], position: u64) -> Result<(usize, Vec<KeptBatch>)> {
        let mut batches = Vec::new();
        let (consumed, needed) = walk::for_each(data, position, |header, entry| {
            let first = self.records;
            let count =
                transcode::count_from(header, entry, &mut self.decompressor, self.next_offset)?;
            self.next_offset = header.next_offset();
            let kept = ones(&self.verdicts.keep, first, count);
            self.records += count;
            self.kept += kept;
            if kept > 0 || self.verdicts.options.is_retained(header) {
                batches.push(KeptBatch {
                    header: *header,
                    at: (header.position - position) as usize,
                    first,
                    count,
                    kept,
                });
            }
            Ok(())
        })?;
        self.rewriter.needed = needed;
        Ok((consumed, batches))
    }

    fn rewrite_here(
        &mut self,
        batches: &[KeptBatch],
        data: &[u8],
        output: &mut SegmentOutput,
    ) -> Result<()> {
        let mut filtered = Vec::new();
        for batch in batches {
            filtered.clear();
            self.verdicts
                .filter(batch, data, &mut self.filter, &mut filtered)?;
            self.rewriter
                .put(&filtered, batch.header.position, output)?;
        }
        Ok(())
    }

    fn rewrite_in_parallel(
        &mut self,
        batches: &[KeptBatch],
        data: &[u8],
        output: &mut SegmentOutput,
    ) -> Result<()> {
        let verdicts = &self.verdicts;
        let parts: Vec<_> = batches.chunks(PART_BATCHES).collect();
        let filtered_parts = in_parallel(
            &mut self.workers,
            &parts,
            || (),
            |filter, part| verdicts.filter_part(part, data, filter),
        );
        for (part, filtered) in parts.iter().zip(filtered_parts) {
            let mut start = 0;
            for (batch, end) in part.iter().zip(filtered.ends) {
                let bytes = filtered.bytes.get(start..end).unwrap_or_default();
                self.rewriter.put(bytes, batch.header.position, output)?;
                start = end;
            }
            if let Some(error) = filtered.failed {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl RewriteVerdicts {
    /// Filters the batches of a part, up to the first one that fails.
    fn filter_part(
        &self,
        part: &[KeptBatch],
        data: &[u8],
        filter: &mut BatchFilter,
    ) -> FilteredPart {
        let mut filtered = FilteredPart::default();
        for batch in part {
            if let Err(error) = self.filter(batch, data, filter, &mut filtered.bytes) {
                filtered.failed = Some(error);
                break;
            }
            filtered.ends.push(filtered.bytes.len());
        }
        filtered
    }

    /// Appends the remaining part of a batch of `data` to `filtered`.
    fn filter(
        &self,
        batch: &KeptBatch,
        data: &[u8],
        filter: &mut BatchFilter,
        filtered: &mut Vec<u8>,
    ) -> Result<()> {
        let header = &batch.header;
        let rest = data.get(batch.at..).unwrap_or_default();
        let entry = rest.get(..header.size()).unwrap_or(rest);
        let retain_empty = self.options.is_retained(header);
        if header.magic == 2 && batch.kept == 0 {
            if retain_empty {
                filtered.extend(BatchFilter::emptied(header));
            }
            return Ok(());
        }
        let is_stamped =
            header.delete_horizon_ms().is_none() && ones(&self.stamp, batch.first, batch.count) > 0;
        if header.magic == 2 && batch.kept == batch.count && !is_stamped {
            filtered.extend_from_slice(entry);
            return Ok(());
        }
        let retention = Retention {
            retain_empty,
            delete_horizon_ms: is_stamped.then_some(self.options.delete_horizon_ms),
        };
        let verdict = |number| match is_set(&self.keep, batch.first + number as u64) {
            true => Verdict::Keep,
            false => Verdict::Drop,
        };
        filtered.extend_from_slice(filter.filter(header, entry, retention, verdict)?.batch);
        Ok(())
    }
}

impl RewriteOptions {
    /// Returns true if the batch stays even without records.
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
