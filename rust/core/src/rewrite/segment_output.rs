//! A new segment that replaces old ones: its batches and its index entries.
//!
//! Its index entries are the same as in a segment that grew by appends (`LogSegment.append`), and as a recovery would
//! rebuild them. Only the entries of the transaction index cannot be derived from the batches. The caller provides
//! them.

use crate::base::error::{Error, Result};
use crate::broker::index_builder::{
    IndexError, SegmentIndexes, TransactionIndexEnd, relative_offset,
};
use crate::format::batch::Header;
use crate::format::index::AbortedTxn;
use crate::format::walk;

/// Bytes to append to a segment's files.
#[derive(Debug, Default)]
pub struct PendingBytes {
    /// Batches.
    pub log: Vec<u8>,
    /// Offset index entries.
    pub index: Vec<u8>,
    /// Time index entries.
    pub timeindex: Vec<u8>,
    /// Transaction index entries.
    pub txnindex: Vec<u8>,
}

/// A new segment whose last bytes must still be written to its files.
#[derive(Debug)]
pub struct SegmentOutput {
    base_offset: i64,
    indexes: SegmentIndexes,
    transactions: TransactionIndexEnd,
    pending: PendingBytes,
    taken_bytes: u64,
    next_offset: i64,
    batches: u64,
}

impl SegmentOutput {
    /// Creates an empty segment: `interval` is `index.interval.bytes`, `max_index_bytes` is `segment.index.bytes`.
    pub fn new(base_offset: i64, interval: i64, max_index_bytes: usize) -> Self {
        Self {
            base_offset,
            indexes: SegmentIndexes::new(base_offset, interval, max_index_bytes),
            transactions: TransactionIndexEnd::default(),
            pending: PendingBytes::default(),
            taken_bytes: 0,
            next_offset: base_offset,
            batches: 0,
        }
    }

    /// Appends one whole batch. Its offset must be above the offset of the previous batch.
    ///
    /// After an error, the segment is unchanged. It is [`crate::ErrorKind::Invalid`] if the batch is sound but does not
    /// fit here: because of its offset, or because an index is full.
    pub fn push(&mut self, batch: &[u8]) -> Result<()> {
        let header = match Header::parse(batch, self.size())? {
            Some(header) if header.size() == batch.len() => header,
            _ => return Err(Error::corrupt("not one whole batch")),
        };
        walk::check_offset(&header, self.next_offset)
            .map_err(|error| Error::invalid(error.message))?;
        if relative_offset(header.last_offset(), self.base_offset).is_none() {
            return Err(Error::invalid(format!(
                "last offset {} is not within 2^31-1 of base offset {}",
                header.last_offset(),
                self.base_offset
            )));
        }
        let before = self.indexes;
        let (index, timeindex) = (self.pending.index.len(), self.pending.timeindex.len());
        let (position, pending) = (self.size(), &mut self.pending);
        let added = self.indexes.add(
            &header,
            position,
            &mut pending.index,
            &mut pending.timeindex,
        );
        if let Err(error) = added {
            self.indexes = before;
            self.pending.index.truncate(index);
            self.pending.timeindex.truncate(timeindex);
            return Err(refused(error));
        }
        self.pending.log.extend_from_slice(batch);
        self.next_offset = header.next_offset();
        self.batches += 1;
        Ok(())
    }

    /// Adds an aborted transaction. Its marker must be above the marker of the previous one.
    pub fn abort(&mut self, entry: &AbortedTxn) -> Result<()> {
        self.transactions
            .append(entry, &mut self.pending.txnindex)
            .map_err(refused)
    }

    /// Returns true if an index has no free slot: the next batch belongs to another segment.
    pub fn is_full(&self) -> bool {
        self.indexes.is_full()
    }

    /// Bytes of all batches.
    pub fn size(&self) -> u64 {
        self.taken_bytes + self.pending.log.len() as u64
    }

    /// The number of batches. A message of magic 0 or 1 is counted as a batch.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Returns the offset after the last batch; the base offset of an empty segment.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Bytes of batches that wait to be taken.
    pub fn pending_bytes(&self) -> usize {
        self.pending.log.len()
    }

    /// Takes the bytes for the files. The following batches go into the memory `spare`.
    pub fn take(&mut self, mut spare: Vec<u8>) -> PendingBytes {
        spare.clear();
        self.taken_bytes = self.size();
        let next = PendingBytes {
            log: spare,
            ..PendingBytes::default()
        };
        std::mem::replace(&mut self.pending, next)
    }

    /// Adds the final entry of the time index. No batch may follow.
    pub fn finish(&mut self) -> Result<()> {
        self.indexes
            .finish(&mut self.pending.timeindex)
            .map_err(refused)
    }
}

fn refused(error: IndexError) -> Error {
    Error::invalid(error.to_string())
}
