//! Joins neighbouring entries into one batch.
//!
//! A join must be invisible: offsets, timestamps, sequences, transactions and delete horizons are the same afterwards.
//! Sequences follow offset deltas, so a producer's batches are joined only if both offsets and sequences continue. A
//! marker or another producer's batch between two batches separates them.

use super::{Converter, DEFAULT_BATCH_SIZE, FieldLosses};
use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, increment_sequence};
use crate::format::compression::{Compression, Decompressor};
use crate::format::message::MessageSet;
use crate::format::record;
use crate::rewrite::rewriter::Rewrite;
use crate::write::batch_builder::BatchOptions;

/// Entries that become one batch.
#[derive(Debug)]
pub(super) struct BatchGroup {
    /// Header of the first entry.
    pub(super) first: Header,
    /// Options of the batch.
    pub(super) options: BatchOptions,
    /// The last offset that the last entry covers.
    pub(super) last_offset: i64,
    /// The number of entries. A single entry is kept unchanged, because it may stay alone.
    pub(super) sources: u64,
    /// Uncompressed size of the batch.
    bytes: usize,
}

/// The contribution of one entry to a batch.
struct GroupEntry {
    options: BatchOptions,
    last_offset: i64,
    bytes: usize,
}

impl BatchGroup {
    fn takes(&self, source: &GroupEntry, limit: usize) -> bool {
        let (ours, theirs) = (&self.options, &source.options);
        let distance = theirs.base_offset.checked_sub(ours.base_offset);
        let (Some(distance), Some(span)) = (
            distance.and_then(|distance| i32::try_from(distance).ok()),
            source.last_offset.checked_sub(ours.base_offset),
        ) else {
            return false;
        };
        let goes_on = match (ours.base_sequence, theirs.base_sequence) {
            (-1, theirs) => theirs == -1,
            (ours, theirs) => {
                ours >= 0 && theirs >= 0 && increment_sequence(ours, distance) == theirs
            }
        };
        let alike = BatchOptions {
            base_offset: ours.base_offset,
            base_sequence: ours.base_sequence,
            ..*theirs
        };
        goes_on
            && alike == *ours
            && theirs.base_offset > self.last_offset
            && span <= i64::from(i32::MAX)
            && self.bytes + source.bytes <= limit
    }
}

impl Converter {
    /// Adds an entry that may share a batch with others; returns false if it must stay alone. If the entry does not fit
    /// into the current batch, that batch is appended to `out`.
    pub(super) fn join(
        &mut self,
        header: &Header,
        entry: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let source = self
            .source(header, entry)
            .map_err(|error| header.locate(error));
        let Some((source, limit)) = source? else {
            return Ok(false);
        };
        match self.group.take() {
            Some(mut group) if group.takes(&source, limit) => {
                if group.sources == 1 {
                    self.codecs.builder.begin(group.options)?;
                    let first_entry = std::mem::take(&mut self.group_first_entry);
                    let first = self.append(&group.first, &first_entry, group.options.magic);
                    self.group_first_entry = first_entry;
                    first?;
                }
                self.append(header, entry, group.options.magic)?;
                group.sources += 1;
                group.last_offset = source.last_offset;
                group.bytes += source.bytes;
                self.group = Some(group);
            }
            other => {
                self.group = other;
                self.finish(out)?;
                self.group_first_entry.clear();
                self.group_first_entry.extend_from_slice(entry);
                self.group = Some(BatchGroup {
                    first: *header,
                    options: source.options,
                    last_offset: source.last_offset,
                    sources: 1,
                    bytes: BATCH_OVERHEAD + source.bytes,
                });
            }
        }
        Ok(true)
    }

    fn append(&mut self, header: &Header, entry: &[u8], magic: i8) -> Result<()> {
        let mut losses = FieldLosses::of(&self.conversion, &mut self.converted, magic);
        self.codecs
            .append(header, entry, |builder, record| {
                builder.append(&losses.record(record)?)
            })
            .map_err(|error| header.locate(error))
    }

    /// Returns the entry's contribution, and the largest size of its batch. None if it must stay alone.
    fn source(&mut self, header: &Header, entry: &[u8]) -> Result<Option<(GroupEntry, usize)>> {
        let is_alone = header.magic < 2 && header.compression()? == Compression::None;
        let limit = match self.conversion.batch_size {
            None if is_alone => DEFAULT_BATCH_SIZE,
            Some(limit) if !header.is_control() && header.records_count != Some(0) => limit,
            _ => return Ok(None),
        };
        let options = self.options(header)?;
        let is_batch = options.magic == 2 || options.codec.compression != Compression::None;
        let stays = is_alone && !options.is_compressed() && options.magic < 2;
        if !is_batch || stays || entry.len() >= limit {
            return Ok(None);
        }
        let decompressor = &mut self.codecs.decompressor;
        let extent = if header.magic == 2 {
            batch_extent(header, entry, options.magic, decompressor)?
        } else {
            set_extent(header, entry, decompressor)?
        };
        let last_offset = extent.map(|(_, last_offset, _)| last_offset);
        let below = self.conversion.join_below;
        if last_offset.is_some_and(|last| below.is_some_and(|below| last >= below)) {
            self.converted.apart += 1;
            return Ok(None);
        }
        Ok(extent.map(|(first, last_offset, bytes)| {
            let options = BatchOptions {
                base_offset: first,
                ..options
            };
            let source = GroupEntry {
                options,
                last_offset,
                bytes,
            };
            (source, limit)
        }))
    }
}

/// Returns first and last offset of a batch and the size of its records. None unless its offsets rise within the range
/// of its header.
fn batch_extent(
    header: &Header,
    entry: &[u8],
    magic: i8,
    decompressor: &mut Decompressor,
) -> Result<Option<(i64, i64, usize)>> {
    let payload = record::payload(header, entry, decompressor)?;
    let (mut first, mut last, mut rises) = (0, -1, true);
    record::for_each_outline(payload, header.records_count.unwrap_or(0), |outline| {
        rises &= outline.offset_delta > last;
        // Only magic 2 keeps offsets before the first record.
        if last == -1 && magic < 2 {
            first = outline.offset_delta;
        }
        last = outline.offset_delta;
    })?;
    let first = header.base_offset.wrapping_add(i64::from(first));
    let extent = (first, header.last_offset(), payload.len());
    Ok((rises && last <= header.last_offset_delta).then_some(extent))
}

/// Returns the same facts as [`batch_extent`], for a message or a wrapper.
fn set_extent(
    header: &Header,
    entry: &[u8],
    decompressor: &mut Decompressor,
) -> Result<Option<(i64, i64, usize)>> {
    let set = MessageSet::open(header, entry, decompressor)?;
    let (first, mut last, mut rises) = (set.first_offset(), None, true);
    set.for_each(false, |message| {
        rises &= last < Some(message.offset);
        last = Some(message.offset);
        Ok::<(), Error>(())
    })?;
    let extent = last.map(|last| (first, last.max(header.base_offset), set.payload().len()));
    Ok(extent.filter(|_| rises))
}
