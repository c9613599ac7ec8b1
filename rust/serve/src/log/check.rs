//! Checks the batches that are sent. Clients get them as stored, and only this check shows the user the damage.

use std::io;
use std::sync::Arc;

use brokerless_core::{NextBatch, ReadAt, cut_batch, next_batch};

use crate::base::memory::Memory;
use crate::log::segment::Segment;

/// The bytes that are read together, unless a batch is larger.
const CHUNK: usize = 128 << 10;
/// The checksum of a batch above this size is not verified: the batch would be read into memory.
const MOST: usize = 16 << 20;

/// Bytes of a file that are already in memory, with their position.
pub(crate) struct Held<'a>(pub(crate) &'a [u8], pub(crate) u64);

impl ReadAt for Held<'_> {
    type Error = io::Error;

    fn size(&self) -> io::Result<u64> {
        Ok(self.1 + self.0.len() as u64)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(count) = self.0.read_at(position.saturating_sub(self.1), buffer);
        Ok(count)
    }
}

/// Reports the defects of the batches in a range of a segment that starts with a batch: wrong checksums, and headers
/// that lead nowhere. Without memory for the check, nothing is checked now.
///
/// A batch that the range cuts off is not checked, because a client has to fetch it again.
pub(crate) fn check(
    segment: &Segment,
    file: &impl ReadAt<Error = io::Error>,
    position: u64,
    length: u64,
    memory: &Arc<Memory>,
) -> io::Result<()> {
    let (begun, end) = (segment.checked.first_unchecked(position), position + length);
    let share = memory.share();
    if begun >= end || !share.grow(CHUNK) {
        return Ok(());
    }
    let mut position = begun;
    let mut buffer = Vec::new();
    while position < end {
        let left = usize::try_from(end - position).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len().max(CHUNK));
        buffer.resize(wanted, 0);
        let count = file.read_at(position, &mut buffer)?;
        buffer.truncate(count);
        let (taken, needed) = match sound(segment, &buffer, position) {
            Some(found) => found,
            None => {
                // Nothing shows where the next batch begins.
                position = segment.end;
                break;
            }
        };
        position += taken as u64;
        if taken > 0 {
            continue;
        }
        let batch_end = position + needed as u64;
        if batch_end > segment.end || (needed == 0 && end >= segment.end) {
            segment.report(cut_batch(position, segment.end));
            position = segment.end;
        } else if count < wanted || needed == 0 || batch_end > end {
            break;
        } else if needed > MOST || !share.grow(needed) {
            position = batch_end;
        } else {
            buffer.resize(needed, 0);
        }
    }
    segment.checked.add(begun, position);
    Ok(())
}

/// Checks the whole batches at the start of some bytes. Returns their size, and the size of the batch after them, 0 if
/// it is unknown; None if a header is damaged.
fn sound(segment: &Segment, bytes: &[u8], position: u64) -> Option<(usize, usize)> {
    let mut taken = 0;
    loop {
        let rest = bytes.get(taken..).unwrap_or_default();
        match next_batch(rest, position + taken as u64) {
            Ok(NextBatch::NeedMore(needed)) => return Some((taken, needed)),
            Ok(NextBatch::Batch(header, entry)) => {
                if let Err(error) = header.check_crc(entry) {
                    segment.report(error.at(header.position, Some(header.base_offset)));
                }
                taken += entry.len();
            }
            Err(error) => {
                segment.report(error);
                return None;
            }
        }
    }
}
