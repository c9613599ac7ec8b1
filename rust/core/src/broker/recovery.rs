//! Recovers a segment after a crash (`LogSegment.recover`), and replays its producers (`ProducerStateManager`).
//!
//! As in Kafka's file reader, only checksums and sizes determine the end of the valid part. Record bodies are not read.
//! Kafka's load reacts differently to each kind of damage: it cuts the file, empties it, splits it, or refuses to
//! start. The result names the reaction.

use crate::base::error::{Error, Result};
use crate::broker::epochs::LeaderEpochs;
use crate::broker::index_builder::{
    IndexError, SegmentIndexes, TransactionIndexEnd, relative_offset,
};
use crate::broker::producers::{AppendOrigin, Producers, ProducersUpdate};
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::{Header, LOG_OVERHEAD, MAGIC_END};

/// The end of a walk over a segment, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkEnd {
    /// At the end of the last whole batch. Only an incomplete batch or nothing follows.
    Whole,
    /// At a bad batch: the file is cut before it.
    Cut(String),
    /// The offsets do not increase: the segment is emptied.
    Emptied(String),
    /// The offsets are too far apart for one segment: it is split.
    Split(String),
    /// Kafka's load fails, and the broker does not start.
    Failed(String),
}

/// A batch of a file, or the reason why no batch could be read.
enum StoredBatch<'a> {
    Batch(Header, &'a [u8]),
    /// The bytes needed from here on.
    NeedMore(usize),
    End,
    Bad(Error),
}

/// Returns the batch at `position` of a file of `end` bytes, as `FileLogInputStream` reads it. `bytes` start at
/// `position`.
fn stored(bytes: &[u8], position: u64, end: u64) -> StoredBatch<'_> {
    let left = end.saturating_sub(position);
    if left <= MAGIC_END as u64 {
        return StoredBatch::End;
    }
    let length = bytes.get(8..LOG_OVERHEAD).and_then(|b| b.try_into().ok());
    let Some(length) = length.map(i32::from_be_bytes) else {
        return StoredBatch::NeedMore(MAGIC_END);
    };
    let size = i64::from(length) + LOG_OVERHEAD as i64;
    if length >= 14 && size as u64 > left {
        return StoredBatch::End;
    }
    match Header::parse_stored(bytes, position) {
        Err(error) => StoredBatch::Bad(error),
        Ok(Some(header)) => match bytes.get(..header.size()) {
            Some(entry) => StoredBatch::Batch(header, entry),
            None => StoredBatch::NeedMore(header.size()),
        },
        // Only an incomplete header is None here. The file has all of it, so the window ends too early.
        Ok(None) => StoredBatch::NeedMore(size.max(0) as usize),
    }
}

/// A walk over the batches of a file that is fed in windows.
#[derive(Debug)]
pub struct BatchWalk {
    /// The position at which the last batch ends.
    pub position: u64,
    /// The size of the next batch in bytes; 0 if unknown.
    pub needed: usize,
    /// The end of the walk; None while it continues.
    pub ended: Option<WalkEnd>,
    bad: fn(String) -> WalkEnd,
}

impl BatchWalk {
    /// Starts at `position`, where a batch starts. `bad` gives the end that a bad batch causes.
    fn new(position: u64, bad: fn(String) -> WalkEnd) -> Self {
        Self {
            position,
            needed: 0,
            ended: None,
            bad,
        }
    }

    /// Refuses a window at another position than the walk's.
    fn check(&self, position: u64) -> Result<()> {
        if position == self.position {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "position {position} is not the next one, which is {}",
            self.position
        )))
    }

    /// Returns the next batch in `window`, which lies at `start` of a file of `end` bytes. None if more bytes are
    /// needed, or the walk has ended.
    fn next<'a>(&mut self, window: &'a [u8], start: u64, end: u64) -> Option<(Header, &'a [u8])> {
        if self.ended.is_some() {
            return None;
        }
        let rest = window.get((self.position - start) as usize..)?;
        match stored(rest, self.position, end) {
            StoredBatch::End => self.ended = Some(WalkEnd::Whole),
            StoredBatch::Bad(error) => self.ended = Some((self.bad)(error.message)),
            StoredBatch::NeedMore(needed) => self.needed = needed,
            StoredBatch::Batch(header, entry) => {
                self.position += header.size() as u64;
                return Some((header, entry));
            }
        }
        None
    }
}

/// A walk over one segment that rebuilds its indexes.
#[derive(Debug)]
pub struct SegmentRecovery {
    /// The walk over its batches.
    pub walk: BatchWalk,
    base_offset: i64,
    indexes: SegmentIndexes,
    transactions: TransactionIndexEnd,
    update: ProducersUpdate,
    /// The position at which the last valid batch ends. The rest must be truncated.
    pub valid_bytes: u64,
    /// The offset after the last valid batch; the base offset if no batch is valid.
    pub next_offset: i64,
    /// The highest offset after any batch. If it is above `next_offset`, batches are out of order, and readers miss
    /// some of them.
    pub highest_next_offset: i64,
    /// The offset after the last valid batch of magic 2; None without such a batch. Other batches do not concern
    /// producers.
    pub producers_end: Option<i64>,
    /// The number of valid batches.
    pub batches: u64,
    /// The `.index`.
    pub index: Vec<u8>,
    /// The `.timeindex`.
    pub timeindex: Vec<u8>,
    /// The `.txnindex`.
    pub txnindex: Vec<u8>,
}

impl SegmentRecovery {
    /// Starts the recovery of the segment with this base offset: `interval` is `index.interval.bytes`, `max_bytes` is
    /// `segment.index.bytes`.
    pub fn new(base_offset: i64, interval: i64, max_bytes: usize) -> Self {
        Self {
            walk: BatchWalk::new(0, WalkEnd::Cut),
            base_offset,
            indexes: SegmentIndexes::new(base_offset, interval, max_bytes),
            transactions: TransactionIndexEnd::default(),
            update: ProducersUpdate::default(),
            valid_bytes: 0,
            next_offset: base_offset,
            highest_next_offset: base_offset,
            producers_end: None,
            batches: 0,
            index: Vec::new(),
            timeindex: Vec::new(),
            txnindex: Vec::new(),
        }
    }

    /// Recovers from the bytes at `position`, where the last call stopped; the file has `end` bytes. Returns the number
    /// of bytes consumed. If some bytes are left, more bytes are needed, unless the walk has ended.
    pub fn feed(
        &mut self,
        data: &[u8],
        position: u64,
        end: u64,
        producers: &mut Producers,
        epochs: &mut LeaderEpochs,
    ) -> Result<usize> {
        self.walk.check(position)?;
        if self.walk.ended.is_some() {
            return Ok(0);
        }
        while let Some((header, entry)) = self.walk.next(data, position, end) {
            self.walk.ended = self.batch(&header, entry, producers, epochs).err();
        }
        self.walk.ended = self.walk.ended.take().map(|ended| self.finish(ended));
        Ok((self.walk.position - position) as usize)
    }

    fn batch(
        &mut self,
        header: &Header,
        entry: &[u8],
        producers: &mut Producers,
        epochs: &mut LeaderEpochs,
    ) -> std::result::Result<(), WalkEnd> {
        header
            .check_crc(entry)
            .map_err(|error| WalkEnd::Cut(error.message))?;
        let last_offset = header.last_offset();
        if relative_offset(last_offset, self.base_offset).is_none() {
            let message = format!(
                "last offset {last_offset} is not within 2^31-1 of base offset {}",
                self.base_offset
            );
            return Err(if last_offset < self.base_offset {
                WalkEnd::Failed(message)
            } else {
                WalkEnd::Split(message)
            });
        }
        self.indexes
            .add(
                header,
                self.valid_bytes,
                &mut self.index,
                &mut self.timeindex,
            )
            .map_err(of_index)?;
        self.valid_bytes += header.size() as u64;
        self.next_offset = header.next_offset();
        self.highest_next_offset = self.highest_next_offset.max(self.next_offset);
        self.batches += 1;
        if header.magic < 2 {
            return Ok(());
        }
        let epoch = header.partition_leader_epoch;
        if epoch >= 0 && epochs.latest().is_none_or(|latest| epoch > latest) {
            epochs
                .assign(epoch, header.base_offset)
                .map_err(|error| WalkEnd::Failed(error.message))?;
        }
        self.update.clear();
        // The batch itself stays: Kafka has already counted its bytes.
        producers
            .prepare(
                &mut self.update,
                header,
                entry,
                AppendOrigin::Replication,
                0,
            )
            .map_err(of_refusal)?;
        for aborted in producers.apply(&mut self.update) {
            self.transactions
                .append(&aborted, &mut self.txnindex)
                .map_err(|error| WalkEnd::Failed(error.to_string()))?;
        }
        producers.set_end_offset(header.next_offset());
        self.producers_end = Some(header.next_offset());
        Ok(())
    }

    /// Finishes the indexes for this end. An error in them changes the end.
    fn finish(&mut self, mut ended: WalkEnd) -> WalkEnd {
        if matches!(ended, WalkEnd::Whole | WalkEnd::Cut(_))
            && let Err(error) = self.indexes.finish(&mut self.timeindex)
        {
            ended = of_index(error);
        }
        if matches!(ended, WalkEnd::Emptied(_)) {
            self.valid_bytes = 0;
            self.next_offset = self.base_offset;
            self.highest_next_offset = self.base_offset;
            self.producers_end = None;
            self.batches = 0;
            self.index.clear();
            self.timeindex.clear();
            self.txnindex.clear();
            self.transactions = TransactionIndexEnd::default();
            self.indexes = self.indexes.emptied();
        }
        ended
    }
}

fn of_index(error: IndexError) -> WalkEnd {
    match error {
        IndexError::InvalidOffset(message) => WalkEnd::Emptied(message),
        IndexError::Full(message) | IndexError::Overflow(message) => WalkEnd::Failed(message),
    }
}

fn of_refusal(refused: Refused) -> WalkEnd {
    match refused.refusal {
        Refusal::InvalidRecord | Refusal::CorruptRecord => WalkEnd::Cut(refused.message),
        _ => WalkEnd::Failed(refused.message),
    }
}

/// Finds the end of a segment as a load does: by the framing alone. The magic and the checksums are not checked.
#[derive(Debug)]
pub struct SegmentEnd {
    /// The walk over its batches. It ends after the last whole one, or where the load fails.
    pub walk: BatchWalk,
    /// The offset after the last whole batch; None without a whole batch.
    pub next_offset: Option<i64>,
}

impl SegmentEnd {
    /// Starts at `position`, where a batch starts.
    pub fn new(position: u64) -> Self {
        Self {
            walk: BatchWalk::new(position, WalkEnd::Failed),
            next_offset: None,
        }
    }

    /// Continues as [`SegmentRecovery::feed`] does.
    pub fn feed(&mut self, data: &[u8], position: u64, end: u64) -> Result<usize> {
        self.walk.check(position)?;
        while let Some((header, _)) = self.walk.next(data, position, end) {
            self.next_offset = Some(header.next_offset());
        }
        Ok((self.walk.position - position) as usize)
    }
}

/// Replays the batches of one segment for its producers only. Checksums are not verified. The producer state changes
/// only at the end.
#[derive(Debug)]
pub struct ProducerReplay {
    /// The walk over its batches. It ends after the last whole one, or where the load fails.
    pub walk: BatchWalk,
    start_offset: i64,
    update: ProducersUpdate,
}

impl ProducerReplay {
    /// Skips batches that end below `start_offset`.
    pub fn new(start_offset: i64) -> Self {
        Self {
            walk: BatchWalk::new(0, WalkEnd::Failed),
            start_offset,
            update: ProducersUpdate::default(),
        }
    }

    /// Continues as [`SegmentRecovery::feed`] does.
    pub fn feed(
        &mut self,
        data: &[u8],
        position: u64,
        end: u64,
        producers: &mut Producers,
    ) -> Result<usize> {
        self.walk.check(position)?;
        while let Some((header, entry)) = self.walk.next(data, position, end) {
            if header.last_offset() >= self.start_offset {
                self.walk.ended = producers
                    .prepare(
                        &mut self.update,
                        &header,
                        entry,
                        AppendOrigin::Replication,
                        0,
                    )
                    .map_err(|refused| WalkEnd::Failed(refused.message))
                    .err();
            }
        }
        if self.walk.ended == Some(WalkEnd::Whole) {
            // The transaction index already has these entries.
            producers.apply(&mut self.update);
        }
        Ok((self.walk.position - position) as usize)
    }
}
