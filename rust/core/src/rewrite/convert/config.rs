//! The options of a conversion, and the counts of what it did.

use std::ops::AddAssign;

use crate::base::error::{Error, Result};
use crate::format::batch::BATCH_OVERHEAD;
use crate::format::compression::{Codec, Compression};

/// What batches are converted to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conversion {
    /// 0, 1 or 2; None keeps each batch's.
    pub magic: Option<i8>,
    /// None keeps each batch's codec, at Kafka's default level if it is built anew.
    pub codec: Option<Codec>,
    /// Also compress batches anew that have the codec: their level is unknown.
    pub recompress: bool,
    /// Join neighbouring batches up to this many uncompressed bytes, if nobody can tell. None: only single messages are
    /// joined.
    pub batch_size: Option<usize>,
    /// Join only below this offset: the log of another replica may end between batches above it.
    pub join_below: Option<i64>,
    /// Drop headers that the magic cannot store.
    pub drop_headers: bool,
    /// Drop producers and transactions. With them go all control batches, the records of aborted transactions, and all
    /// records from the last stable offset on.
    pub drop_producers: bool,
}

impl Conversion {
    /// Refuses options that are invalid for any batch.
    pub(super) fn check(&self) -> Result<()> {
        let refused = match (self.magic, self.codec, self.batch_size) {
            (None, None, None) if !self.drop_producers => {
                "nothing to convert: give a magic, a codec or a batch size".into()
            }
            (Some(magic), ..) if !(0..=2).contains(&magic) => {
                format!("magic {magic} is not 0, 1 or 2")
            }
            (Some(magic @ (0 | 1)), Some(codec), _) if codec.compression == Compression::Zstd => {
                format!("magic {magic} does not support zstd: use another codec")
            }
            (_, None, _) if self.recompress => "recompress needs a codec".into(),
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

/// The counts of a conversion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Converted {
    /// Entries of the old segments.
    pub batches: u64,
    /// Entries among them that changed.
    pub changed: u64,
    /// Entries that were not joined, because another replica may end behind them.
    pub apart: u64,
    /// Records that lost their headers.
    pub headers: u64,
    /// Records that lost their timestamp: magic 0 has none.
    pub timestamps: u64,
    /// Batches that lost their producer.
    pub producers: u64,
    /// Dropped control batches.
    pub control_batches: u64,
    /// Dropped records of aborted transactions.
    pub aborted: u64,
    /// Dropped records of undecided transactions, and those after the first such transaction.
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
