//! Recovering a segment after a crash (`LogSegment.recover`), and replaying its producers (`ProducerStateManager`).
//!
//! Kafka's reader of files decides where a segment ends, and only checksum and size decide what is valid: record bodies are
//! not looked into. What its load makes of each kind of trouble differs, so it is told apart here: cut the file there, empty
//! it, split it, or refuse to start.

use crate::batch::{Header, LOG_OVERHEAD, MAGIC_END};
use crate::epochs::LeaderEpochs;
use crate::error::{Error, Result};
use crate::indexing::{IndexError, SegmentIndexes, TransactionIndexEnd, relative_offset};
use crate::producers::{Origin, Producers, Update};
use crate::refusal::{Refusal, Refused};

/// How the walk over a segment ended, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
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
enum Stored<'a> {
    Batch(Header, &'a [u8]),
    /// So many bytes from here on are needed.
    NeedMore(usize),
    End,
    Bad(Error),
}

/// The batch at `position` of a file of `end` bytes, of which `bytes` are at hand from there on (`FileLogInputStream`).
fn stored(bytes: &[u8], position: u64, end: u64) -> Stored<'_> {
    let left = end.saturating_sub(position);
    if left <= MAGIC_END as u64 {
        return Stored::End;
    }
    let length = bytes.get(8..LOG_OVERHEAD).and_then(|b| b.try_into().ok());
    let Some(length) = length.map(i32::from_be_bytes) else {
        return Stored::NeedMore(MAGIC_END);
    };
    let size = i64::from(length) + LOG_OVERHEAD as i64;
    if length >= 14 && size as u64 > left {
        return Stored::End;
    }
    match Header::parse_stored(bytes, position) {
        Err(error) => Stored::Bad(error),
        Ok(Some(header)) => match bytes.get(..header.size()) {
            Some(entry) => Stored::Batch(header, entry),
            None => Stored::NeedMore(header.size()),
        },
        // Only a header that is cut is none, and only by the window: the file holds all of it.
        Ok(None) => Stored::NeedMore(size.max(0) as usize),
    }
}

/// A walk over one segment that makes its indexes anew.
#[derive(Debug)]
pub struct SegmentRecovery {
    base_offset: i64,
    indexes: SegmentIndexes,
    transactions: TransactionIndexEnd,
    update: Update,
    /// How it ended, once it has.
    pub ended: Option<Ended>,
    /// Where the last valid batch ends: what follows is to be cut off.
    pub valid_bytes: u64,
    /// Bytes that the batch there takes; 0 if not even that can be known.
    pub needed: usize,
    /// The offset after the last valid batch; the base offset if there is none.
    pub next_offset: i64,
    /// The offset after the last valid batch of magic 2, if there is one: the others say nothing of producers.
    pub producers_end: Option<i64>,
    /// Whole batches so far.
    pub batches: u64,
    /// Max timestamp of the first batch.
    pub first_timestamp: Option<i64>,
    /// The leader epochs have changed.
    pub has_new_epochs: bool,
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
            base_offset,
            indexes: SegmentIndexes::new(base_offset, interval, max_bytes),
            transactions: TransactionIndexEnd::default(),
            update: Update::default(),
            ended: None,
            valid_bytes: 0,
            needed: 0,
            next_offset: base_offset,
            producers_end: None,
            batches: 0,
            first_timestamp: None,
            has_new_epochs: false,
            index: Vec::new(),
            timeindex: Vec::new(),
            txnindex: Vec::new(),
        }
    }

    /// The indexes as they are.
    pub fn indexes(&self) -> &SegmentIndexes {
        &self.indexes
    }

    /// Of the last entry of the transaction index.
    pub fn last_txn_offset(&self) -> Option<i64> {
        self.transactions.last_offset
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
        if position != self.valid_bytes {
            return Err(Error::invalid(format!(
                "position {position} is not where the recovery is: {}",
                self.valid_bytes
            )));
        }
        let mut taken = 0;
        while self.ended.is_none() {
            let rest = data.get(taken..).unwrap_or_default();
            match stored(rest, self.valid_bytes, end) {
                Stored::End => self.end(Ended::Whole),
                Stored::Bad(error) => self.end(Ended::Cut(error.message)),
                Stored::NeedMore(needed) => {
                    self.needed = needed;
                    break;
                }
                Stored::Batch(header, entry) => {
                    if let Err(ended) = self.batch(&header, entry, producers, epochs) {
                        self.end(ended);
                    } else {
                        taken += header.size();
                    }
                }
            }
        }
        Ok(taken)
    }

    fn batch(
        &mut self,
        header: &Header,
        entry: &[u8],
        producers: &mut Producers,
        epochs: &mut LeaderEpochs,
    ) -> std::result::Result<(), Ended> {
        header
            .check_crc(entry)
            .map_err(|error| Ended::Cut(error.message))?;
        let last_offset = header.last_offset();
        if relative_offset(last_offset, self.base_offset).is_none() {
            let message = format!(
                "last offset {last_offset} is not within 2^31-1 of base offset {}",
                self.base_offset
            );
            return Err(if last_offset < self.base_offset {
                Ended::Failed(message)
            } else {
                Ended::Split(message)
            });
        }
        if self.batches == 0 {
            self.first_timestamp = Some(header.max_timestamp);
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
        self.batches += 1;
        if header.magic < 2 {
            return Ok(());
        }
        let epoch = header.partition_leader_epoch;
        if epoch >= 0 && epochs.latest().is_none_or(|latest| epoch > latest) {
            self.has_new_epochs |= epochs
                .assign(epoch, header.base_offset)
                .map_err(|error| Ended::Failed(error.message))?;
        }
        self.update.clear();
        // The batch itself stays: Kafka has counted its bytes by then.
        producers
            .prepare(&mut self.update, header, entry, Origin::Replication)
            .map_err(of_refusal)?;
        for aborted in producers.apply(&mut self.update) {
            self.transactions
                .append(&aborted, &mut self.txnindex)
                .map_err(|error| Ended::Failed(error.to_string()))?;
        }
        producers.set_end_offset(header.next_offset());
        self.producers_end = Some(header.next_offset());
        Ok(())
    }

    fn end(&mut self, mut ended: Ended) {
        self.needed = 0;
        if matches!(ended, Ended::Whole | Ended::Cut(_))
            && let Err(error) = self.indexes.finish(&mut self.timeindex)
        {
            ended = of_index(error);
        }
        if matches!(ended, Ended::Emptied(_)) {
            self.valid_bytes = 0;
            self.next_offset = self.base_offset;
            self.producers_end = None;
            self.batches = 0;
            self.first_timestamp = None;
            self.index.clear();
            self.timeindex.clear();
            self.txnindex.clear();
            self.transactions = TransactionIndexEnd::default();
            self.indexes = self.indexes.emptied();
        }
        self.ended = Some(ended);
    }
}

fn of_index(error: IndexError) -> Ended {
    match error {
        IndexError::InvalidOffset(message) => Ended::Emptied(message),
        IndexError::Full(message) | IndexError::Overflow(message) => Ended::Failed(message),
    }
}

fn of_refusal(refused: Refused) -> Ended {
    match refused.refusal {
        Refusal::InvalidRecord | Refusal::CorruptRecord => Ended::Cut(refused.message),
        _ => Ended::Failed(refused.message),
    }
}

/// Where a segment ends for a load, by its framing alone: neither magic nor checksum is refused.
#[derive(Debug)]
pub struct SegmentEnd {
    /// Where the last whole batch ends.
    pub position: u64,
    /// The offset behind it; None: there is no batch.
    pub next_offset: Option<i64>,
    /// How it ended, once it has: at the end, or where the load fails.
    pub ended: Option<Ended>,
    /// Bytes that the next batch takes; 0 if not even that can be known.
    pub needed: usize,
}

impl SegmentEnd {
    /// `position` is that of a batch.
    pub fn new(position: u64) -> Self {
        Self {
            position,
            next_offset: None,
            ended: None,
            needed: 0,
        }
    }

    /// As [`SegmentRecovery::feed`].
    pub fn feed(&mut self, data: &[u8], position: u64, end: u64) -> Result<usize> {
        if position != self.position {
            return Err(Error::invalid(format!(
                "position {position} is not where the walk is: {}",
                self.position
            )));
        }
        let mut taken = 0;
        while self.ended.is_none() {
            let rest = data.get(taken..).unwrap_or_default();
            match stored(rest, self.position, end) {
                Stored::End => self.ended = Some(Ended::Whole),
                Stored::Bad(error) => self.ended = Some(Ended::Failed(error.message)),
                Stored::NeedMore(needed) => {
                    self.needed = needed;
                    break;
                }
                Stored::Batch(header, _) => {
                    taken += header.size();
                    self.position += header.size() as u64;
                    self.next_offset = Some(header.next_offset());
                }
            }
        }
        Ok(taken)
    }
}

/// Replays one segment's batches for its producers only; checksums are not looked at. The state changes at the end.
#[derive(Debug)]
pub struct ProducerReplay {
    start_offset: i64,
    end_offset: i64,
    update: Update,
    position: u64,
    /// How it ended, once it has: at the end, or where the load fails.
    pub ended: Option<Ended>,
    /// Bytes that the next batch takes; 0 if not even that can be known.
    pub needed: usize,
}

impl ProducerReplay {
    /// Batches that end below `start_offset` are passed over, and the first that reaches `end_offset` ends it. `position` is
    /// that of a batch.
    pub fn new(position: u64, start_offset: i64, end_offset: i64) -> Self {
        Self {
            start_offset,
            end_offset,
            update: Update::default(),
            position,
            ended: None,
            needed: 0,
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
        if position != self.position {
            return Err(Error::invalid(format!(
                "position {position} is not where the replay is: {}",
                self.position
            )));
        }
        let mut taken = 0;
        while self.ended.is_none() {
            let rest = data.get(taken..).unwrap_or_default();
            match stored(rest, self.position, end) {
                Stored::End => self.ended = Some(Ended::Whole),
                Stored::Bad(error) => self.ended = Some(Ended::Failed(error.message)),
                Stored::NeedMore(needed) => {
                    self.needed = needed;
                    break;
                }
                Stored::Batch(header, _) if header.last_offset() >= self.end_offset => {
                    self.ended = Some(Ended::Whole);
                }
                Stored::Batch(header, entry) => {
                    let update = &mut self.update;
                    if header.last_offset() >= self.start_offset
                        && let Err(refused) =
                            producers.prepare(update, &header, entry, Origin::Replication)
                    {
                        self.ended = Some(Ended::Failed(refused.message));
                        break;
                    }
                    taken += header.size();
                    self.position += header.size() as u64;
                }
            }
        }
        if self.ended == Some(Ended::Whole) {
            self.needed = 0;
            // The entries of the transaction index are in the file already.
            producers.apply(&mut self.update);
        }
        Ok(taken)
    }
}
