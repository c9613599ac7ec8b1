//! What a conversion is to do, and what it did.

use std::ops::AddAssign;

use crate::base::error::{Error, Result};
use crate::format::batch::BATCH_OVERHEAD;
use crate::format::compression::{Codec, Compression};

/// What batches are to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conversion {
    /// 0, 1 or 2; None: what they are.
    pub magic: Option<i8>,
    /// None: what they are, at Kafka's default level where they are made anew.
    pub codec: Option<Codec>,
    /// Compress again what has the codec already: its level does not show.
    pub recompress: bool,
    /// Neighbours that may be one batch are joined up to so many bytes, uncompressed; None: only messages that stand alone.
    pub batch_size: Option<usize>,
    /// Only what lies below this offset is joined: the log of another replica may end between batches that do not.
    pub join_below: Option<i64>,
    /// Leave out headers where the magic has none.
    pub drop_headers: bool,
    /// Leave out producers and transactions: with them all control batches, the records of aborted transactions, and all
    /// from the last stable offset on.
    pub drop_producers: bool,
}

impl Conversion {
    /// Refuses what cannot be, whatever the batches are.
    pub(super) fn check(&self) -> Result<()> {
        let refused = match (self.magic, self.codec, self.batch_size) {
            (None, None, None) if !self.drop_producers => {
                "nothing to convert: give a magic, a codec or a batch size".into()
            }
            (Some(magic), ..) if !(0..=2).contains(&magic) => {
                format!("magic {magic} is not 0, 1 or 2")
            }
            (Some(magic @ (0 | 1)), Some(codec), _) if codec.compression == Compression::Zstd => {
                format!("magic {magic} knows no zstd: give another codec")
            }
            (_, None, _) if self.recompress => "a codec is needed to compress again".into(),
            (.., Some(size)) if size <= BATCH_OVERHEAD => {
                format!("batch size {size} holds no record: {BATCH_OVERHEAD} bytes are its header")
            }
            (None | Some(2), ..) if self.drop_headers => {
                "no headers need to be dropped: only magic 0 and 1 lack them".into()
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(refused))
    }
}

/// What a conversion did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Converted {
    /// Entries that came.
    pub batches: u64,
    /// Of them, those that did not stay as they were.
    pub changed: u64,
    /// Entries that were not joined because another replica may end behind them.
    pub apart: u64,
    /// Records that lost their headers.
    pub headers: u64,
    /// Records that lost their timestamp: magic 0 has none.
    pub timestamps: u64,
    /// Batches that lost their producer.
    pub producers: u64,
    /// Control batches left out.
    pub control_batches: u64,
    /// Records left out because their transaction was aborted.
    pub aborted: u64,
    /// Records left out because their transaction, or one before them, is not decided.
    pub undecided: u64,
}

impl AddAssign for Converted {
    fn add_assign(&mut self, other: Self) {
        let Self {
            batches,
            changed,
            apart,
            headers,
            timestamps,
            producers,
            control_batches,
            aborted,
            undecided,
        } = other;
        self.batches += batches;
        self.changed += changed;
        self.apart += apart;
        self.headers += headers;
        self.timestamps += timestamps;
        self.producers += producers;
        self.control_batches += control_batches;
        self.aborted += aborted;
        self.undecided += undecided;
    }
}
