//! The attributes of a header: codec, timestamp type, and the kind of batch.

use super::{Header, TimestampType};
use crate::base::error::{Error, Result};
use crate::format::compression::Compression;

const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

impl Header {
    /// The codec's id, 0 to 7.
    pub fn compression_id(&self) -> u8 {
        (self.attributes & COMPRESSION_MASK) as u8
    }

    /// Returns the codec; the ids 5 to 7 are errors.
    pub fn compression(&self) -> Result<Compression> {
        let id = self.compression_id();
        Compression::from_id(id).ok_or_else(|| {
            let mut error = Error::unsupported(format!("compression codec {id} is unknown"))
                .at(self.position, Some(self.base_offset));
            error.next_position = Some(self.end_position());
            error
        })
    }

    /// The timestamp type: who set the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        match (self.magic, self.attributes & LOG_APPEND_TIME != 0) {
            (0, _) => TimestampType::NoTimestampType,
            (_, false) => TimestampType::CreateTime,
            (_, true) => TimestampType::LogAppendTime,
        }
    }

    /// The timestamp of all records, if the broker set one. The stored deltas then have no meaning.
    pub fn log_append_time(&self) -> Option<i64> {
        (self.timestamp_type() == TimestampType::LogAppendTime).then_some(self.max_timestamp)
    }

    /// Returns true if the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.magic == 2 && self.attributes & TRANSACTIONAL != 0
    }

    /// Removes the producer and the transaction.
    pub(crate) fn drop_producer(&mut self) {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (-1, -1, -1);
        self.attributes &= !TRANSACTIONAL;
    }

    /// Returns true if the batch holds control records, which consumers never see.
    pub fn is_control(&self) -> bool {
        self.magic == 2 && self.attributes & CONTROL != 0
    }

    /// The time from which the cleaner may drop the batch's tombstones or its marker, ms (KIP-534).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.magic == 2 && self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// Sets the timestamp type and the max timestamp; false if the batch has them already, or is of magic 0, which has
    /// neither. Unknown attribute bits are cleared, as when Kafka writes attributes anew.
    pub(crate) fn set_max_timestamp(
        &mut self,
        timestamp_type: TimestampType,
        max_timestamp: i64,
    ) -> bool {
        if self.magic == 0
            || (self.timestamp_type() == timestamp_type && self.max_timestamp == max_timestamp)
        {
            return false;
        }
        self.attributes &= match self.magic {
            1 => COMPRESSION_MASK,
            _ => COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON,
        };
        if timestamp_type == TimestampType::LogAppendTime {
            self.attributes |= LOG_APPEND_TIME;
        }
        self.max_timestamp = max_timestamp;
        true
    }

    /// Sets the codec and keeps all other attributes.
    pub(crate) fn set_compression(&mut self, compression: Compression) {
        self.attributes = self.attributes & !COMPRESSION_MASK | compression as i16;
    }
}

/// Combines attributes. The timestamp type is used for magic 1 and 2, the flags for magic 2.
pub(crate) fn attributes(
    compression: Compression,
    timestamp_type: TimestampType,
    is_transactional: bool,
    is_control: bool,
    has_delete_horizon: bool,
) -> i16 {
    let flag = |is_set: bool, bit: i16| if is_set { bit } else { 0 };
    compression as i16
        | flag(
            timestamp_type == TimestampType::LogAppendTime,
            LOG_APPEND_TIME,
        )
        | flag(is_transactional, TRANSACTIONAL)
        | flag(is_control, CONTROL)
        | flag(has_delete_horizon, DELETE_HORIZON)
}
