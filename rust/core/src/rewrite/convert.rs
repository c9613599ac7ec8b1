//! Converts batches of one magic and codec to batches of another. Offsets never change.
//!
//! A batch that already has the requested form stays byte for byte. If only the codec changes (magic 2), the unchanged
//! records are compressed anew. For another magic, new batches of the same records are built, as Kafka's own
//! conversions build them:
//!
//! - Up, as on produce (`LogValidator`) and in the cleaner (`MemoryRecords.filterTo`): a wrapper becomes one batch, single
//!   messages are grouped, missing timestamps of magic 0 are -1, there is no producer, and the leader epoch is 0.
//! - Down, as for old consumers (`RecordsUtil.downConvert`): uncompressed records become one message each, compressed ones
//!   one wrapper at the offset of the last record.
//!
//! Kafka's down-conversion silently loses headers, producers and transactions, and so makes aborted records visible.
//! Here such a loss is refused unless it is requested. If the loss of producers is requested, aborted and undecided
//! records are dropped with their markers.

mod config;
mod group;
mod losses;
mod segment_converter;

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header, TimestampType};
use crate::format::compression::{Codec, Compression, Compressor, Decompressor};
use crate::format::message;
use crate::format::record;
use crate::format::walk;
use crate::read::fetch::{AbortedTransaction, Selection};
use crate::rewrite::rewriter::Rewrite;
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};
use crate::write::transcode;

pub use config::{Conversion, Converted};
use group::BatchGroup;
use losses::FieldLosses;
pub use segment_converter::SegmentConverter;

/// The size up to which single messages are grouped into one batch: the default `batch.size` of producers.
pub const DEFAULT_BATCH_SIZE: usize = 16384;

/// Converts one entry after another, in memory that is reused.
#[derive(Debug)]
pub struct Converter {
    conversion: Conversion,
    transactions: Selection,
    last_stable_offset: i64,
    log_end_offset: i64,
    /// The offset after the last entry.
    next_offset: i64,
    converted: Converted,
    group: Option<BatchGroup>,
    /// The first entry of the group, unchanged, until a second entry joins.
    group_first_entry: Vec<u8>,
    codecs: Codecs,
}

/// The codecs that decompress, compress and build batches.
#[derive(Debug)]
struct Codecs {
    decompressor: Decompressor,
    compressor: Compressor,
    builder: BatchBuilder,
}

/// The change that a single entry needs to match the requested form.
enum Change {
    /// No change.
    None,
    /// Another leader epoch in its header.
    LeaderEpoch,
    /// The same batch with other compression, or with other header fields only.
    Recompress { keeps_records: bool },
    /// A new batch, or new messages, of the same records.
    Rebuild,
}

impl Converter {
    /// `aborted` and `last_stable_offset` are those of the log. They are used if producers are dropped. All entries lie
    /// below `log_end_offset`. `max_batch_bytes` caps the decompressed size of one batch.
    pub fn new(
        conversion: Conversion,
        aborted: &[AbortedTransaction],
        last_stable_offset: i64,
        log_end_offset: i64,
        max_batch_bytes: usize,
    ) -> Result<Self> {
        conversion.check()?;
        Ok(Self {
            conversion,
            transactions: Selection::new(aborted),
            last_stable_offset,
            log_end_offset,
            next_offset: 0,
            converted: Converted::default(),
            group: None,
            group_first_entry: Vec::new(),
            codecs: Codecs {
                decompressor: Decompressor::new(max_batch_bytes),
                compressor: Compressor::new(),
                builder: BatchBuilder::new(),
            },
        })
    }

    /// Returns the counts since the start, or since [`Self::take_converted`].
    pub fn converted(&self) -> Converted {
        self.converted
    }

    /// Returns the counts and restarts them.
    fn take_converted(&mut self) -> Converted {
        std::mem::take(&mut self.converted)
    }

    /// Returns true if the result depends on this entry alone. Any converter with the same options can then call
    /// [`Self::convert_independent`], while this one calls [`Self::advance`].
    fn is_independent(&self, header: &Header) -> bool {
        let becomes_batch = self.conversion.magic.unwrap_or(header.magic) == 2;
        let is_single_message =
            header.magic < 2 && header.compression().ok() == Some(Compression::None);
        let (may_join, may_drop) = (
            self.conversion.batch_size.is_some(),
            self.conversion.drop_producers,
        );
        becomes_batch && !is_single_message && !may_join && !may_drop && self.group.is_none()
    }

    /// Converts an independent entry and appends the result to `out`. Returns true if the entry is unchanged and
    /// nothing was appended.
    fn convert_independent(
        &mut self,
        header: &Header,
        entry: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let header = &self.with_required_epoch(header);
        self.converted.batches += 1;
        header
            .check_crc(entry)
            .map_err(|error| header.locate(error))?;
        self.convert_single(header, entry, out)
    }

    /// The header with a valid leader epoch, if messages become a batch or magic 2 is requested.
    fn with_required_epoch(&self, header: &Header) -> Header {
        match header.magic < 2 || self.conversion.magic == Some(2) {
            true => header.with_valid_leader_epoch(),
            false => *header,
        }
    }

    /// Moves past an entry; refuses one that is out of place (see [`Self::offset_after`]).
    fn advance(&mut self, header: &Header) -> Result<()> {
        self.next_offset = self.offset_after(header, self.next_offset)?;
        Ok(())
    }

    /// Returns the offset after an entry; refuses one that begins below `next_offset` or reaches the log's end.
    ///
    /// No checksum covers the base offset, which decides which entries are dropped. Because of this check, a damaged
    /// base offset drops no records.
    fn offset_after(&self, header: &Header, next_offset: i64) -> Result<i64> {
        walk::check_offset(header, next_offset).map_err(|error| header.locate(error))?;
        let last = header.last_offset().max(header.base_offset);
        if !walk::is_before(last, self.log_end_offset) {
            return Err(header.locate(Error::corrupt(format!(
                "offset {last} is not below {}, where the log ends",
                self.log_end_offset
            ))));
        }
        Ok(last.saturating_add(1))
    }

    /// Returns true if the entry is dropped with its producer. Fails if it must be dropped and the options do not allow
    /// that.
    fn is_dropped(&mut self, header: &Header, entry: &[u8]) -> Result<bool> {
        let magic = self.conversion.magic.unwrap_or(header.magic);
        if magic == 2 && !self.conversion.drop_producers {
            return Ok(false);
        }
        let has_producer = has_producer(header);
        if !self.conversion.drop_producers {
            let what = match header.is_control() {
                true => "is a control batch".to_owned(),
                false if has_producer => format!("is of producer {}", header.producer_id),
                false => return Ok(false),
            };
            return Err(Error::invalid(format!(
                "the batch at offset {} {what}, which magic {magic} cannot store: drop producers, and with them markers, \
                 aborted and undecided records, or keep magic 2",
                header.base_offset
            )));
        }
        if header.is_control() {
            self.converted.control_batches += 1;
            return Ok(true);
        }
        let is_undecided = !walk::is_before(header.last_offset(), self.last_stable_offset);
        if !is_undecided && !self.transactions.is_aborted(header) {
            self.converted.producers += u64::from(has_producer);
            return Ok(false);
        }
        let records = transcode::count(header, entry, &mut self.codecs.decompressor)
            .map_err(|error| header.locate(error))?;
        match is_undecided {
            true => self.converted.undecided += records,
            false => self.converted.aborted += records,
        }
        Ok(true)
    }

    /// Converts one entry by itself and appends the result to `out`. Returns true if the entry is unchanged and nothing
    /// was appended.
    fn convert_single(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let is_changed = self
            .change_single(header, entry, out)
            .map_err(|error| header.locate(error))?;
        self.converted.changed += u64::from(is_changed);
        Ok(!is_changed)
    }

    /// Appends the changed entry to `out`; false if the entry stays unchanged.
    fn change_single(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let options = self.options(header)?;
        match self.change(header, entry, &options)? {
            Change::None => return Ok(false),
            Change::LeaderEpoch => {
                let start = out.len();
                out.extend_from_slice(entry);
                let mut header = *header;
                header.write_changes(out.get_mut(start..).unwrap_or_default(), false);
            }
            Change::Recompress { keeps_records } => {
                let mut header = *header;
                if self.conversion.drop_producers {
                    header.drop_producer();
                }
                self.codecs
                    .recompress(header, entry, options.codec, keeps_records, out)?;
            }
            Change::Rebuild => self.rebuild(header, entry, options, out)?,
        }
        Ok(true)
    }

    fn change(&self, header: &Header, entry: &[u8], options: &BatchOptions) -> Result<Change> {
        let keeps_records = options.codec.compression == header.compression()?
            && !(self.conversion.recompress && options.is_compressed());
        let is_kept = keeps_records && !(self.conversion.drop_producers && has_producer(header));
        if options.magic != header.magic || header.magic < 2 && !is_kept {
            return Ok(Change::Rebuild);
        }
        let is_empty_with_payload = header.records_count == Some(0) && entry.len() > BATCH_OVERHEAD;
        if is_empty_with_payload || !is_kept && !header.is_control() {
            return Ok(Change::Recompress { keeps_records });
        }
        let stored = Header::parse(entry, header.position)?;
        let has_other_epoch = |stored: Header| {
            stored.magic == 2 && stored.partition_leader_epoch != header.partition_leader_epoch
        };
        Ok(match stored.is_some_and(has_other_epoch) {
            true => Change::LeaderEpoch,
            false => Change::None,
        })
    }

    /// Appends a new batch, or new messages, of the entry's records to `out`.
    fn rebuild(
        &mut self,
        header: &Header,
        entry: &[u8],
        options: BatchOptions,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut base_offset = None;
        let mut losses = FieldLosses::of(&self.conversion, &mut self.converted, options.magic);
        self.codecs.append(header, entry, |builder, record| {
            if base_offset.is_none() {
                base_offset = Some(record.offset);
                builder.begin(BatchOptions {
                    base_offset: record.offset,
                    ..options
                })?;
            }
            builder.append(&losses.record(record)?)
        })?;
        match base_offset {
            Some(_) => self.codecs.close(options.magic, header.last_offset(), out),
            None => Ok(()),
        }
    }

    /// The options of the converted batch. If the magic changes, the base offset is set later.
    fn options(&self, header: &Header) -> Result<BatchOptions> {
        let magic = self.conversion.magic.unwrap_or(header.magic);
        let codec = match self.conversion.codec {
            Some(codec) => codec,
            None => Codec {
                compression: header.compression()?,
                level: None,
            },
        };
        if magic < 2 && codec.compression == Compression::Zstd {
            return Err(Error::invalid(format!(
                "the batch at offset {} is compressed with zstd, which magic {magic} does not support: use another codec",
                header.base_offset
            )));
        }
        let options = BatchOptions {
            magic,
            codec,
            timestamp_type: match header.timestamp_type() {
                TimestampType::NoTimestampType => TimestampType::CreateTime,
                known => known,
            },
            log_append_time: header.log_append_time().unwrap_or(-1),
            base_offset: header.base_offset,
            ..BatchOptions::default()
        };
        if magic < 2 {
            return Ok(options);
        }
        let options = BatchOptions {
            partition_leader_epoch: header.partition_leader_epoch,
            is_control: header.is_control(),
            delete_horizon_ms: header.delete_horizon_ms().unwrap_or(-1),
            ..options
        };
        if self.conversion.drop_producers {
            return Ok(options);
        }
        Ok(BatchOptions {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            is_transactional: header.is_transactional(),
            ..options
        })
    }
}

fn has_producer(header: &Header) -> bool {
    header.producer_id >= 0 || header.is_transactional()
}

impl Rewrite for Converter {
    fn entry(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let header = &self.with_required_epoch(header);
        self.converted.batches += 1;
        header
            .check_crc(entry)
            .map_err(|error| header.locate(error))?;
        let next_offset = self.next_offset;
        self.advance(header)?;
        if header.magic < 2 && self.conversion.magic.unwrap_or(header.magic) < 2 {
            // If it becomes a batch, its new header is checked.
            message::first_offset(header, entry, &mut self.codecs.decompressor)
                .and_then(|first| walk::check_first_offset(first, next_offset))
                .map_err(|error| header.locate(error))?;
        }
        if self.is_dropped(header, entry)? {
            self.converted.changed += 1;
            return Ok(false);
        }
        if self.join(header, entry, out)? {
            return Ok(false);
        }
        self.finish(out)?;
        self.convert_single(header, entry, out)
    }

    /// Closes the group, because no batch crosses the end of a segment.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        if group.sources > 1 {
            self.converted.changed += group.sources;
            return self
                .codecs
                .close(group.options.magic, group.last_offset, out)
                .map_err(|error| group.first.locate(error));
        }
        let entry = std::mem::take(&mut self.group_first_entry);
        if self.convert_single(&group.first, &entry, out)? {
            out.extend_from_slice(&entry);
        }
        self.group_first_entry = entry;
        Ok(())
    }
}

impl Codecs {
    /// Calls `append` with the builder and each record.
    fn append(
        &mut self,
        header: &Header,
        entry: &[u8],
        mut append: impl FnMut(&mut BatchBuilder, NewRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let builder = &mut self.builder;
        transcode::for_each(header, entry, &mut self.decompressor, true, |record| {
            append(builder, record)
        })
    }

    /// Appends the builder's batch to `out`. The headers of its sources determine the last offset of a batch of magic
    /// 2, because the cleaner may have dropped the last record. A wrapper with offset 0 is ignored for this.
    fn close(&mut self, magic: i8, last_offset: i64, out: &mut Vec<u8>) -> Result<()> {
        if magic == 2 && last_offset > self.builder.last_offset() {
            self.builder.override_last_offset(last_offset)?;
        }
        self.builder.finish(out).map(drop)
    }

    /// Appends a batch of magic 2, its records recompressed or kept. In the header, only length, codec and checksum
    /// change.
    fn recompress(
        &mut self,
        mut header: Header,
        entry: &[u8],
        codec: Codec,
        keeps_records: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        let count = header.records_count.unwrap_or(0);
        let head = entry.get(..BATCH_OVERHEAD).unwrap_or_default();
        if count == 0 {
            // As the cleaner leaves empty batches: without a codec. Readers ignore what follows such a header.
            header.set_compression(Compression::None);
            out.extend_from_slice(head);
        } else if keeps_records {
            out.extend_from_slice(entry);
        } else {
            let payload = record::payload(&header, entry, &mut self.decompressor)?;
            record::for_each_outline(payload, count, |_| ())?;
            header.set_compression(codec.compression);
            out.extend_from_slice(head);
            self.compressor.compress(codec, 2, payload, out)?;
        }
        let sealed = out.get_mut(start..).and_then(|batch| header.seal(batch));
        sealed.ok_or_else(|| {
            out.truncate(start);
            Error::invalid("the converted batch is larger than 2147483647 bytes: use another codec")
        })
    }
}
