//! The header of a log entry: a v2 record batch, or a v0/v1 message (alone or as a wrapper).
//!
//! Every magic begins alike, and magic 2 goes on to 61 bytes (`DefaultRecordBatch`):
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
//! (KIP-534: the base timestamp then is the horizon). The crc of magic 2 starts at the attributes, so base
//! offset, length, leader epoch and magic may change, or rot, without it noticing.

mod attributes;

use crate::base::error::{Error, Result};
use crate::base::primitives::{Reader, Writer};
use crate::format::record::Record;

pub(crate) use attributes::attributes;

pub use crate::base::timestamp_type::TimestampType;

/// Offset and length: what `batch length` does not count.
pub(crate) const LOG_OVERHEAD: usize = 12;
/// Bytes up to and with the magic.
pub(crate) const MAGIC_END: usize = 17;
/// Bytes of a magic 2 header, and so of the smallest batch. Headers of magic 0 and 1 are shorter.
pub const BATCH_OVERHEAD: usize = 61;
/// Where the crc of magic 2 starts.
const ATTRIBUTES_AT: usize = 21;
/// Behind the crc of any magic: the bytes by which one entry is told from another.
pub(crate) const CRC_END: usize = ATTRIBUTES_AT;
/// Where the crc of magic 0 and 1 starts.
pub(crate) const MAGIC_AT: usize = 16;
/// The smallest length any magic can have: an empty v0 message.
const MIN_LENGTH: i32 = 14;

/// Where the crc of magic 2 stands, up to the attributes.
const CRC_AT: usize = 17;

/// The fields of an entry's header, as Kafka's accessors give them.
///
/// Of magic 0 and 1 (`AbstractLegacyRecordBatch`) what the format lacks is -1 or false, `max_timestamp` is the
/// message's own, and `base_offset` is the offset field: for a wrapper that is the *last* offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Byte position in the file.
    pub position: u64,
    /// The offset field.
    pub base_offset: i64,
    /// Bytes after the length field.
    pub batch_length: i32,
    /// -1: unknown.
    pub partition_leader_epoch: i32,
    /// 0, 1 or 2.
    pub magic: i8,
    /// As stored.
    pub crc: u32,
    /// Only the low byte has a meaning.
    pub attributes: i16,
    /// Last offset minus base offset of the batch as it was produced.
    pub last_offset_delta: i32,
    /// Of the first record, or the delete horizon.
    pub base_timestamp: i64,
    /// Of the batch; -1 for none.
    pub max_timestamp: i64,
    /// -1: none.
    pub producer_id: i64,
    /// -1: none.
    pub producer_epoch: i16,
    /// -1: none.
    pub base_sequence: i32,
    /// Records present now; None for magic 0 and 1, which do not say.
    pub records_count: Option<i32>,
}

/// What a header has that does not say otherwise.
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
    /// The header that `bytes` start with, or None if they end before it does.
    ///
    /// `position` is the place of `bytes` in the file. Framing is judged as strictly as any of Kafka's readers: a
    /// length below the format's minimum and a magic outside 0..=2 are errors as soon as they can be seen.
    pub fn parse(bytes: &[u8], position: u64) -> Result<Option<Self>> {
        Self::parse_as(bytes, position, |magic| {
            (0..=2).contains(&magic).then_some(magic)
        })
    }

    /// The same, as Kafka's reader of files takes it: a magic above 2 for 2, a negative one for 1. No checksum covers that
    /// byte of magic 2, so a load keeps the batch.
    pub fn parse_stored(bytes: &[u8], position: u64) -> Result<Option<Self>> {
        Self::parse_as(bytes, position, |magic| {
            Some(if magic < 0 { 1 } else { magic.min(2) })
        })
    }

    /// `layout` tells which magic's layout one has, or None for one that is not read.
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
        let damage = |error: Error| Err(error.at(position, Some(base_offset)));
        if batch_length < MIN_LENGTH {
            return damage(Error::corrupt(format!(
                "length {batch_length} is below the minimum of {MIN_LENGTH}"
            )));
        }
        if batch_length > i32::MAX - LOG_OVERHEAD as i32 {
            return damage(Error::corrupt(format!(
                "length {batch_length} overflows a file"
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

    /// The entry's size in bytes, offset and length fields included.
    pub fn size(&self) -> usize {
        LOG_OVERHEAD + self.batch_length as usize
    }

    /// Where the next entry starts.
    pub fn end_position(&self) -> u64 {
        self.position + self.size() as u64
    }

    /// Offset of the last record of the batch as it was produced; compaction keeps it.
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .wrapping_add(i64::from(self.last_offset_delta))
    }

    /// The offset after it, which is where a reader goes on (KAFKA-5443: never from the last record).
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

    /// Timestamp and offset of one of the batch's records.
    #[inline]
    pub fn timestamp_and_offset(&self, record: &Record<'_>) -> (i64, i64) {
        let timestamp = match self.log_append_time() {
            Some(timestamp) => timestamp,
            None => self.base_timestamp.wrapping_add(record.timestamp_delta),
        };
        (
            timestamp,
            self.base_offset
                .wrapping_add(i64::from(record.offset_delta)),
        )
    }

    /// Sequence of the record with this offset delta; -1 for none. It follows the delta, not the record's index:
    /// after compaction the two differ.
    #[inline]
    pub fn sequence(&self, offset_delta: i32) -> i32 {
        if self.base_sequence < 0 {
            -1
        } else {
            increment_sequence(self.base_sequence, offset_delta)
        }
    }

    /// The same with a leader epoch, the lowest, if it is or becomes a batch of magic 2 without one: a follower that fetches
    /// such a batch fails for good (`LeaderEpochFileCache.assign`).
    pub(crate) fn with_valid_leader_epoch(self) -> Self {
        Self {
            partition_leader_epoch: self.partition_leader_epoch.max(0),
            ..self
        }
    }

    /// Gives the batch its last offset and, in magic 2, its leader epoch: no checksum covers these.
    pub(crate) fn set_last_offset_and_epoch(&mut self, last_offset: i64, leader_epoch: i32) {
        self.base_offset = last_offset.wrapping_sub(i64::from(self.last_offset_delta));
        if self.magic == 2 {
            self.partition_leader_epoch = leader_epoch;
        }
    }

    /// Writes what [`Header::set_last_offset_and_epoch`] and, with `is_resummed`, [`Header::set_max_timestamp`] changed into `entry`, the
    /// whole entry. With the latter, the checksum is computed anew.
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

    /// The checksum that `entry`, the whole entry, should carry.
    pub fn computed_crc(&self, entry: &[u8]) -> u32 {
        if self.magic == 2 {
            crc32c(entry.get(ATTRIBUTES_AT..).unwrap_or_default())
        } else {
            crc32(entry.get(MAGIC_AT..).unwrap_or_default())
        }
    }

    /// Writes the header of magic 2 over the start of `entry`, the whole entry, with the length and the crc that follow
    /// from the bytes behind it. None if `entry` is no entry: shorter than a header, or longer than a length can say.
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

    /// The whole batch of magic 2 that has this header and no records.
    pub(crate) fn without_records(mut self) -> [u8; BATCH_OVERHEAD] {
        let mut batch = [0; BATCH_OVERHEAD];
        self.records_count = Some(0);
        // There is room: it is a header's.
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
        )))
    }
}

/// A batch of magic 2 without records that takes one offset, as compaction leaves one
/// (`DefaultRecordBatch.writeEmptyHeader`).
pub fn empty_batch(offset: i64, leader_epoch: i32) -> [u8; BATCH_OVERHEAD] {
    let header = Header {
        base_offset: offset,
        partition_leader_epoch: leader_epoch,
        ..UNSET
    };
    header.without_records()
}

/// Writes `value` at `at`, if there is room.
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

/// The mirror image of [`increment_sequence`].
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    if sequence < decrement {
        i32::MAX
            .wrapping_sub(decrement.wrapping_sub(sequence))
            .wrapping_add(1)
    } else {
        sequence.wrapping_sub(decrement)
    }
}
