//! A header's attributes: codec, timestamp type, and what kind of batch it is.

use super::{Header, TimestampType};
use crate::base::error::{Error, Result};
use crate::format::compression::Compression;

const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

impl Header {
    /// The codec's number, 0 to 7.
    pub fn compression_id(&self) -> u8 {
        (self.attributes & COMPRESSION_MASK) as u8
    }

    /// The codec, or an error for the ids 5 to 7.
    pub fn compression(&self) -> Result<Compression> {
        let id = self.compression_id();
        Compression::from_id(id).ok_or_else(|| {
            let mut error = Error::unsupported(format!("compression codec {id} is not known"))
                .at(self.position, Some(self.base_offset));
            error.next_position = Some(self.end_position());
            error
        })
    }

    /// Who set the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        match (self.magic, self.attributes & LOG_APPEND_TIME != 0) {
            (0, _) => TimestampType::NoTimestampType,
            (_, false) => TimestampType::CreateTime,
            (_, true) => TimestampType::LogAppendTime,
        }
    }

    /// The one timestamp of all records, if the broker set it: the stored deltas then mean nothing.
    pub fn log_append_time(&self) -> Option<i64> {
        (self.timestamp_type() == TimestampType::LogAppendTime).then_some(self.max_timestamp)
    }

    /// Part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.magic == 2 && self.attributes & TRANSACTIONAL != 0
    }

    /// Leaves nobody who wrote it, and no transaction.
    pub(crate) fn drop_producer(&mut self) {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (-1, -1, -1);
        self.attributes &= !TRANSACTIONAL;
    }

    /// Holds control records, which no consumer is shown.
    pub fn is_control(&self) -> bool {
        self.magic == 2 && self.attributes & CONTROL != 0
    }

    /// When the cleaner may drop the batch's tombstones or marker, ms (KIP-534).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.magic == 2 && self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// Gives the batch the timestamp type and the max timestamp that it is stored with; false if it has them already.
    /// Magic 0 has neither. What is unknown in the attributes is cleared, as Kafka does when it writes them anew.
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

    /// Says that the records are compressed so; all else in the attributes stays.
    pub(crate) fn set_compression(&mut self, compression: Compression) {
        self.attributes = self.attributes & !COMPRESSION_MASK | compression as i16;
    }
}

/// The attributes that say all this; the timestamp type matters for magic 1 and 2, the flags for magic 2.
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
