//! Records to one batch (Kafka's `MemoryRecordsBuilder`): magic 2, or messages of magic 0 and 1, alone or wrapped.
//!
//! Uncompressed, the bytes are those of Kafka's builder. An append that is refused leaves the batch as it was; Kafka's
//! has written the bytes by then.
//!
//! The file is long because one batch is one state: what appends change, closing reads.

use crate::base::error::{Error, Result};
use crate::base::scratch::ScratchBuffer;
use crate::format::batch::{BATCH_OVERHEAD, Header, TimestampType};
use crate::format::compression::{Codec, Compressor};
use crate::format::message::NewMessage;
use crate::format::record::{self, Headers, Record};
pub use crate::write::batch_options::BatchOptions;
use crate::write::fast_encode::{self, PlainRows};

/// A batch's bytes are counted in 32 bits, and so is where they stand in a segment.
const MAX_BYTES: usize = i32::MAX as usize;

/// By how much Kafka's estimate of a compressed size is above the ratio seen so far.
const ESTIMATION_FACTOR: f32 = 1.05;

/// A record to be appended.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// Absolute.
    pub offset: i64,
    /// ms; -1: none.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Only magic 2 has any.
    pub headers: Headers<'a>,
}

/// What a batch became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltBatch {
    /// Of the last record; one below the base offset if there is none.
    pub last_offset: i64,
    /// In effect, ms; -1: no record has one.
    pub max_timestamp: i64,
    /// What Kafka reports beside it: the last offset, but for uncompressed magic 0 and 1 the offset of the record that has
    /// it first (under LogAppendTime, the base offset); -1 where there is no timestamp.
    pub shallow_offset_of_max_timestamp: i64,
    /// Bytes, 0 without records.
    pub size: usize,
}

/// Builds one batch after another in the same memory.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    compressor: Compressor,
    options: BatchOptions,
    /// Batches that are done, then the one being built.
    room: ScratchBuffer,
    /// Where the one being built starts.
    start: usize,
    records_count: i32,
    last_offset: i64,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    offset_of_max_timestamp: i64,
    /// Compressed over uncompressed, as batches of this codec have it (`CompressionRatioEstimator`).
    ratio: f32,
}

impl BatchBuilder {
    /// Holds nothing until it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a batch; one that was not finished is forgotten.
    pub fn begin(&mut self, options: BatchOptions) -> Result<()> {
        options.check()?;
        if self.ratio == 0.0 || options.codec.compression != self.options.codec.compression {
            self.ratio = 1.0;
        }
        self.options = options;
        self.room.truncate(self.start);
        // What a wrapper's header takes is known when its value is; of a batch the room is kept.
        if options.magic == 2 {
            self.room.next(BATCH_OVERHEAD);
        }
        self.records_count = 0;
        self.last_offset = options.base_offset.wrapping_sub(1);
        self.base_timestamp = (options.delete_horizon_ms >= 0).then_some(options.delete_horizon_ms);
        self.max_timestamp = -1;
        self.offset_of_max_timestamp = -1;
        Ok(())
    }

    /// Records so far.
    pub fn count(&self) -> i32 {
        self.records_count
    }

    /// Of the last record; one below the base offset if there is none.
    pub(crate) fn last_offset(&self) -> i64 {
        self.last_offset
    }

    /// What the batch would take now: exact if it is not compressed, else Kafka's estimate.
    pub fn size_in_bytes(&self) -> usize {
        let records = self.uncompressed_size();
        let records = if self.options.is_compressed() {
            estimated(records, self.ratio)
        } else {
            records
        };
        self.options.header_size() + records
    }

    /// Whether Kafka would put the record into this batch and not the next: the first always, another as long as the
    /// batch with it, itself uncompressed, takes no more than `limit` bytes. Its size is what it takes after the last one.
    pub fn has_room_for(&self, record: &NewRecord<'_>, limit: usize) -> bool {
        // A record that cannot be at all is refused by the append, with a reason.
        self.record_size(record)
            .map_or(true, |size| self.has_room(size, limit))
    }

    /// Appends a record with a higher offset than the last one's.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<()> {
        self.append_within(record, usize::MAX).map(drop)
    }

    /// The same if [`Self::has_room_for`] it; says whether.
    #[inline]
    pub(crate) fn append_within(&mut self, record: &NewRecord<'_>, limit: usize) -> Result<bool> {
        self.check(record)?;
        let is_appended = if self.options.magic == 2 {
            self.append_record(record, limit)?
        } else {
            self.append_message(record, limit)?
        };
        if is_appended {
            self.records_count += 1;
            self.last_offset = record.offset;
        }
        Ok(is_appended)
    }

    /// Appends plain rows from `first` on, with offsets that go on from the last record's, as long as [`Self::has_room_for`]
    /// them and there are no more than `max_count` records; returns how many. The batch must have a record.
    pub(crate) fn append_plain(
        &mut self,
        rows: &PlainRows<'_>,
        first: usize,
        limit: usize,
        max_count: i32,
    ) -> usize {
        let (Some(base_timestamp), Ok(offset_delta), 2) = (
            self.base_timestamp,
            self.offset_delta(self.last_offset),
            self.options.magic,
        ) else {
            return 0;
        };
        let most = max_count.saturating_sub(self.records_count).max(0) as usize;
        let records = self.uncompressed_size();
        let mut batch = fast_encode::OpenBatch {
            records,
            offset_delta,
            base_timestamp,
            max_timestamp: self.max_timestamp,
        };
        let room = self.room.spare(fast_encode::SCRATCH_BYTES);
        let taken = if self.options.is_compressed() {
            let ratio = self.ratio;
            let has_room = |records, size| {
                let so_far = BATCH_OVERHEAD + estimated(records, ratio);
                so_far < limit && so_far + size <= limit && records + size < MAX_BYTES
            };
            fast_encode::append(rows, first, most, room, &mut batch, has_room)
        } else {
            let left = limit.min(MAX_BYTES).saturating_sub(BATCH_OVERHEAD);
            let has_room = |records, size| records + size <= left;
            fast_encode::append(rows, first, most, room, &mut batch, has_room)
        };
        self.room.fill(batch.records - records);
        self.records_count += taken as i32;
        self.last_offset += taken as i64;
        self.max_timestamp = batch.max_timestamp;
        taken
    }

    /// Says that the batch ends at this offset, whatever its last record's is: compaction drops records, never offsets.
    pub fn override_last_offset(&mut self, last_offset: i64) -> Result<()> {
        self.offset_delta(last_offset)?;
        self.last_offset = last_offset;
        Ok(())
    }

    /// Appends the batch to `out`, or nothing where no record was appended; the next batch has to begin.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<BuiltBatch> {
        let start = self.start;
        let built = self.close()?;
        out.extend_from_slice(self.room.written(start));
        self.room.shrink();
        self.room.truncate(start);
        self.start = self.room.len();
        Ok(built)
    }

    /// Forgets all that was not finished into memory of the caller's.
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.records_count = 0;
        self.room.truncate(0);
    }

    /// The batches closed so far: memory, and how much of it they fill. The builder goes on with `spare`.
    pub(crate) fn take(&mut self, spare: Vec<u8>) -> (Vec<u8>, usize) {
        self.room.truncate(self.start);
        self.start = 0;
        self.records_count = 0;
        std::mem::replace(&mut self.room, ScratchBuffer::new(spare)).into_parts()
    }

    /// Finishes the batch where it is; the next one will stand behind it.
    pub(crate) fn close(&mut self) -> Result<BuiltBatch> {
        self.options.check_producer()?;
        let (max_timestamp, shallow_offset_of_max_timestamp) = self.max_timestamp();
        if self.records_count == 0 {
            self.room.truncate(self.start);
        } else if self.options.magic == 2 {
            self.close_batch(max_timestamp)?;
        } else if self.options.is_compressed() {
            self.close_wrapper(max_timestamp)?;
        }
        let built = BuiltBatch {
            last_offset: self.last_offset,
            max_timestamp,
            shallow_offset_of_max_timestamp,
            size: self.room.len() - self.start,
        };
        self.start = self.room.len();
        self.records_count = 0;
        Ok(built)
    }

    #[inline]
    fn check(&self, record: &NewRecord<'_>) -> Result<()> {
        if self.records_count > 0 && record.offset <= self.last_offset {
            return Err(Error::invalid(format!(
                "offset {} after offset {}; offsets must rise",
                record.offset, self.last_offset
            )));
        }
        check_timestamp(record.timestamp)?;
        if self.records_count == i32::MAX {
            return Err(Error::invalid("a batch holds at most 2147483647 records"));
        }
        Ok(())
    }

    #[inline]
    fn has_room(&self, record_size: usize, limit: usize) -> bool {
        if self.records_count == 0 {
            return true;
        }
        let size = self.size_in_bytes();
        size < limit && size + record_size <= limit
    }

    #[inline]
    fn append_record(&mut self, record: &NewRecord<'_>, limit: usize) -> Result<bool> {
        let base_timestamp = self.base_timestamp.unwrap_or(record.timestamp);
        let record_of_batch = self.record(record, base_timestamp)?;
        let body_size = record::body_size(&record_of_batch)?;
        let size = record::framed_size(body_size);
        if !self.has_room(size, limit) {
            return Ok(false);
        }
        let room = self.next(size)?;
        record::write(room, &record_of_batch, body_size).ok_or_else(no_room)?;
        self.base_timestamp = Some(base_timestamp);
        if record.timestamp > self.max_timestamp {
            self.max_timestamp = record.timestamp;
        }
        Ok(true)
    }

    #[inline]
    fn record<'a>(&self, record: &NewRecord<'a>, base_timestamp: i64) -> Result<Record<'a>> {
        Ok(Record {
            attributes: 0,
            timestamp_delta: record.timestamp - base_timestamp,
            offset_delta: self.offset_delta(record.offset)?,
            key: record.key,
            value: record.value,
            headers: record.headers,
        })
    }

    fn append_message(&mut self, record: &NewRecord<'_>, limit: usize) -> Result<bool> {
        let message = self.message(record)?;
        let size = message.size()?;
        if !self.has_room(size, limit) {
            return Ok(false);
        }
        let room = self.next(size)?;
        message.write(room).ok_or_else(no_room)?;
        if message.magic > 0 && message.timestamp > self.max_timestamp {
            self.max_timestamp = message.timestamp;
            self.offset_of_max_timestamp = record.offset;
        }
        Ok(true)
    }

    fn message<'a>(&self, record: &NewRecord<'a>) -> Result<NewMessage<'a>> {
        let options = &self.options;
        check_header_count(record.headers.count, options.magic)?;
        let offset_delta = self.offset_delta(record.offset)?;
        let plain = BatchOptions {
            codec: Codec::NONE,
            ..*options
        };
        Ok(NewMessage {
            magic: options.magic,
            attributes: plain.attributes(),
            offset: match options.magic {
                1 if options.is_compressed() => i64::from(offset_delta),
                _ => record.offset,
            },
            timestamp: match options.timestamp_type {
                TimestampType::LogAppendTime => options.log_append_time,
                _ => record.timestamp,
            },
            key: record.key,
            value: record.value,
        })
    }

    fn record_size(&self, record: &NewRecord<'_>) -> Result<usize> {
        if self.options.magic < 2 {
            return self.message(record)?.size();
        }
        let base_timestamp = self.base_timestamp.unwrap_or(record.timestamp);
        let record = self.record(record, base_timestamp)?;
        record::body_size(&record).map(record::framed_size)
    }

    #[inline]
    fn offset_delta(&self, offset: i64) -> Result<i32> {
        offset
            .checked_sub(self.options.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .ok_or_else(|| {
                Error::invalid(format!(
                    "offset {offset} is too far from base offset {}; a delta is 32 bits",
                    self.options.base_offset
                ))
            })
    }

    /// Room for `size` more bytes of this batch.
    #[inline]
    fn next(&mut self, size: usize) -> Result<&mut [u8]> {
        if size > MAX_BYTES - (self.room.len() - self.start).min(MAX_BYTES) {
            return Err(Error::invalid(format!(
                "a record of {size} bytes makes the batch larger than {MAX_BYTES} bytes"
            )));
        }
        Ok(self.room.next(size))
    }

    fn uncompressed_size(&self) -> usize {
        let header = if self.options.magic == 2 {
            BATCH_OVERHEAD
        } else {
            0
        };
        (self.room.len() - self.start).saturating_sub(header)
    }

    fn close_batch(&mut self, max_timestamp: i64) -> Result<()> {
        let options = &self.options;
        let header = Header {
            position: 0,
            base_offset: options.base_offset,
            batch_length: 0,
            partition_leader_epoch: options.partition_leader_epoch,
            magic: 2,
            crc: 0,
            attributes: options.attributes(),
            last_offset_delta: self.offset_delta(self.last_offset)?,
            base_timestamp: self.base_timestamp.unwrap_or(-1),
            max_timestamp,
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            records_count: Some(self.records_count),
        };
        if options.is_compressed() {
            let records = self.start + BATCH_OVERHEAD;
            let codec = options.codec;
            let uncompressed = self.uncompressed_size();
            let compressed = self
                .compressor
                .compressed(codec, 2, self.room.written(records))?;
            self.room.truncate(records);
            self.room.next(compressed.len()).copy_from_slice(compressed);
            let length = compressed.len();
            self.observe(length, uncompressed);
        }
        header
            .seal(self.room.written_mut(self.start))
            .ok_or_else(no_room)
    }

    fn close_wrapper(&mut self, max_timestamp: i64) -> Result<()> {
        let options = &self.options;
        let uncompressed = self.uncompressed_size();
        let compressed = self.compressor.compressed(
            options.codec,
            options.magic,
            self.room.written(self.start),
        )?;
        let wrapper = NewMessage {
            magic: options.magic,
            attributes: options.attributes(),
            offset: self.last_offset,
            timestamp: max_timestamp,
            key: None,
            value: Some(compressed),
        };
        let size = wrapper.size()?;
        self.room.truncate(self.start);
        wrapper.write(self.room.next(size)).ok_or_else(no_room)?;
        let length = compressed.len();
        self.observe(length, uncompressed);
        Ok(())
    }

    /// In effect, and what Kafka calls the shallow offset of it.
    fn max_timestamp(&self) -> (i64, i64) {
        let options = &self.options;
        let is_one_entry = options.magic == 2 || options.is_compressed();
        match (options.timestamp_type, self.max_timestamp) {
            (TimestampType::LogAppendTime, _) if is_one_entry => {
                (options.log_append_time, self.last_offset)
            }
            (TimestampType::LogAppendTime, _) => (options.log_append_time, options.base_offset),
            (_, -1) => (-1, -1),
            (_, max) if is_one_entry => (max, self.last_offset),
            (_, max) => (max, self.offset_of_max_timestamp),
        }
    }

    /// Kafka's estimate rises at once and falls slowly: a batch over the limit costs more than one below it.
    fn observe(&mut self, compressed: usize, uncompressed: usize) {
        let observed = compressed as f32 / uncompressed.max(1) as f32;
        if observed > self.ratio {
            self.ratio = observed.max(self.ratio + 0.05);
        } else if observed < self.ratio {
            self.ratio = observed.max(self.ratio - 0.005);
        }
    }
}

/// Refuses a timestamp that no record has, in ms.
#[inline]
pub fn check_timestamp(timestamp: i64) -> Result<()> {
    if timestamp < -1 {
        return Err(Error::invalid(format!(
            "timestamp {timestamp}; -1 is the least, for none"
        )));
    }
    Ok(())
}

/// Refuses headers in a format that has none.
pub fn check_header_count(count: usize, magic: i8) -> Result<()> {
    if magic < 2 && count > 0 {
        return Err(Error::invalid(format!(
            "{count} headers in magic {magic}; only magic 2 has headers"
        )));
    }
    Ok(())
}

/// What so many bytes will be once they are compressed.
#[inline]
fn estimated(uncompressed: usize, ratio: f32) -> usize {
    (uncompressed as f32 * ratio * ESTIMATION_FACTOR) as usize
}

#[cold]
fn no_room() -> Error {
    Error::invalid(format!("the batch is larger than {MAX_BYTES} bytes"))
}
