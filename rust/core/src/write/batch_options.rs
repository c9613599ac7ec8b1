//! The options of a batch, and the combinations that Kafka's builder refuses.

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, TimestampType, attributes};
use crate::format::compression::{Codec, Compression};
use crate::format::message::MIN_SIZE;

/// The properties of a batch, without its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// 0, 1 or 2.
    pub magic: i8,
    /// Zstd is only for magic 2.
    pub codec: Codec,
    /// Ignored for magic 0, which stores no timestamps.
    pub timestamp_type: TimestampType,
    /// The timestamp of all records if the type is LogAppendTime, ms.
    pub log_append_time: i64,
    /// The offset to which deltas are relative.
    pub base_offset: i64,
    /// -1 if unknown.
    pub partition_leader_epoch: i32,
    /// -1 for none.
    pub producer_id: i64,
    /// -1 for none.
    pub producer_epoch: i16,
    /// Sequence of the first record; -1 for none.
    pub base_sequence: i32,
    /// True if the batch is part of a transaction.
    pub is_transactional: bool,
    /// True if the records are control records.
    pub is_control: bool,
    /// The time from which the cleaner may drop the batch's tombstones or its marker, ms (KIP-534); -1 for no horizon.
    pub delete_horizon_ms: i64,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            magic: 2,
            codec: Codec::NONE,
            timestamp_type: TimestampType::CreateTime,
            log_append_time: -1,
            base_offset: 0,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            is_transactional: false,
            is_control: false,
            delete_horizon_ms: -1,
        }
    }
}

impl BatchOptions {
    /// Refuses the options that Kafka refuses when a builder is created.
    pub(crate) fn check(&self) -> Result<()> {
        let magic = self.magic;
        let refused = match self {
            _ if !(0..=2).contains(&magic) => "is not 0, 1 or 2",
            _ if magic > 0 && self.timestamp_type == TimestampType::NoTimestampType => {
                "needs a timestamp type"
            }
            _ if magic == 2 => return Ok(()),
            _ if self.is_transactional => "does not support transactions",
            _ if self.is_control => "does not support control records",
            _ if self.codec.compression == Compression::Zstd => "does not support zstd",
            _ if self.delete_horizon_ms != -1 => "does not support a delete horizon",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("magic {magic} {refused}")))
    }

    /// Refuses the options that Kafka refuses when a builder is closed.
    pub(crate) fn check_producer(&self) -> Result<()> {
        let (id, epoch, sequence) = (self.producer_id, self.producer_epoch, self.base_sequence);
        if id == -1 {
            return match self.is_transactional {
                true => Err(Error::invalid("a transactional batch needs a producer id")),
                false => Ok(()),
            };
        }
        if epoch == -1 {
            return Err(Error::invalid(format!(
                "producer id {id} needs a producer epoch"
            )));
        }
        if sequence < 0 && !self.is_control {
            return Err(Error::invalid(format!(
                "producer id {id} has base sequence {sequence}, which must not be negative"
            )));
        }
        if self.magic < 2 {
            return Err(Error::invalid(format!(
                "producer id {id} in magic {}; only magic 2 has producers",
                self.magic
            )));
        }
        Ok(())
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.codec.compression != Compression::None
    }

    /// Size of the bytes before the records.
    pub(crate) fn header_size(&self) -> usize {
        match (self.magic, self.is_compressed()) {
            (2, _) => BATCH_OVERHEAD,
            (_, false) => 0,
            (0, true) => MIN_SIZE,
            (_, true) => MIN_SIZE + 8,
        }
    }

    pub(crate) fn attributes(&self) -> i16 {
        attributes(
            self.codec.compression,
            match self.magic {
                0 => TimestampType::NoTimestampType,
                _ => self.timestamp_type,
            },
            self.is_transactional,
            self.is_control,
            self.delete_horizon_ms >= 0,
        )
    }
}
