//! Records to batches, cut as a producer cuts them or at the places where they were cut before.

use crate::base::error::{Error, Result};
use crate::format::batch::{TimestampType, increment_sequence};
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};
use crate::write::fast_encode::PlainRows;

/// Where a batch ends and the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// A batch closes before the record that would make it larger, by the builder's estimate. The first always fits.
    pub batch_size: usize,
    /// And after so many records.
    pub max_records: i32,
}

/// What a record had where it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFields {
    /// None or negative: that of the options.
    pub leader_epoch: Option<i32>,
    /// Who set the timestamp; None: as the options say.
    pub timestamp_type: Option<TimestampType>,
}

/// Writes batch after batch into one memory.
#[derive(Debug)]
pub struct BatchWriter {
    builder: BatchBuilder,
    options: BatchOptions,
    cut: BatchLimits,
    /// Of the batch being built.
    open: Option<BatchOptions>,
    last_offset: i64,
    next_sequence: i32,
    /// The sequence to go back to if these batches come to nothing.
    first_sequence: i32,
}

impl BatchWriter {
    /// `options` are those of every batch, but for what records bring themselves; sequences go on from batch to batch.
    pub fn new(options: BatchOptions, cut: BatchLimits) -> Result<Self> {
        options.check()?;
        options.check_producer()?;
        if cut.max_records < 1 {
            return Err(Error::invalid(format!(
                "max_records {}; a batch holds at least one",
                cut.max_records
            )));
        }
        Ok(Self {
            builder: BatchBuilder::new(),
            options,
            cut,
            open: None,
            last_offset: options.base_offset,
            next_sequence: options.base_sequence,
            first_sequence: options.base_sequence,
        })
    }

    /// The sequence that the next record will have; -1 without a producer.
    pub fn next_sequence(&self) -> i32 {
        self.next_sequence
    }

    /// A record for whoever assigns offsets: each batch starts at the base offset of the options, whatever `record` says.
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

    /// The same of plain rows from `first` on, as many as go into the batch being built; returns how many. The next is for
    /// [`Self::push`].
    pub fn push_plain(&mut self, rows: &PlainRows<'_>, first: usize) -> usize {
        if self.open.is_none() {
            return 0;
        }
        let BatchLimits {
            batch_size,
            max_records,
        } = self.cut;
        let taken = self
            .builder
            .append_plain(rows, first, batch_size, max_records);
        self.last_offset = self.last_offset.wrapping_add(taken as i64);
        taken
    }

    /// A record that keeps its offset. A new batch begins where its leader epoch or its timestamp type is another one,
    /// where the broker's time is, and where its offset is too far from the base offset.
    pub fn push_at(&mut self, record: &NewRecord<'_>, place: SourceFields) -> Result<()> {
        if record.offset < 0 {
            return Err(Error::invalid(format!("offset {}", record.offset)));
        }
        let options = self.options_at(record, place)?;
        if let Some(open) = self.open {
            if record.offset <= self.last_offset {
                return Err(Error::invalid(format!(
                    "offset {} after offset {}; offsets must rise",
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

    /// Ends the last batch and hands out all: memory, and how much of it the batches fill. Goes on with `spare`.
    pub fn finish(&mut self, spare: Vec<u8>) -> Result<(Vec<u8>, usize)> {
        self.close()?;
        self.first_sequence = self.next_sequence;
        Ok(self.builder.take(spare))
    }

    /// Forgets what was not handed out, and the sequences it had.
    pub fn discard(&mut self) {
        self.builder.clear();
        self.open = None;
        self.next_sequence = self.first_sequence;
    }

    fn options_at(&self, record: &NewRecord<'_>, place: SourceFields) -> Result<BatchOptions> {
        let mut options = BatchOptions {
            base_offset: record.offset,
            partition_leader_epoch: place
                .leader_epoch
                .filter(|&epoch| epoch >= 0)
                .unwrap_or(self.options.partition_leader_epoch),
            ..self.options
        };
        if let Some(timestamp_type) = place.timestamp_type {
            timestamp_type.check_magic(options.magic)?;
            // As Kafka's own conversion has it: a message without a timestamp is one of the producer's, which is -1.
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
        if self.builder.count() >= self.cut.max_records
            || !self.builder.append_within(record, self.cut.batch_size)?
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
