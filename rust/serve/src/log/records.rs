//! The records of a range of a segment: as stored, or in the form that the options require.

use std::io;
use std::sync::Arc;

use brokerless_core::{Conversion, Converter, Header, NextBatch, Rewrite, next_batch};
use bytes::Bytes;

use crate::base::directory::Partition;
use crate::base::memory::Memory;
use crate::base::options::RecordView;
use crate::log::check::{Held, check};
use crate::log::segment::Segment;
use crate::log::segment_file::{SegmentFile, invalid};
use crate::protocol::wire::{FileRange, Part};

/// The maximum number of bytes of records that are read into memory together, unless the first batch is larger.
const IN_MEMORY: u64 = 1 << 20;
/// Batches above this size are not read into memory. A broker's `message.max.bytes` is far lower.
const MOST: u64 = 64 << 20;
/// The maximum decompressed size of a batch that is converted.
const MOST_DECOMPRESSED: usize = 64 << 20;

/// A range of records that starts with a whole batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) position: u64,
    pub(crate) length: u64,
    /// The size of the first batch.
    pub(crate) first: u64,
    /// The position at which the batches that may be sent end.
    pub(crate) stop: u64,
}

/// The parts that are sent for a range, and the position at which it ends.
pub(crate) struct Sent {
    pub(crate) parts: Vec<Part>,
    pub(crate) end: u64,
}

impl RecordView {
    /// Returns the parts to send for a range; None if there is no memory for them now. If aborted records are dropped,
    /// the range may have no records left.
    ///
    /// `drops_aborted`: drop records of aborted transactions, because the client itself would not drop them.
    pub(crate) fn records(
        self,
        memory: &Arc<Memory>,
        partition: &Partition,
        segment: &Segment,
        range: Range,
        drops_aborted: bool,
    ) -> io::Result<Option<Sent>> {
        segment.check_is_there(range.position + range.length)?;
        let mut range = range;
        if self.as_v2 {
            let (is_old, end) = same_magic(segment, range)?;
            range.length = end - range.position;
            if is_old {
                return converted(memory, segment, range);
            }
        }
        if !drops_aborted {
            return as_they_lie(memory, segment, range);
        }
        let mut sent = Sent {
            parts: Vec::new(),
            end: range.position,
        };
        let (ranges, end) = without_aborted(partition, segment, range)?;
        for range in ranges {
            match as_they_lie(memory, segment, range)? {
                None if sent.parts.is_empty() => return Ok(None),
                None => return Ok(Some(sent)),
                Some(more) => {
                    sent.parts.extend(more.parts);
                    sent.end = more.end;
                    if more.end < range.position + range.length {
                        return Ok(Some(sent));
                    }
                }
            }
        }
        sent.end = end;
        Ok(Some(sent))
    }
}

fn as_they_lie(memory: &Arc<Memory>, segment: &Segment, range: Range) -> io::Result<Option<Sent>> {
    if let SegmentFile::Local(file) = &segment.file {
        check(segment, &**file, range.position, range.length, memory)?;
        let part = Part::File(FileRange {
            file: Arc::clone(file),
            position: range.position,
            length: range.length,
        });
        return Ok(Some(Sent {
            parts: vec![part],
            end: range.position + range.length,
        }));
    }
    let length = range.length.min(IN_MEMORY.max(range.first));
    let share = memory.share();
    if !share.grow(bounded(length)?) {
        return Ok(None);
    }
    let bytes = checked(memory, segment, range.position, bounded(length)?)?;
    let end = range.position + bytes.len() as u64;
    Ok(Some(Sent {
        parts: vec![Part::Held(bytes, share)],
        end,
    }))
}

/// Reads batches to send, and reports their defects.
fn checked(
    memory: &Arc<Memory>,
    segment: &Segment,
    position: u64,
    length: usize,
) -> io::Result<Bytes> {
    let bytes = segment.file.read(position, length)?;
    let held = Held(&bytes, position);
    check(segment, &held, position, bytes.len() as u64, memory)?;
    Ok(bytes)
}

fn bounded(length: u64) -> io::Result<usize> {
    match usize::try_from(length) {
        Ok(size) if length <= MOST => Ok(size),
        _ => Err(invalid(&format!(
            "a batch has {length} bytes, but this process can send at most {MOST}"
        ))),
    }
}

/// Returns whether the first batch is of magic 0 or 1, and the end of the run of batches of the same kind.
fn same_magic(segment: &Segment, range: Range) -> io::Result<(bool, u64)> {
    let (mut is_old, mut end) = (None, range.position);
    segment.headers(range.position, range.position + range.length, |header| {
        let is_same = *is_old.get_or_insert(header.magic < 2) == (header.magic < 2);
        if is_same {
            end = header.end_position();
        }
        is_same
    })?;
    // The last batch may be cut.
    Ok((
        is_old.unwrap_or(false),
        end.min(range.position + range.length),
    ))
}

/// Returns the parts of a range without the batches of aborted transactions, and the position at which the last batch
/// ends.
///
/// Continues after the range until there is a batch, because a client that gets no batch would send the same fetch
/// again.
fn without_aborted(
    partition: &Partition,
    segment: &Segment,
    range: Range,
) -> io::Result<(Vec<Range>, u64)> {
    let (limit, mut end) = (range.position + range.length, range.position);
    let mut kept: Vec<Range> = Vec::new();
    segment.headers(range.position, range.stop, |header| {
        let (position, size) = (header.position, header.size() as u64);
        if position >= limit && !kept.is_empty() {
            return false;
        }
        end = header.end_position();
        if !is_aborted(partition, header) {
            match kept.last_mut() {
                Some(last) if last.position + last.length == position => last.length += size,
                _ => kept.push(Range {
                    position,
                    length: size,
                    first: size,
                    stop: range.stop,
                }),
            }
        }
        true
    })?;
    Ok((kept, end))
}

fn is_aborted(partition: &Partition, header: &Header) -> bool {
    let (base, last) = (header.base_offset, header.last_offset());
    header.is_transactional()
        && !header.is_control()
        && partition
            .aborted_in(base, last.saturating_add(1))
            .any(|one| one.producer_id == header.producer_id && one.first_offset <= base)
}

/// Returns the whole batches of a range as v2.
fn converted(memory: &Arc<Memory>, segment: &Segment, range: Range) -> io::Result<Option<Sent>> {
    let length = bounded(range.length.min(IN_MEMORY.max(range.first)))?;
    let share = memory.share();
    // The batches before and after.
    if !share.grow(2 * length) {
        return Ok(None);
    }
    let bytes = checked(memory, segment, range.position, length)?;
    let (bytes, taken) = as_v2(&bytes, range.position).map_err(|error| segment.damaged(error))?;
    if bytes.len() > 2 * length && !share.grow(bytes.len() - 2 * length) {
        return Ok(None);
    }
    Ok(Some(Sent {
        parts: vec![Part::Held(bytes, share)],
        end: range.position + taken,
    }))
}

fn as_v2(bytes: &[u8], position: u64) -> brokerless_core::Result<(Bytes, u64)> {
    let conversion = Conversion {
        magic: Some(2),
        ..Conversion::default()
    };
    let mut converter = Converter::new(conversion, &[], i64::MAX, i64::MAX, MOST_DECOMPRESSED)?;
    let (mut out, mut taken) = (Vec::new(), 0);
    while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
        let NextBatch::Batch(header, entry) = next_batch(rest, position + taken as u64)? else {
            break;
        };
        if converter.entry(&header, entry, &mut out)? {
            out.extend_from_slice(entry);
        }
        taken += entry.len();
    }
    converter.finish(&mut out)?;
    Ok((out.into(), taken as u64))
}
