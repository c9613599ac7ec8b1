//! Recovering a segment after a crash (`LogSegment.recover`), and replaying its producers (`ProducerStateManager`).
//!
//! Kafka's reader of files decides where a segment ends, and only checksum and size decide what is valid: record bodies are
//! not looked into. What its load makes of each kind of trouble differs, so it is told apart here: cut the file there, empty
//! it, split it, or refuse to start.

use crate::base::error::{Error, Result};
use crate::broker::epochs::LeaderEpochs;
use crate::broker::index_builder::{
    IndexError, SegmentIndexes, TransactionIndexEnd, relative_offset,
};
use crate::broker::producers::{AppendOrigin, Producers, ProducersUpdate};
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::{Header, LOG_OVERHEAD, MAGIC_END};

/// How the walk over a segment ended, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkEnd {
    /// With its last whole batch; what follows is less than one.
    Whole,
    /// At a bad batch: the file is cut there.
    Cut(String),
    /// The offsets do not increase: the segment is emptied.
    Emptied(String),
    /// The offsets are too far apart for one segment: it is split.
    Split(String),
    /// Kafka's load fails, and the broker does not start.
    Failed(String),
}

/// One batch of a file, or why there is none.
enum StoredBatch<'a> {
    Batch(Header, &'a [u8]),
    /// So many bytes from here on are needed.
    NeedMore(usize),
    End,
    Bad(Error),
}

/// The batch at `position` of a file of `end` bytes, of which `bytes` are at hand from there on (`FileLogInputStream`).
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
        // Only a header that is cut is none, and only by the window: the file holds all of it.
        Ok(None) => StoredBatch::NeedMore(size.max(0) as usize),
    }
}

/// A walk along the batches of a file that comes in windows.
#[derive(Debug)]
pub struct BatchWalk {
    /// Where the last batch ends.
    pub position: u64,
    /// Bytes that the next one takes; 0 if not even that can be known.
    pub needed: usize,
    /// How it ended, once it has.
    pub ended: Option<WalkEnd>,
    bad: fn(String) -> WalkEnd,
}

impl BatchWalk {
    /// `position` is that of a batch; `bad` says what a bad one means.
    fn new(position: u64, bad: fn(String) -> WalkEnd) -> Self {
        Self {
            position,
            needed: 0,
            ended: None,
            bad,
        }
    }

    /// That a window at `position` is the one to go on with.
    fn check(&self, position: u64) -> Result<()> {
        if position == self.position {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "position {position} is not where the walk is: {}",
            self.position
        )))
    }

    /// The next batch in `window`, the bytes at `start` of a file of `end` bytes. None: more is needed, or it has ended.
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

/// A walk over one segment that makes its indexes anew.
#[derive(Debug)]
pub struct SegmentRecovery {
    /// Along its batches.
    pub walk: BatchWalk,
    base_offset: i64,
    indexes: SegmentIndexes,
    transactions: TransactionIndexEnd,
    update: ProducersUpdate,
    /// Where the last valid batch ends: what follows is to be cut off.
    pub valid_bytes: u64,
    /// The offset after the last valid batch; the base offset if there is none.
    pub next_offset: i64,
    /// The highest of these after any batch. Where it is above, batches are out of order, and nobody gets to some of them.
    pub highest_next_offset: i64,
    /// The offset after the last valid batch of magic 2, if there is one: the others say nothing of producers.
    pub producers_end: Option<i64>,
    /// Whole batches so far.
    pub batches: u64,
    /// The `.index`.
    pub index: Vec<u8>,
    /// The `.timeindex`.
    pub timeindex: Vec<u8>,
    /// The `.txnindex`.
    pub txnindex: Vec<u8>,
}

impl SegmentRecovery {
    /// Of the segment with this base offset: `interval` is `index.interval.bytes`, `max_bytes` `segment.index.bytes`.
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

    /// Takes the bytes of the file at `position`, where the last call stopped; the file ends at `end`. Returns how many it
    /// took; fewer than there are mean that more are needed, unless it has ended.
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
        // The batch itself stays: Kafka has counted its bytes by then.
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

    /// Once it has ended: the indexes as that leaves them. What is wrong with them ends it otherwise.
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

/// Where a segment ends for a load, by its framing alone: neither magic nor checksum is refused.
#[derive(Debug)]
pub struct SegmentEnd {
    /// Along its batches: it ends behind the last whole one, or where the load fails.
    pub walk: BatchWalk,
    /// The offset behind the last whole batch; None: there is no batch.
    pub next_offset: Option<i64>,
}

impl SegmentEnd {
    /// `position` is that of a batch.
    pub fn new(position: u64) -> Self {
        Self {
            walk: BatchWalk::new(position, WalkEnd::Failed),
            next_offset: None,
        }
    }

    /// As [`SegmentRecovery::feed`].
    pub fn feed(&mut self, data: &[u8], position: u64, end: u64) -> Result<usize> {
        self.walk.check(position)?;
        while let Some((header, _)) = self.walk.next(data, position, end) {
            self.next_offset = Some(header.next_offset());
        }
        Ok((self.walk.position - position) as usize)
    }
}

/// Replays one segment's batches for its producers only; checksums are not looked at. The state changes at the end.
#[derive(Debug)]
pub struct ProducerReplay {
    /// Along its batches: it ends behind the last whole one, or where the load fails.
    pub walk: BatchWalk,
    start_offset: i64,
    update: ProducersUpdate,
}

impl ProducerReplay {
    /// Batches that end below `start_offset` are passed over.
    pub fn new(start_offset: i64) -> Self {
        Self {
            walk: BatchWalk::new(0, WalkEnd::Failed),
            start_offset,
            update: ProducersUpdate::default(),
        }
    }

    /// As [`SegmentRecovery::feed`].
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
            // The entries of the transaction index are in the file already.
            producers.apply(&mut self.update);
        }
        Ok((self.walk.position - position) as usize)
    }
}
