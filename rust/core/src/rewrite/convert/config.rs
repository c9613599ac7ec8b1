//! The options of a conversion, and the counts of its changes.

use std::ops::AddAssign;

use crate::base::error::{Error, Result};
use crate::format::batch::BATCH_OVERHEAD;
use crate::format::compression::{Codec, Compression};

/// The target form of batches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conversion {
    /// 0, 1 or 2; None keeps the magic of each batch.
    pub magic: Option<i8>,
    /// None keeps each batch's codec, at Kafka's default level if it is built anew.
    pub codec: Option<Codec>,
    /// Also recompress batches that already have the codec, because their level is unknown.
    pub recompress: bool,
    /// Join neighbouring batches up to this many uncompressed bytes, if readers see no difference. None joins single
    /// messages only.
    pub batch_size: Option<usize>,
    /// Join only below this offset, because the log of another replica may end between batches above this offset.
    pub join_below: Option<i64>,
    /// Drop headers that the magic cannot store.
    pub drop_headers: bool,
    /// Drop producers and transactions. This also drops all control batches, the records of aborted transactions, and
    /// all records from the last stable offset on.
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
                format!(
                    "batch size {size} is too small: the header alone has {BATCH_OVERHEAD} bytes"
                )
            }
            (None | Some(2), ..) if self.drop_headers => {
                "no headers need to be dropped: only magic 0 and 1 lack them".into()
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(refused))
    }
}

/// Defines a struct of counts that can be added, and listed by name.
macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $count:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$what])* pub $count: u64,)*
        }

        impl $name {
            /// The counts by name.
            pub fn by_name(self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($count), self.$count)),*].into_iter()
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$count += other.$count;)*
            }
        }
    };
}

counts! {
    /// The counts of a conversion.
    Converted {
        /// Entries of the old segments.
        batches,
        /// Entries of the old segments that changed.
        changed,
        /// Entries that were not joined, because another replica may end inside the joined batch.
        apart,
        /// Records that lost their headers.
        headers,
        /// Records that lost their timestamp: magic 0 has none.
        timestamps,
        /// Batches that lost their producer.
        producers,
        /// Dropped control batches.
        control_batches,
        /// Dropped records of aborted transactions.
        aborted,
        /// Dropped records of undecided transactions, and all records after the first such transaction.
        undecided,
    }
}
