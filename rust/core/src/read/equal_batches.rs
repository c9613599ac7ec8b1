//! Reads two replicas of a log in lockstep, as long as they have the same batches.

use crate::base::error::ErrorKind;
use crate::format::batch::Header;
use crate::format::walk::{NextBatch, next_batch};
use crate::read::file::{FileResult, ReadAt, ReadError, Window};

/// A position between the batches of a segment.
pub struct BatchCursor<F> {
    window: Window<F>,
    end: u64,
    start_offset: i64,
}

impl<F: ReadAt> BatchCursor<F> {
    /// Creates a cursor for the batches from `position` to `end`, which reads `read_length` bytes at a time. Batches
    /// that end below `start_offset` are skipped.
    pub fn new(
        file: F,
        (position, end): (u64, u64),
        start_offset: i64,
        read_length: usize,
    ) -> FileResult<Self, F> {
        Ok(Self {
            window: Window::new(file, position, end, read_length)?,
            end,
            start_offset,
        })
    }

    /// The position of the next batch.
    pub fn position(&self) -> u64 {
        self.window.position
    }

    /// Returns true if no batch follows.
    pub fn is_at_end(&self) -> bool {
        self.window.position >= self.end
    }

    /// Reads until the next batch that is not skipped is in the window, and returns its header; None at the end, or if
    /// the batch is incomplete or not a plain batch of magic 2.
    fn next(&mut self) -> FileResult<Option<Header>, F> {
        while !self.is_at_end() {
            let needed = match next_batch(self.window.data(), self.window.position) {
                Ok(NextBatch::Batch(header, entry)) => {
                    if header.magic != 2 {
                        return Ok(None);
                    }
                    if header.last_offset() >= self.start_offset {
                        return Ok(Some(header));
                    }
                    if header.check_crc(entry).is_err() {
                        return Ok(None);
                    }
                    self.window.advance(header.size());
                    continue;
                }
                Ok(NextBatch::NeedMore(needed)) => needed,
                Err(_) => return Ok(None),
            };
            match self.window.fill(needed) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(ReadError::Format(error)) if error.kind != ErrorKind::Invalid => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn entry(&self, header: &Header) -> &[u8] {
        self.window.data().get(..header.size()).unwrap_or_default()
    }
}

/// Skips batches that both replicas have, with right checksums. Returns the offset after the last skipped batch; None
/// if no batch was skipped.
///
/// Equal batches have the same offsets, leader epoch and checksum.
pub fn skip_equal<F: ReadAt>(
    one: &mut BatchCursor<F>,
    other: &mut BatchCursor<F>,
) -> FileResult<Option<i64>, F> {
    let mut end = None;
    while let (Some(header), Some(copy)) = (one.next()?, other.next()?) {
        let (entry, copied) = (one.entry(&header), other.entry(&copy));
        let fields = |header: &Header| {
            (
                header.base_offset,
                header.last_offset(),
                header.partition_leader_epoch,
                header.crc,
            )
        };
        let is_equal = fields(&header) == fields(&copy)
            && header.check_crc(entry).is_ok()
            // The same bytes have the same checksum.
            && (entry == copied || copy.check_crc(copied).is_ok());
        if !is_equal {
            break;
        }
        end = Some(header.next_offset());
        one.window.advance(header.size());
        other.window.advance(copy.size());
    }
    Ok(end)
}
