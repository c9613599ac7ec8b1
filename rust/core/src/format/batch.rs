//! The header of a log entry: a v2 record batch, or a v0/v1 message (alone or as a wrapper).
//!
//! The first 17 bytes are the same in every magic. A header of magic 2 has 61 bytes (`DefaultRecordBatch`):
//!
//! | at | size | field                | | at | size | field                     |
//! |---:|-----:|----------------------|-|---:|-----:|---------------------------|
//! |  0 |    8 | base offset          | | 27 |    8 | base timestamp            |
//! |  8 |    4 | batch length         | | 35 |    8 | max timestamp             |
//! | 12 |    4 | partition leader epoch (magic 0, 1: crc) | | 43 | 8 | producer id |
//! | 16 |    1 | magic                | | 51 |    2 | producer epoch            |
//! | 17 |    4 | crc                  | | 53 |    4 | base sequence             |
//! | 21 |    2 | attributes           | | 57 |    4 | records count             |
//! | 23 |    4 | last offset delta    | | 61 |    . | records                   |
//!
//! Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
//! (KIP-534: the base timestamp then is the horizon). The crc of magic 2 covers the bytes from the attributes on. Base
//! offset, length, leader epoch and magic may change, or be damaged, without a crc error.

mod attributes;

use crate::base::error::{Error, Fault, Result};
use crate::base::primitives::{Reader, Writer};

pub(crate) use attributes::attributes;

pub use crate::base::timestamp_type::TimestampType;

/// Bytes of base offset and batch length, which the batch length does not include.
pub(crate) const LOG_OVERHEAD: usize = 12;
/// Bytes up to the magic, included.
pub(crate) const MAGIC_END: usize = 17;
/// Bytes of a header of magic 2, which is also the smallest batch. Headers of magic 0 and 1 are shorter.
pub const BATCH_OVERHEAD: usize = 61;
/// The position of the first byte that the crc of magic 2 covers.
const ATTRIBUTES_AT: usize = 21;
/// The position after the crc of every magic. The bytes up to here identify an entry.
pub(crate) const CRC_END: usize = ATTRIBUTES_AT;
/// The position of the magic. The bytes that the crc of magic 0 and 1 covers start here.
pub(crate) const MAGIC_AT: usize = 16;
/// The smallest batch length of any magic: an empty v0 message.
const MIN_LENGTH: i32 = 14;

/// The position of the crc of magic 2.
const CRC_AT: usize = 17;

/// The fields of an entry's header, as Kafka's accessors return them.
///
/// For magic 0 and 1 (`AbstractLegacyRecordBatch`), missing fields are -1 or false, `max_timestamp` is the message's
/// own timestamp, and `base_offset` is the offset field: in a wrapper, the *last* offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Byte position in the file.
    pub position: u64,
    /// The offset field.
    pub base_offset: i64,
    /// Bytes after the length field.
    pub batch_length: i32,
    /// -1 if unknown.
    pub partition_leader_epoch: i32,
    /// 0, 1 or 2.
    pub magic: i8,
    /// The stored checksum.
    pub crc: u32,
    /// Only the low byte has a meaning.
    pub attributes: i16,
    /// Last offset minus base offset of the batch as it was produced.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, or the delete horizon.
    pub base_timestamp: i64,
    /// Largest timestamp of the batch; -1 for none.
    pub max_timestamp: i64,
    /// -1 for none.
    pub producer_id: i64,
    /// -1 for none.
    pub producer_epoch: i16,
    /// -1 for none.
    pub base_sequence: i32,
    /// Records in the batch now; None for magic 0 and 1, which have no records count.
    pub records_count: Option<i32>,
}

/// A header without any information.
const UNSET: Header = Header {
    position: 0,
    base_offset: 0,
    batch_length: 0,
    partition_leader_epoch: -1,
    magic: 2,
    crc: 0,
    attributes: 0,
    last_offset_delta: 0,
    base_timestamp: -1,
    max_timestamp: -1,
    producer_id: -1,
    producer_epoch: -1,
    base_sequence: -1,
    records_count: None,
};

impl Header {
    /// Parses the header at the start of `bytes`; None if `bytes` end inside the header.
    ///
    /// `position` is where `bytes` lie in the file. Framing is checked as strictly as in the strictest of Kafka's
    /// readers. A length below the format's minimum and a magic outside 0..=2 are errors as soon as their bytes are
    /// available.
    pub fn parse(bytes: &[u8], position: u64) -> Result<Option<Self>> {
        Self::parse_as(bytes, position, |magic| {
            (0..=2).contains(&magic).then_some(magic)
        })
    }

    /// Parses a header as Kafka's file reader does: a magic above 2 is read as 2, a negative magic as 1. No checksum
    /// covers the magic byte of magic 2, so a broker keeps a batch with a wrong magic when it loads the log.
    pub fn parse_stored(bytes: &[u8], position: u64) -> Result<Option<Self>> {
        Self::parse_as(bytes, position, |magic| {
            Some(if magic < 0 { 1 } else { magic.min(2) })
        })
    }

    /// `layout` maps a magic to the magic whose layout the header has; None refuses it.
    fn parse_as(
        bytes: &[u8],
        position: u64,
        layout: impl Fn(i8) -> Option<i8>,
    ) -> Result<Option<Self>> {
        let mut reader = Reader::new(bytes);
        if bytes.len() < LOG_OVERHEAD {
            return Ok(None);
        }
        let base_offset = reader.i64()?;
        let batch_length = reader.i32()?;
        let damage = |error: Error| Err(error.of(Fault::Framing).at(position, Some(base_offset)));
        if batch_length < MIN_LENGTH {
            return damage(Error::corrupt(format!(
                "length {batch_length} is below the minimum of {MIN_LENGTH}"
            )));
        }
        if batch_length > i32::MAX - LOG_OVERHEAD as i32 {
            return damage(Error::corrupt(format!(
                "length {batch_length} is larger than a file can be"
            )));
        }
        let Some(&magic) = bytes.get(MAGIC_AT) else {
            return Ok(None);
        };
        let stored = magic as i8;
        let Some(magic) = layout(stored) else {
            return damage(Error::unsupported(format!(
                "magic {stored} is not 0, 1 or 2"
            )));
        };
        let overhead = match magic {
            0 => 14,
            1 => 22,
            _ => (BATCH_OVERHEAD - LOG_OVERHEAD) as i32,
        };
        if batch_length < overhead {
            return damage(Error::corrupt(format!(
                "length {batch_length} is below the minimum of {overhead} for magic {magic}"
            )));
        }
        if bytes.len() < Self::parsed_bytes(magic) {
            return Ok(None);
        }
        let word = reader.u32()?;
        reader.i8()?;
        let mut header = Self {
            position,
            base_offset,
            batch_length,
            magic,
            crc: word,
            ..UNSET
        };
        if magic == 2 {
            header.partition_leader_epoch = word as i32;
            header.crc = reader.u32()?;
            header.attributes = reader.i16()?;
            header.last_offset_delta = reader.i32()?;
            header.base_timestamp = reader.i64()?;
            header.max_timestamp = reader.i64()?;
            header.producer_id = reader.i64()?;
            header.producer_epoch = reader.i16()?;
            header.base_sequence = reader.i32()?;
            header.records_count = Some(reader.i32()?);
        } else {
            header.attributes = i16::from(reader.i8()?) & 0xff;
            if magic == 1 {
                header.max_timestamp = reader.i64()?;
                header.base_timestamp = header.max_timestamp;
            }
        }
        Ok(Some(header))
    }

    fn parsed_bytes(magic: i8) -> usize {
        match magic {
            0 => 18,
            1 => 26,
            _ => BATCH_OVERHEAD,
        }
    }

    /// The entry's size in bytes, with the offset and length fields.
    pub fn size(&self) -> usize {
        LOG_OVERHEAD + self.batch_length as usize
    }

    /// Returns the position of the next entry.
    pub fn end_position(&self) -> u64 {
        self.position + self.size() as u64
    }

    /// Offset of the last record of the batch as produced. Compaction keeps it.
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .wrapping_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the batch, where a reader continues. It never depends on the last record (KAFKA-5443).
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// Sequence of the last record; -1 for none.
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence {
            -1 => -1,
            base => increment_sequence(base, self.last_offset_delta),
        }
    }

    /// Returns the sequence of the record with this offset delta; -1 for none. The sequence depends on the offset
    /// delta, not on the record's index, because these differ after compaction.
    #[inline]
    pub fn sequence(&self, offset_delta: i32) -> i32 {
        if self.base_sequence < 0 {
            -1
        } else {
            increment_sequence(self.base_sequence, offset_delta)
        }
    }

    /// Raises a missing leader epoch to 0, the lowest. A follower cannot fetch a batch of magic 2 without one
    /// (`LeaderEpochFileCache.assign`).
    pub(crate) fn with_valid_leader_epoch(self) -> Self {
        Self {
            partition_leader_epoch: self.partition_leader_epoch.max(0),
            ..self
        }
    }

    /// Sets the last offset and, in magic 2, the leader epoch. No checksum covers them.
    pub(crate) fn set_last_offset_and_epoch(&mut self, last_offset: i64, leader_epoch: i32) {
        self.base_offset = last_offset.wrapping_sub(i64::from(self.last_offset_delta));
        if self.magic == 2 {
            self.partition_leader_epoch = leader_epoch;
        }
    }

    /// Writes the changes of [`Header::set_last_offset_and_epoch`] into `entry`, the whole entry. With `is_resummed`,
    /// also writes the changes of [`Header::set_max_timestamp`] and a new checksum.
    pub(crate) fn write_changes(&mut self, entry: &mut [u8], is_resummed: bool) {
        put(entry, 0, self.base_offset.to_be_bytes());
        if self.magic == 2 {
            put(entry, 12, self.partition_leader_epoch.to_be_bytes());
        }
        if !is_resummed {
            return;
        }
        if self.magic == 2 {
            put(entry, ATTRIBUTES_AT, self.attributes.to_be_bytes());
            put(entry, 35, self.max_timestamp.to_be_bytes());
            self.crc = self.computed_crc(entry);
            put(entry, 17, self.crc.to_be_bytes());
        } else {
            put(entry, 17, [self.attributes as u8]);
            put(entry, 18, self.max_timestamp.to_be_bytes());
            self.crc = self.computed_crc(entry);
            put(entry, 12, self.crc.to_be_bytes());
        }
    }

    /// Computes the checksum of `entry`, the whole entry.
    pub fn computed_crc(&self, entry: &[u8]) -> u32 {
        if self.magic == 2 {
            crc32c(entry.get(ATTRIBUTES_AT..).unwrap_or_default())
        } else {
            crc32(entry.get(MAGIC_AT..).unwrap_or_default())
        }
    }

    /// Writes this header of magic 2 over the start of `entry`, the whole entry, with its length and its new crc. None
    /// if `entry` is shorter than a header, or too long for a length field.
    pub(crate) fn seal(&self, entry: &mut [u8]) -> Option<()> {
        let length = i32::try_from(entry.len() - LOG_OVERHEAD.min(entry.len())).ok()?;
        let mut writer = Writer::new(entry);
        writer.array(self.base_offset.to_be_bytes())?;
        writer.array(length.to_be_bytes())?;
        writer.array(self.partition_leader_epoch.to_be_bytes())?;
        writer.array([2, 0, 0, 0, 0])?;
        writer.array(self.attributes.to_be_bytes())?;
        writer.array(self.last_offset_delta.to_be_bytes())?;
        writer.array(self.base_timestamp.to_be_bytes())?;
        writer.array(self.max_timestamp.to_be_bytes())?;
        writer.array(self.producer_id.to_be_bytes())?;
        writer.array(self.producer_epoch.to_be_bytes())?;
        writer.array(self.base_sequence.to_be_bytes())?;
        writer.array(self.records_count.unwrap_or(0).to_be_bytes())?;
        let (head, summed) = entry.split_at_mut_checked(ATTRIBUTES_AT)?;
        *head.get_mut(CRC_AT..)?.first_chunk_mut()? = crc32c(summed).to_be_bytes();
        Some(())
    }

    /// Returns the batch of magic 2 with this header and no records.
    pub(crate) fn without_records(mut self) -> [u8; BATCH_OVERHEAD] {
        let mut batch = [0; BATCH_OVERHEAD];
        self.records_count = Some(0);
        // The array has the size of a header.
        let _ = self.seal(&mut batch);
        batch
    }

    /// Adds this batch's position and base offset to `error`.
    #[cold]
    pub(crate) fn locate(&self, error: Error) -> Error {
        error.at(self.position, Some(self.base_offset))
    }

    /// Compares the stored checksum with the bytes of `entry`, the whole entry.
    pub fn check_crc(&self, entry: &[u8]) -> Result<()> {
        let computed = self.computed_crc(entry);
        if computed == self.crc {
            return Ok(());
        }
        let what = if self.magic == 2 {
            "record batch"
        } else {
            "message"
        };
        Err(Error::corrupt(format!(
            "{what} crc mismatch: stored {:08x}, computed {computed:08x}",
            self.crc
        ))
        .of(Fault::Checksum))
    }
}

/// An empty batch of magic 2 for one offset, as compaction leaves it (`DefaultRecordBatch.writeEmptyHeader`).
pub fn empty_batch(offset: i64, leader_epoch: i32) -> [u8; BATCH_OVERHEAD] {
    let header = Header {
        base_offset: offset,
        partition_leader_epoch: leader_epoch,
        ..UNSET
    };
    header.without_records()
}

/// Writes `value` at `at`, if it fits.
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<N>())
    {
        *place = value;
    }
}

/// CRC-32C (Castagnoli), as in magic 2 and producer snapshots.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32 (zlib's), as in magic 0 and 1.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

/// Sequences wrap from 2^31-1 to 0 (`DefaultRecordBatch.incrementSequence`).
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(increment) {
        increment
            .wrapping_sub(i32::MAX.wrapping_sub(sequence))
            .wrapping_sub(1)
    } else {
        sequence.wrapping_add(increment)
    }
}

/// The inverse of [`increment_sequence`].
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    if sequence < decrement {
        i32::MAX
            .wrapping_sub(decrement.wrapping_sub(sequence))
            .wrapping_add(1)
    } else {
        sequence.wrapping_sub(decrement)
    }
}
