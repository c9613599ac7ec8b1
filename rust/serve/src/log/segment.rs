//! A position in a segment for an offset.

use std::io;
use std::sync::Arc;

use brokerless_core::{Error, Header, IndexEntry as _, OffsetPosition, ReadAt, cut_batch};

use crate::base::directory::{Damage, Directory, Partition};
use crate::log::checked::Checked;
use crate::log::segment_file::{SegmentFile, invalid};

/// The maximum bytes per read when scanning batch headers, and the bytes of the first read, because an index leads
/// close to the batch.
const CHUNK: usize = 1 << 16;
const FIRST_CHUNK: usize = 1 << 9;
/// The number of index entries that are read together, for the last steps of a search.
const PAGE: u64 = 512;
/// The bytes of an entry of an offset index.
const ENTRY: u64 = 8;

/// An open segment.
pub(crate) struct Segment {
    pub(crate) file: SegmentFile,
    pub(crate) base_offset: i64,
    /// The position at which its last sound batch ends, if known.
    pub(crate) end: u64,
    /// The batches that have been checked.
    pub(crate) checked: Checked,
    directory: Arc<dyn Directory>,
    path: String,
    /// The offset index, with the number of its entries.
    index: Option<(SegmentFile, u64)>,
}

/// The batch with an offset, or the first one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) size: u64,
}

impl Segment {
    /// Opens a segment of a partition. `end` is the end of its last sound batch, if that is known.
    pub(crate) fn open(
        directory: &Arc<dyn Directory>,
        partition: &Partition,
        base_offset: i64,
        end: Option<u64>,
    ) -> io::Result<Self> {
        let path = |name: &str| format!("{}/{name}", partition.path);
        let log = format!("{base_offset:020}.log");
        let other = partition
            .other_names
            .iter()
            .find(|(base, _)| *base == base_offset);
        let name = other.map_or(&log, |(_, name)| name);
        let path_of_log = path(name);
        let file = SegmentFile::open(directory, path_of_log.clone())?;
        // The index beside a file with another name need not belong to it.
        let index = match other {
            Some(_) => None,
            None => SegmentFile::open(directory, path(&format!("{base_offset:020}.index")))
                .and_then(|index| Ok((index.size()? / ENTRY, index)))
                .ok(),
        };
        Ok(Self {
            end: end.map_or_else(|| file.size(), Ok)?,
            file,
            base_offset,
            checked: Checked::default(),
            directory: Arc::clone(directory),
            path: path_of_log,
            index: index.map(|(entries, index)| (index, entries)),
        })
    }

    /// Refuses bytes that have disappeared because the file was truncated while it was served. A response that
    /// announces these bytes could not be sent: the connection would be closed, and the client would send the same
    /// request again.
    pub(crate) fn check_is_there(&self, end: u64) -> io::Result<()> {
        match &self.file {
            SegmentFile::Local(file) if file.metadata()?.len() < end => Err(invalid(&format!(
                "{:020}.log was cut while it was served: it has {} bytes, and had {end}",
                self.base_offset,
                file.metadata()?.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the batch with an offset, or the first one after it; None if there is no such batch up to the end.
    pub(crate) fn place(&self, offset: i64) -> io::Result<Option<Place>> {
        let below = self.entries_below(|entry| entry.offset <= offset)?;
        let start = match (&self.index, below.checked_sub(1)) {
            (Some((index, _)), Some(last)) => position(self.entry(index, last)?),
            _ => 0,
        };
        // No checksum covers an index, so the log itself decides.
        let is_behind = start > 0 && {
            let mut first = None;
            let read = self.headers(start, self.end, |header| {
                first = Some(header.base_offset);
                false
            });
            read.is_err() || first.is_none_or(|first| first > offset)
        };
        let start = if is_behind { 0 } else { start };
        let (found, end) = match self.walk(start, offset) {
            Err(_) if start > 0 => self.walk(0, offset)?,
            found => found?,
        };
        if found.is_none() && end < self.end && self.checked.first_unchecked(end) == end {
            // A wrong index may have led into the middle of a batch.
            let end = if start > 0 {
                self.walk(0, offset)?.1
            } else {
                end
            };
            if end < self.end {
                self.report(cut_batch(end, self.end));
            }
            self.checked.add(end, self.end);
        }
        Ok(found)
    }

    /// Returns the error for a defect of this segment.
    pub(crate) fn damaged(&self, error: Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self.damage(error))
    }

    /// Reports a defect that does not keep the records from being sent.
    pub(crate) fn report(&self, error: Error) {
        self.directory.damaged(&self.damage(error));
    }

    fn damage(&self, error: Error) -> Damage {
        Damage {
            path: self.path.clone(),
            error,
        }
    }

    /// Returns the offset of the first index entry at or above a position; None if there is no such entry.
    pub(crate) fn offset_at(&self, position: u64) -> io::Result<Option<i64>> {
        let Some((index, entries)) = &self.index else {
            return Ok(None);
        };
        let below = self.entries_below(|entry| self::position(entry) < position)?;
        if below >= *entries {
            return Ok(None);
        }
        let entry = self.entry(index, below)?;
        Ok((self::position(entry) >= position).then_some(entry.offset))
    }

    /// Returns the number of index entries before the first one for which `is_below` is false.
    fn entries_below(&self, is_below: impl Fn(OffsetPosition) -> bool) -> io::Result<u64> {
        let Some((index, entries)) = &self.index else {
            return Ok(0);
        };
        let (mut low, mut high) = (0, *entries);
        let mut page: Option<(u64, Vec<u8>)> = None;
        while low < high {
            let middle = low + (high - low) / 2;
            if page.is_none() && high - low <= PAGE {
                let mut bytes = vec![0; usize::try_from((high - low) * ENTRY).unwrap_or(0)];
                let length = index.read_at(low * ENTRY, &mut bytes)?;
                bytes.truncate(length);
                page = Some((low, bytes));
            }
            let known = page.as_ref().and_then(|(first, bytes)| {
                let at = usize::try_from(middle.checked_sub(*first)? * ENTRY).ok()?;
                bytes.get(at..)?.first_chunk().copied()
            });
            let entry = match known {
                Some(slot) => OffsetPosition::parse(slot, self.base_offset),
                None => self.entry(index, middle)?,
            };
            // The zeros after the entries of an active segment.
            let is_entry = middle == 0 || entry.offset > self.base_offset;
            if is_entry && position(entry) < self.end && is_below(entry) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn entry(&self, index: &SegmentFile, number: u64) -> io::Result<OffsetPosition> {
        let mut slot = [0; ENTRY as usize];
        match index.read_at(number * ENTRY, &mut slot)? < slot.len() {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(OffsetPosition::parse(slot, self.base_offset)),
        }
    }

    /// Returns the first batch from a position on that ends at an offset or above it, and the position of the header
    /// that was read last, or the end of the batches.
    fn walk(&self, start: u64, offset: i64) -> io::Result<(Option<Place>, u64)> {
        let mut found = None;
        let end = self.headers(start, self.end, |header| {
            if header.last_offset() >= offset {
                found = Some(Place {
                    position: header.position,
                    size: header.size() as u64,
                });
            }
            found.is_none()
        })?;
        Ok((found, end))
    }

    /// Calls `visit` with the headers of batches that begin in a range, until it returns false. Returns the position
    /// after the last batch, or of the header at which it stopped.
    pub(crate) fn headers(
        &self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(&Header) -> bool,
    ) -> io::Result<u64> {
        let mut position = start;
        let mut chunk = Vec::new();
        let mut chunk_at = 0;
        while position < end {
            let at = usize::try_from(position.wrapping_sub(chunk_at)).unwrap_or(usize::MAX);
            let known = chunk.get(at..).map(|rest| Header::parse(rest, position));
            let known = known.transpose().map_err(|error| self.damaged(error))?;
            let header = match known.flatten() {
                Some(header) => header,
                None => {
                    let more = (4 * chunk.len()).clamp(FIRST_CHUNK, CHUNK);
                    chunk.resize(more, 0);
                    chunk_at = position;
                    let length = self.file.read_at(position, &mut chunk)?;
                    chunk.truncate(length);
                    let parsed = Header::parse(&chunk, position);
                    match parsed.map_err(|error| self.damaged(error))? {
                        Some(header) => header,
                        None => return Ok(position),
                    }
                }
            };
            if header.end_position() > self.end || !visit(&header) {
                return Ok(position);
            }
            position = header.end_position();
        }
        Ok(position)
    }
}

/// Returns the position of an entry. A negative position is treated as a position after the end of every log.
fn position(entry: OffsetPosition) -> u64 {
    u64::try_from(entry.position).unwrap_or(u64::MAX)
}
