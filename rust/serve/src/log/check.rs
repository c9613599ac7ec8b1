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
    let (mut begun, end) = (segment.checked.first_unchecked(position), position + length);
    let share = memory.share();
    if begun >= end || !share.grow(CHUNK) {
        return Ok(());
    }
    let mut position = begun;
    let (mut buffer, mut reserved) = (Vec::new(), CHUNK);
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
        } else if needed > MOST {
            position = batch_end;
        } else if share.grow(needed.saturating_sub(reserved)) {
            reserved = reserved.max(needed);
            buffer.resize(needed, 0);
        } else {
            // The batch is checked when it is sent again.
            segment.checked.add(begun, position);
            (begun, position) = (batch_end, batch_end);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::base::directory::tests::Empty;
    use crate::base::directory::{Directory, Partition};
    use crate::base::sync::lock;

    /// A batch whose checksum is wrong.
    fn damaged_batch(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let length = u32::try_from(size - 12).unwrap();
        bytes
            .get_mut(8..12)
            .unwrap()
            .copy_from_slice(&length.to_be_bytes());
        *bytes.get_mut(16).unwrap() = 2;
        bytes
    }

    fn checked(sizes: &[usize]) -> (Vec<u8>, Arc<Empty>, Segment) {
        let bytes: Vec<u8> = sizes.iter().flat_map(|&size| damaged_batch(size)).collect();
        let places = Arc::new(Empty::default());
        let directory: Arc<dyn Directory> = Arc::<Empty>::clone(&places);
        let partition = Partition {
            path: "memory://t-0".into(),
            ..Partition::default()
        };
        let segment = Segment::open(&directory, &partition, 0, Some(bytes.len() as u64)).unwrap();
        (bytes, places, segment)
    }

    #[test]
    fn a_large_batch_that_is_sent_while_memory_is_short_is_checked_later() {
        let (large, small) = (3 << 20, 1000);
        let (bytes, places, segment) = checked(&[small, large]);
        let memory = Memory::new(16 << 20);
        let others = memory.share();
        assert!(others.grow(8 << 20));
        let run = || {
            let length = bytes.len() as u64;
            check(&segment, &Held(&bytes, 0), 0, length, &memory).unwrap();
            lock(&places.damage).drain(..).collect::<Vec<_>>()
        };
        assert_eq!(run(), [0]);
        assert_eq!(run(), [0; 0]);
        others.give_back(8 << 20);
        assert_eq!(run(), [small as u64]);
        assert_eq!(run(), [0; 0]);
    }

    #[test]
    fn the_check_of_many_large_batches_reserves_the_memory_of_the_largest() {
        let sizes: Vec<usize> = (0..12).map(|number| (1 << 20) + 1000 * number).collect();
        let (bytes, places, segment) = checked(&sizes);
        let memory = Memory::new(8 << 20);
        let length = bytes.len() as u64;
        check(&segment, &Held(&bytes, 0), 0, length, &memory).unwrap();
        assert_eq!(lock(&places.damage).len(), sizes.len());
        assert_eq!(memory.used(), 0);
    }
}
