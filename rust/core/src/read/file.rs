//! The core's interface to a file: an object that reads bytes at a position. The caller opens files.

use crate::base::error::Error;
use crate::format::batch::Header;
use crate::format::compression::{DEFAULT_MAX_BATCH_BYTES, Decompressor};
use crate::format::message::first_offset;
use crate::format::walk::{NextBatch, next_batch};

/// A file to read.
pub trait ReadAt {
    /// The error of a read.
    type Error;

    /// Returns the current length in bytes.
    fn size(&self) -> Result<u64, Self::Error>;

    /// Fills `buffer` from `position` on, and returns the number of bytes read: fewer only at the end of the file.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize, Self::Error>;
}

impl ReadAt for [u8] {
    type Error = std::convert::Infallible;

    fn size(&self) -> Result<u64, Self::Error> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (into, from) in buffer.iter_mut().zip(rest) {
            *into = *from;
        }
        Ok(count)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    type Error = std::io::Error;

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match std::os::unix::fs::FileExt::read_at(self, rest, position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl<F: ReadAt + ?Sized> ReadAt for &F {
    type Error = F::Error;

    fn size(&self) -> Result<u64, F::Error> {
        (**self).size()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize, F::Error> {
        (**self).read_at(position, buffer)
    }
}

impl<F: ReadAt + ?Sized> ReadAt for std::sync::Arc<F> {
    type Error = F::Error;

    fn size(&self) -> Result<u64, F::Error> {
        (**self).size()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize, F::Error> {
        (**self).read_at(position, buffer)
    }
}

/// The reason why reading a file stopped.
#[derive(Debug)]
pub enum ReadError<E> {
    /// Its bytes are damaged or unsupported.
    Format(Error),
    /// The read failed.
    File(E),
}

impl<E> From<Error> for ReadError<E> {
    fn from(error: Error) -> Self {
        Self::Format(error)
    }
}

/// The result of reading a file.
pub(crate) type FileResult<T, F> = Result<T, ReadError<<F as ReadAt>::Error>>;

/// The length of the reads of a whole file.
pub(crate) const CHUNK: usize = 2 << 20;
/// The maximum size of a batch. A larger length is probably damage, and reading the batch would allocate as much
/// memory.
pub(crate) const MAX_BATCH: usize = 1 << 30;
/// The maximum size of a batch that a probe reads. A damaged index may point at bytes that look like a batch of 2 GiB.
const MAX_PROBE: usize = 16 << 20;
/// A number of bytes below the size of any batch, so that reading this many more bytes never completes a second batch.
const STEP: usize = 16;
/// The lengths of the reads of a sweep, and the minimum distance of a leap over batch bodies.
///
/// Headers are read one by one if batch bodies are larger than the leap. Otherwise reading all bytes is faster than
/// seeking.
const MIN_SWEEP: usize = 1 << 12;
const MAX_SWEEP: usize = 1 << 20;
const LEAP: u64 = 1 << 16;
/// The length of the first read of a probe, and of the reads that look for a byte that is not zero.
const PROBE: usize = 1 << 16;

/// The bytes of a file from `position` on, in one reused buffer, so that memory does not grow with the log.
///
/// It reads up to `end`. If a batch starts before `end` and reaches beyond `end`, the window reads exactly to the end
/// of that batch.
pub(crate) struct Window<F> {
    /// Byte position in the file.
    pub(crate) position: u64,
    pub(crate) file: F,
    end: u64,
    size: u64,
    length: usize,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl<F: ReadAt> Window<F> {
    pub(crate) fn new(file: F, position: u64, end: u64, length: usize) -> FileResult<Self, F> {
        let size = file.size().map_err(ReadError::File)?;
        Ok(Self {
            position,
            file,
            end,
            size,
            length,
            buffer: Vec::new(),
            from: 0,
            to: 0,
        })
    }

    /// The number of bytes that are usually read at once.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The buffered bytes, from `position` on.
    pub(crate) fn data(&self) -> &[u8] {
        self.buffer.get(self.from..self.to).unwrap_or_default()
    }

    /// Consumes the first `count` bytes.
    pub(crate) fn advance(&mut self, count: usize) {
        self.position += count as u64;
        self.from = (self.from + count).min(self.to);
    }

    /// Reads until `needed` bytes are buffered, or some more if `needed` is 0. Returns false if the file has too few.
    pub(crate) fn fill(&mut self, needed: usize) -> FileResult<bool, F> {
        let held = self.to - self.from;
        let room = bytes(self.end.saturating_sub(self.position));
        let mut length = needed.max(self.length.max(2 * held).min(room));
        if length <= held {
            length = held + STEP;
        }
        length = length.min(bytes(self.size.saturating_sub(self.position)));
        if length <= held || length < needed {
            return Ok(false);
        }
        check_length(length, self.position)?;
        self.buffer.copy_within(self.from..self.to, 0);
        // A buffer that grew for a large batch returns to the normal length.
        let usual = length.max(self.length.min(room));
        if length > self.buffer.len() {
            self.buffer.resize(usual, 0);
        } else if self.buffer.len() > self.length && self.length >= length {
            self.buffer.truncate(usual);
            self.buffer.shrink_to_fit();
        }
        (self.from, self.to) = (0, held);
        let room = self.buffer.get_mut(held..length).unwrap_or_default();
        let read = self.file.read_at(self.position + held as u64, room);
        self.to += read.map_err(ReadError::File)?.min(length - held);
        Ok(self.to >= needed.max(held + 1))
    }
}

/// Calls `step(bytes, position, end)` from `position` on, each time at the position that the last call returned.
///
/// Ends when `step` returns `end`, or needs bytes beyond the end of the file.
pub(crate) fn sweep<F: ReadAt>(
    file: &F,
    mut position: u64,
    mut end: u64,
    mut step: impl FnMut(&[u8], u64, u64) -> Result<u64, Error>,
) -> FileResult<(), F> {
    let mut buffer = Vec::new();
    let mut length = MIN_SWEEP;
    while position < end {
        length = length.min(bytes(end - position));
        check_length(length, position)?;
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let room = buffer.get_mut(..length).unwrap_or_default();
        let count = file
            .read_at(position, room)
            .map_err(ReadError::File)?
            .min(length);
        if count < length {
            // The file was truncated during the sweep.
            end = position + count as u64;
        }
        let wanted = step(buffer.get(..count).unwrap_or_default(), position, end)?;
        if wanted == position {
            if count < length || position + length as u64 == end {
                return Ok(());
            }
            length = length.saturating_mul(4);
        } else if wanted > position + length as u64 + LEAP {
            length = MIN_SWEEP;
        } else {
            length = (2 * length).min(MAX_SWEEP);
        }
        position = wanted;
    }
    Ok(())
}

fn check_length(length: usize, position: u64) -> Result<(), Error> {
    if length > MAX_BATCH {
        return Err(Error::unsupported(format!(
            "batch is too large: {length} bytes, at most {MAX_BATCH}"
        ))
        .at(position, None));
    }
    Ok(())
}

fn bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Returns at most `length` bytes of a file from `position` on.
pub(crate) fn read_bytes<F: ReadAt>(
    file: &F,
    position: u64,
    length: usize,
) -> FileResult<Vec<u8>, F> {
    let size = file.size().map_err(ReadError::File)?;
    let mut buffer = vec![0; length.min(bytes(size.saturating_sub(position)))];
    let count = file.read_at(position, &mut buffer);
    buffer.truncate(count.map_err(ReadError::File)?);
    Ok(buffer)
}

/// Returns true if all bytes from `position` to the end of a file are zeros.
pub(crate) fn is_zero_from<F: ReadAt>(file: &F, mut position: u64) -> FileResult<bool, F> {
    let mut buffer = vec![0; PROBE];
    loop {
        let count = file
            .read_at(position, &mut buffer)
            .map_err(ReadError::File)?;
        if count == 0 {
            return Ok(true);
        }
        if buffer.iter().take(count).any(|&byte| byte != 0) {
            return Ok(false);
        }
        position += count as u64;
    }
}

/// A whole batch somewhere in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundBatch {
    pub(crate) header: Header,
    /// None if the offset is inside a wrapper that cannot be read.
    pub(crate) first_offset: Option<i64>,
    /// True if its checksum is right.
    pub(crate) is_valid: bool,
}

impl FoundBatch {
    fn first_of(bytes: &[u8], position: u64) -> Option<Self> {
        match next_batch(bytes, position) {
            Ok(NextBatch::Batch(header, entry)) => {
                let mut decompressor = Decompressor::new(DEFAULT_MAX_BATCH_BYTES);
                Some(Self {
                    header,
                    first_offset: first_offset(&header, entry, &mut decompressor).ok(),
                    is_valid: header.check_crc(entry).is_ok(),
                })
            }
            _ => None,
        }
    }
}

/// Returns the batch at `position`, if a whole one of at most 16 MiB starts there.
pub(crate) fn probe_batch<F: ReadAt>(file: &F, position: u64) -> FileResult<Option<FoundBatch>, F> {
    batch_at(file, position, MAX_PROBE)
}

/// Returns the first and the last offset of the sound batch at `position`, if one of at most 16 MiB starts there.
pub fn batch_offsets_at<F: ReadAt>(file: &F, position: u64) -> FileResult<Option<(i64, i64)>, F> {
    let batch = probe_batch(file, position)?.filter(|batch| batch.is_valid);
    Ok(batch.and_then(|batch| Some((batch.first_offset?, batch.header.last_offset()))))
}

/// Returns the batch at `position`, if a whole one of at most `most` bytes starts there.
pub(crate) fn batch_at<F: ReadAt>(
    file: &F,
    position: u64,
    most: usize,
) -> FileResult<Option<FoundBatch>, F> {
    let mut length = PROBE;
    while length <= most {
        let bytes = read_bytes(file, position, length)?;
        match next_batch(&bytes, position) {
            Err(_) => return Ok(None),
            Ok(NextBatch::Batch(..)) => return Ok(FoundBatch::first_of(&bytes, position)),
            Ok(NextBatch::NeedMore(_)) if bytes.len() < length => return Ok(None),
            Ok(NextBatch::NeedMore(_)) => length *= 4,
        }
    }
    Ok(None)
}

/// Returns the batch of `size` bytes at `position`.
pub(crate) fn batch_of_size<F: ReadAt>(
    file: &F,
    position: u64,
    size: usize,
) -> FileResult<Option<FoundBatch>, F> {
    Ok(FoundBatch::first_of(
        &read_bytes(file, position, size)?,
        position,
    ))
}
