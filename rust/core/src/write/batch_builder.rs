//! Builds one batch of records (Kafka's `MemoryRecordsBuilder`): a batch of magic 2, or messages of magic 0 and 1,
//! single or in a wrapper.
//!
//! Uncompressed batches are byte for byte the same as from Kafka's builder. A refused append leaves the batch
//! unchanged. Kafka's builder keeps some bytes of a refused append.
//!
//! The file is long because a batch is one state: appends change it and closing reads it.

use crate::base::error::{Error, Result};
use crate::base::scratch::ScratchBuffer;
use crate::format::batch::{BATCH_OVERHEAD, Header, TimestampType};
use crate::format::compression::{Codec, Compressor};
use crate::format::message::NewMessage;
use crate::format::record::{self, Headers, Record};
pub use crate::write::batch_options::BatchOptions;
use crate::write::fast_encode::{self, OpenBatch, PlainRow, PlainRows};

/// The maximum size of a batch. The length of a batch and its position in a segment are stored in 32 bits.
const MAX_BYTES: usize = i32::MAX as usize;

/// The factor by which Kafka's estimate of a compressed size exceeds the observed ratio.
const ESTIMATION_FACTOR: f32 = 1.05;

/// A record to be appended.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// The absolute offset.
    pub offset: i64,
    /// The timestamp, ms; -1 for none.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers; magic 0 and 1 have none.
    pub headers: Headers<'a>,
}

/// A closed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltBatch {
    /// Offset of the last record; one below the base offset if the batch is empty.
    pub last_offset: i64,
    /// The effective maximum, ms; -1 if no record has a timestamp.
    pub max_timestamp: i64,
    /// The offset that Kafka reports with the max timestamp. It is the last offset, except in uncompressed batches of
    /// magic 0 and 1. For these, it is the offset of the first record with that timestamp (under LogAppendTime, the
    /// base offset). -1 if there is no timestamp.
    pub shallow_offset_of_max_timestamp: i64,
    /// Size in bytes; 0 without records.
    pub size: usize,
}

/// Builds one batch after another in the same memory.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    compressor: Compressor,
    options: BatchOptions,
    /// The closed batches, then the open one.
    buffer: ScratchBuffer,
    /// The position at which the open batch starts.
    start: usize,
    records_count: i32,
    last_offset: i64,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    offset_of_max_timestamp: i64,
    /// The compressed size of recent batches of this codec, as a share of the uncompressed size
    /// (`CompressionRatioEstimator`).
    ratio: f32,
}

impl BatchBuilder {
    /// Allocates nothing until it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a batch, and discards one that was not finished.
    pub fn begin(&mut self, options: BatchOptions) -> Result<()> {
        options.check()?;
        if self.ratio == 0.0 || options.codec.compression != self.options.codec.compression {
            self.ratio = 1.0;
        }
        self.options = options;
        self.buffer.truncate(self.start);
        // A batch's header has a fixed size. A wrapper's header is sized when its value is known.
        if options.magic == 2 {
            self.buffer.next(BATCH_OVERHEAD);
        }
        self.records_count = 0;
        self.last_offset = options.base_offset.wrapping_sub(1);
        self.base_timestamp = (options.delete_horizon_ms >= 0).then_some(options.delete_horizon_ms);
        self.max_timestamp = -1;
        self.offset_of_max_timestamp = -1;
        Ok(())
    }

    /// The number of records.
    pub fn count(&self) -> i32 {
        self.records_count
    }

    /// Returns the offset of the last record; one below the base offset if the batch is empty.
    pub(crate) fn last_offset(&self) -> i64 {
        self.last_offset
    }

    /// The size of the batch if it were closed now: exact if uncompressed, otherwise Kafka's estimate.
    pub fn size_in_bytes(&self) -> usize {
        let records = self.uncompressed_size();
        let records = if self.options.is_compressed() {
            estimated(records, self.ratio)
        } else {
            records
        };
        self.options.header_size() + records
    }

    /// Returns true if Kafka would add the record to this batch. The first record always fits. A further record fits if
    /// the batch, with this record uncompressed, takes at most `limit` bytes. `record` must follow the last one.
    pub fn has_room_for(&self, record: &NewRecord<'_>, limit: usize) -> bool {
        // An invalid record is refused by the append, with a reason.
        self.record_size(record)
            .map_or(true, |size| self.has_room(size, limit))
    }

    /// Appends a record. Its offset must be above the offset of the last record.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<()> {
        self.append_within(record, usize::MAX).map(drop)
    }

    /// Appends a record if it fits ([`Self::has_room_for`]); returns whether it did.
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

    /// Appends plain rows from `first` on while they fit ([`Self::has_room_for`]) and the batch has at most `max_count`
    /// records. Offsets continue from the last record, which the batch must have. Returns the number of rows.
    pub(crate) fn append_plain(
        &mut self,
        rows: &PlainRows<'_>,
        first: usize,
        limit: usize,
        max_count: i32,
    ) -> usize {
        let Some(mut batch) = self.open_batch() else {
            return 0;
        };
        let most = max_count.saturating_sub(self.records_count).max(0) as usize;
        let is_compressed = self.options.is_compressed();
        let (ratio, left) = (self.ratio, left_for_records(limit));
        let room = self.buffer.spare(fast_encode::SCRATCH_BYTES);
        let taken = if is_compressed {
            let has_room = |records, size| has_room_compressed(records, size, ratio, limit);
            fast_encode::append(rows, first, most, room, &mut batch, has_room)
        } else {
            let has_room = |records, size| records + size <= left;
            fast_encode::append(rows, first, most, room, &mut batch, has_room)
        };
        self.take_over(&batch, taken as i32);
        taken
    }

    /// Appends a row as [`Self::append_plain`] does, and returns whether it did.
    #[inline]
    pub(crate) fn append_plain_row(
        &mut self,
        row: &PlainRow<'_>,
        limit: usize,
        max_count: i32,
    ) -> bool {
        let Some(mut batch) = self.open_batch() else {
            return false;
        };
        let is_compressed = self.options.is_compressed();
        let (ratio, left) = (self.ratio, left_for_records(limit));
        let has_room = |records, size| match is_compressed {
            true => has_room_compressed(records, size, ratio, limit),
            false => records + size <= left,
        };
        let room = self.buffer.spare(fast_encode::ROW_BYTES);
        let is_taken = self.records_count < max_count
            && fast_encode::append_row(row, room, &mut batch, has_room);
        if is_taken {
            self.take_over(&batch, 1);
        }
        is_taken
    }

    /// The open batch, if plain rows may follow its last record.
    #[inline]
    fn open_batch(&self) -> Option<OpenBatch> {
        (self.options.magic == 2).then_some(OpenBatch {
            records: self.uncompressed_size(),
            offset_delta: self.offset_delta(self.last_offset).ok()?,
            base_timestamp: self.base_timestamp?,
            max_timestamp: self.max_timestamp,
        })
    }

    /// Updates the builder after rows were appended to `batch`: its size, record count, last offset and max timestamp.
    #[inline]
    fn take_over(&mut self, batch: &OpenBatch, taken: i32) {
        self.buffer.fill(batch.records - self.uncompressed_size());
        self.records_count += taken;
        self.last_offset += i64::from(taken);
        self.max_timestamp = batch.max_timestamp;
    }

    /// Sets the last offset of the batch beyond its last record's: compaction drops records, but no offsets.
    pub fn override_last_offset(&mut self, last_offset: i64) -> Result<()> {
        self.offset_delta(last_offset)?;
        self.last_offset = last_offset;
        Ok(())
    }

    /// Closes the batch and appends it to `out`; appends nothing if it has no records. After this, begin the next
    /// batch.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<BuiltBatch> {
        let start = self.start;
        let built = self.close()?;
        out.extend_from_slice(self.buffer.written(start));
        self.buffer.shrink();
        self.buffer.truncate(start);
        self.start = self.buffer.len();
        Ok(built)
    }

    /// Discards all batches that were not taken.
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.records_count = 0;
        self.buffer.truncate(0);
    }

    /// Takes the closed batches: their memory, and the number of bytes that they fill in it. The builder then uses the
    /// memory `spare`.
    pub(crate) fn take(&mut self, spare: Vec<u8>) -> (Vec<u8>, usize) {
        self.buffer.truncate(self.start);
        self.start = 0;
        self.records_count = 0;
        std::mem::replace(&mut self.buffer, ScratchBuffer::new(spare)).into_parts()
    }

    /// Closes the batch in place. The next one follows it.
    pub(crate) fn close(&mut self) -> Result<BuiltBatch> {
        self.options.check_producer()?;
        let (max_timestamp, shallow_offset_of_max_timestamp) = self.max_timestamp();
        if self.records_count == 0 {
            self.buffer.truncate(self.start);
        } else if self.options.magic == 2 {
            self.close_batch(max_timestamp)?;
        } else if self.options.is_compressed() {
            self.close_wrapper(max_timestamp)?;
        }
        let built = BuiltBatch {
            last_offset: self.last_offset,
            max_timestamp,
            shallow_offset_of_max_timestamp,
            size: self.buffer.len() - self.start,
        };
        self.start = self.buffer.len();
        self.records_count = 0;
        Ok(built)
    }

    #[inline]
    fn check(&self, record: &NewRecord<'_>) -> Result<()> {
        if self.records_count > 0 && record.offset <= self.last_offset {
            return Err(Error::invalid(format!(
                "offset {} after offset {}; offsets must increase",
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
        record::write(room, &record_of_batch, body_size).ok_or_else(batch_too_large)?;
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
        message.write(room).ok_or_else(batch_too_large)?;
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

    /// Returns room for `size` more bytes of this batch.
    #[inline]
    fn next(&mut self, size: usize) -> Result<&mut [u8]> {
        if size > MAX_BYTES - (self.buffer.len() - self.start).min(MAX_BYTES) {
            return Err(Error::invalid(format!(
                "a record of {size} bytes makes the batch larger than {MAX_BYTES} bytes"
            )));
        }
        Ok(self.buffer.next(size))
    }

    fn uncompressed_size(&self) -> usize {
        let header = if self.options.magic == 2 {
            BATCH_OVERHEAD
        } else {
            0
        };
        (self.buffer.len() - self.start).saturating_sub(header)
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
                .compressed(codec, 2, self.buffer.written(records))?;
            self.buffer.truncate(records);
            self.buffer
                .next(compressed.len())
                .copy_from_slice(compressed);
            let length = compressed.len();
            self.observe(length, uncompressed);
        }
        header
            .seal(self.buffer.written_mut(self.start))
            .ok_or_else(batch_too_large)
    }

    fn close_wrapper(&mut self, max_timestamp: i64) -> Result<()> {
        let options = &self.options;
        let uncompressed = self.uncompressed_size();
        let compressed = self.compressor.compressed(
            options.codec,
            options.magic,
            self.buffer.written(self.start),
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
        self.buffer.truncate(self.start);
        wrapper
            .write(self.buffer.next(size))
            .ok_or_else(batch_too_large)?;
        let length = compressed.len();
        self.observe(length, uncompressed);
        Ok(())
    }

    /// The effective max timestamp, and Kafka's shallow offset of it.
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

    /// As in Kafka, the estimate rises immediately and falls slowly, because a batch above the limit costs more than a
    /// batch below it.
    fn observe(&mut self, compressed: usize, uncompressed: usize) {
        let observed = compressed as f32 / uncompressed.max(1) as f32;
        if observed > self.ratio {
            self.ratio = observed.max(self.ratio + 0.05);
        } else if observed < self.ratio {
            self.ratio = observed.max(self.ratio - 0.005);
        }
    }
}

/// Refuses timestamps (ms) that no record can have.
#[inline]
pub fn check_timestamp(timestamp: i64) -> Result<()> {
    if timestamp < -1 {
        return Err(Error::invalid(format!(
            "timestamp {timestamp} is below -1, which stands for none"
        )));
    }
    Ok(())
}

/// Refuses headers in magic 0 and 1.
pub fn check_header_count(count: usize, magic: i8) -> Result<()> {
    if magic < 2 && count > 0 {
        return Err(Error::invalid(format!(
            "{count} headers in magic {magic}; only magic 2 has headers"
        )));
    }
    Ok(())
}

/// The bytes of records that a plain batch within `limit` may have.
#[inline]
fn left_for_records(limit: usize) -> usize {
    limit.min(MAX_BYTES).saturating_sub(BATCH_OVERHEAD)
}

/// Returns true if a compressed batch with `records` bytes of records has room for `size` more.
#[inline]
fn has_room_compressed(records: usize, size: usize, ratio: f32, limit: usize) -> bool {
    let so_far = BATCH_OVERHEAD + estimated(records, ratio);
    so_far < limit && so_far + size <= limit && records + size < MAX_BYTES
}

/// The estimated compressed size of `uncompressed` bytes.
#[inline]
fn estimated(uncompressed: usize, ratio: f32) -> usize {
    (uncompressed as f32 * ratio * ESTIMATION_FACTOR) as usize
}

#[cold]
fn batch_too_large() -> Error {
    Error::invalid(format!("the batch is larger than {MAX_BYTES} bytes"))
}
