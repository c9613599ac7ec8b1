//! Encodes records as batches. A batch ends at the limits that a producer has, or where the fields of the records
//! require it.

use crate::base::error::{Error, Result};
use crate::format::batch::{TimestampType, increment_sequence};
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};
use crate::write::fast_encode::{PlainRow, PlainRows};

/// The limits at which a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// The size in bytes. A batch ends before the record that would exceed it, by the builder's estimate. The first
    /// record always fits.
    pub batch_size: usize,
    /// The maximum number of records in a batch.
    pub max_records: i32,
}

/// Fields that a record had in the log it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFields {
    /// None or a negative number: use the leader epoch of the options.
    pub leader_epoch: Option<i32>,
    /// The timestamp type; None: use the type of the options.
    pub timestamp_type: Option<TimestampType>,
}

/// Writes successive batches into one buffer.
#[derive(Debug)]
pub struct BatchWriter {
    builder: BatchBuilder,
    options: BatchOptions,
    limits: BatchLimits,
    /// The options of the open batch.
    open: Option<BatchOptions>,
    last_offset: i64,
    next_sequence: i32,
    /// The sequence to return to if these batches are discarded.
    first_sequence: i32,
}

impl BatchWriter {
    /// `options` are the options of every batch, except for the fields that records have. Sequences continue from batch
    /// to batch.
    pub fn new(options: BatchOptions, limits: BatchLimits) -> Result<Self> {
        options.check()?;
        options.check_producer()?;
        if limits.max_records < 1 {
            return Err(Error::invalid(format!(
                "max_records is {}; it must be at least 1",
                limits.max_records
            )));
        }
        Ok(Self {
            builder: BatchBuilder::new(),
            options,
            limits,
            open: None,
            last_offset: options.base_offset,
            next_sequence: options.base_sequence,
            first_sequence: options.base_sequence,
        })
    }

    /// The sequence of the next record; -1 without a producer.
    pub fn next_sequence(&self) -> i32 {
        self.next_sequence
    }

    /// Writes a record whose offset is assigned later: each batch starts at the base offset of the options, and the
    /// offset in `record` is ignored.
    #[inline]
    pub fn push(&mut self, mut record: NewRecord<'_>) -> Result<()> {
        if self.open.is_some() {
            record.offset = self.last_offset.wrapping_add(1);
            if self.append(&record)? {
                return Ok(());
            }
        }
        self.begin(self.options)?;
        record.offset = self.options.base_offset;
        self.append(&record)?;
        Ok(())
    }

    /// Writes plain rows from `first` on, as many as fit into the open batch. Returns the number of rows. Pass the next
    /// row to [`Self::push`].
    pub fn push_plain(&mut self, rows: &PlainRows<'_>, first: usize) -> usize {
        if self.open.is_none() {
            return 0;
        }
        let BatchLimits {
            batch_size,
            max_records,
        } = self.limits;
        let taken = self
            .builder
            .append_plain(rows, first, batch_size, max_records);
        self.last_offset = self.last_offset.wrapping_add(taken as i64);
        taken
    }

    /// Writes a plain row if it fits into the open batch, and returns whether it does. Otherwise, pass the row to
    /// [`Self::push`].
    #[inline]
    pub fn push_plain_row(&mut self, row: &PlainRow<'_>) -> bool {
        let limits = self.limits;
        let is_taken = self.open.is_some()
            && self
                .builder
                .append_plain_row(row, limits.batch_size, limits.max_records);
        self.last_offset = self.last_offset.wrapping_add(i64::from(is_taken));
        is_taken
    }

    /// Writes a record that keeps its offset. A batch ends where the leader epoch, the timestamp type or the broker's
    /// timestamp changes, and where the offset is too far from the base offset.
    pub fn push_at(&mut self, record: &NewRecord<'_>, source: SourceFields) -> Result<()> {
        if record.offset < 0 {
            return Err(Error::invalid(format!(
                "offset {} is negative",
                record.offset
            )));
        }
        let options = self.options_at(record, source)?;
        if let Some(open) = self.open {
            if record.offset <= self.last_offset {
                return Err(Error::invalid(format!(
                    "offset {} after offset {}; offsets must increase",
                    record.offset, self.last_offset
                )));
            }
            let is_alike = options.partition_leader_epoch == open.partition_leader_epoch
                && options.timestamp_type == open.timestamp_type
                && options.log_append_time == open.log_append_time;
            let is_near = record.offset - open.base_offset <= i64::from(i32::MAX);
            if is_alike && is_near && self.append(record)? {
                return Ok(());
            }
        }
        self.begin(options)?;
        self.append(record)?;
        Ok(())
    }

    /// Closes the last batch and takes all batches: their memory, and the number of bytes that they fill in it. The
    /// writer then uses the memory `spare`.
    pub fn finish(&mut self, spare: Vec<u8>) -> Result<(Vec<u8>, usize)> {
        self.close()?;
        self.first_sequence = self.next_sequence;
        Ok(self.builder.take(spare))
    }

    /// Discards the batches that were not taken, and releases their sequences.
    pub fn discard(&mut self) {
        self.builder.clear();
        self.open = None;
        self.next_sequence = self.first_sequence;
    }

    fn options_at(&self, record: &NewRecord<'_>, source: SourceFields) -> Result<BatchOptions> {
        let mut options = BatchOptions {
            base_offset: record.offset,
            partition_leader_epoch: source
                .leader_epoch
                .filter(|&epoch| epoch >= 0)
                .unwrap_or(self.options.partition_leader_epoch),
            ..self.options
        };
        if let Some(timestamp_type) = source.timestamp_type {
            timestamp_type.check_magic(options.magic)?;
            // As in Kafka's own conversion: a message without a timestamp gets the producer's, which is -1.
            let timestamp_type = match timestamp_type {
                TimestampType::NoTimestampType if options.magic > 0 => TimestampType::CreateTime,
                other => other,
            };
            options.timestamp_type = timestamp_type;
            options.log_append_time = match timestamp_type {
                TimestampType::LogAppendTime => record.timestamp,
                _ => -1,
            };
        }
        Ok(options)
    }

    #[inline]
    fn append(&mut self, record: &NewRecord<'_>) -> Result<bool> {
        if self.builder.count() >= self.limits.max_records
            || !self.builder.append_within(record, self.limits.batch_size)?
        {
            return Ok(false);
        }
        self.last_offset = record.offset;
        Ok(true)
    }

    #[cold]
    fn begin(&mut self, options: BatchOptions) -> Result<()> {
        self.close()?;
        let options = BatchOptions {
            base_sequence: self.next_sequence,
            ..options
        };
        self.builder.begin(options)?;
        self.open = Some(options);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let built = self.builder.close()?;
            // Sequences follow offset deltas, not records.
            let offsets = built.last_offset - open.base_offset + 1;
            if self.next_sequence >= 0 && built.size > 0 {
                self.next_sequence = increment_sequence(self.next_sequence, offsets as i32);
            }
        }
        Ok(())
    }
}
