//! Batches of one magic and codec to batches of another. Offsets never change.
//!
//! What is asked for already stays as it is, byte for byte. Another codec alone (magic 2) moves the records as they are into
//! another compressed block. Another magic means new batches of the same records, as Kafka's own conversions make them:
//!
//! - up, as on produce (`LogValidator`) and in the cleaner (`MemoryRecords.filterTo`): a wrapper becomes one batch, messages
//!   that stand alone are grouped, timestamps that magic 0 lacks are -1, there is no producer; the leader epoch is 0;
//! - down, as for old consumers (`RecordsUtil.downConvert`): uncompressed records become a message each, others one wrapper
//!   at the offset of the last record.
//!
//! Kafka's down-conversion loses headers, producers and transactions without a word, and so turns aborted records into
//! ordinary ones. Here it is refused unless asked for, and then aborted and undecided records go with their markers.

mod config;
mod group;
mod losses;

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

/// Messages that stand alone come into one batch up to this: what a producer sends at once unless told otherwise
/// (`batch.size`).
pub const DEFAULT_BATCH_SIZE: usize = 16384;

/// A converter, and its scratch memory.
#[derive(Debug)]
pub struct Converter {
    conversion: Conversion,
    transactions: Selection,
    last_stable_offset: i64,
    log_end_offset: i64,
    /// After the last entry.
    next_offset: i64,
    converted: Converted,
    group: Option<BatchGroup>,
    /// The first entry of the group, as long as it is alone.
    alone: Vec<u8>,
    codecs: Codecs,
}

/// What makes the new bytes.
#[derive(Debug)]
struct Codecs {
    decompressor: Decompressor,
    compressor: Compressor,
    builder: BatchBuilder,
}

impl Converter {
    /// `aborted` and `last_stable_offset` are the log's: they matter where producers are dropped. So is `log_end_offset`,
    /// below which all entries are. `max_batch_bytes` is the most that one batch may decompress to.
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
            alone: Vec::new(),
            codecs: Codecs {
                decompressor: Decompressor::new(max_batch_bytes),
                compressor: Compressor::new(),
                builder: BatchBuilder::new(),
            },
        })
    }

    /// What was done so far, or since it was taken.
    pub fn converted(&self) -> Converted {
        self.converted
    }

    /// The same, and begin to count anew.
    pub fn take_converted(&mut self) -> Converted {
        std::mem::take(&mut self.converted)
    }

    /// Whether what becomes of the entry depends on it alone: then any converter of the same kind may take it, by
    /// [`Self::alone`], while another one sees to its place by [`Self::check_offset_range`].
    pub fn is_independent(&self, header: &Header) -> bool {
        let becomes_batch = self.conversion.magic.unwrap_or(header.magic) == 2;
        let is_grouped = header.magic < 2 && header.compression().ok() == Some(Compression::None);
        let (may_join, may_go) = (
            self.conversion.batch_size.is_some(),
            self.conversion.drop_producers,
        );
        becomes_batch && !is_grouped && !may_join && !may_go && self.group.is_none()
    }

    /// Takes an entry that is independent of others, and appends to `out` what becomes of it; true: it stays as it is.
    pub fn alone(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let header = &self.mended(header);
        self.converted.batches += 1;
        header
            .check_crc(entry)
            .map_err(|error| header.locate(error))?;
        self.single(header, entry, out)
    }

    /// The header with a leader epoch, if a batch is made of messages, or the magic of batches is asked for.
    fn mended(&self, header: &Header) -> Header {
        match header.magic < 2 || self.conversion.magic == Some(2) {
            true => header.with_valid_leader_epoch(),
            false => *header,
        }
    }

    /// Refuses an entry whose offsets are not behind those of the one before, and below the log's end.
    ///
    /// No checksum covers the base offset, and what is left out is told by it: a damaged one must not cost a record.
    pub fn check_offset_range(&mut self, header: &Header) -> Result<()> {
        self.check_offsets(header)
            .map_err(|error| header.locate(error))
    }

    fn check_offsets(&mut self, header: &Header) -> Result<()> {
        walk::check_offset(header, self.next_offset)?;
        let last = header.last_offset().max(header.base_offset);
        if !walk::is_before(last, self.log_end_offset) {
            return Err(Error::corrupt(format!(
                "offset {last} is not below {}, where the log ends",
                self.log_end_offset
            )));
        }
        self.next_offset = last.saturating_add(1);
        Ok(())
    }

    /// Whether the entry is dropped with its producer; an error where it would have to be and that is not asked for.
    fn is_left_out(&mut self, header: &Header, entry: &[u8]) -> Result<bool> {
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
                "the batch at offset {} {what}, which magic {magic} does not know: drop producers, and with them markers, \
                 aborted and undecided records, or keep magic 2",
                header.base_offset
            )));
        }
        let count = match header.records_count {
            _ if header.is_control() => &mut self.converted.control_batches,
            _ if !walk::is_before(header.last_offset(), self.last_stable_offset) => {
                &mut self.converted.undecided
            }
            _ if self.transactions.is_aborted(header) => &mut self.converted.aborted,
            _ => {
                self.converted.producers += u64::from(has_producer);
                return Ok(false);
            }
        };
        *count += match header.is_control() {
            true => 1,
            false => transcode::count(header, entry, &mut self.codecs.decompressor)
                .map_err(|error| header.locate(error))?,
        };
        Ok(true)
    }

    /// Appends what the entry becomes by itself; true: it stays as it is.
    fn single(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let stays = self
            .try_single(header, entry, out)
            .map_err(|error| header.locate(error))?;
        self.converted.changed += u64::from(!stays);
        Ok(stays)
    }

    fn try_single(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let options = self.options(header)?;
        let codecs = &mut self.codecs;
        let keeps_records = options.codec.compression == header.compression()?
            && !(self.conversion.recompress && options.is_compressed());
        let stays = keeps_records && !(self.conversion.drop_producers && has_producer(header));
        if options.magic != header.magic || header.magic < 2 && !stays {
            let mut base_offset = None;
            let mut losses = FieldLosses::of(&self.conversion, &mut self.converted, options.magic);
            codecs.append(header, entry, |builder, record| {
                if base_offset.is_none() {
                    base_offset = Some(record.offset);
                    builder.begin(BatchOptions {
                        base_offset: record.offset,
                        ..options
                    })?;
                }
                builder.append(&losses.record(record)?)
            })?;
            if base_offset.is_some() {
                codecs.close(options.magic, header.last_offset(), out)?;
            }
            return Ok(false);
        }
        if header.records_count == Some(0) && entry.len() > BATCH_OVERHEAD
            || !stays && !header.is_control()
        {
            let mut header = *header;
            if self.conversion.drop_producers {
                header.drop_producer();
            }
            codecs.recompress(header, entry, options.codec, keeps_records, out)?;
            return Ok(false);
        }
        let stored = Header::parse(entry, header.position)?;
        let is_mended = |stored: Header| {
            stored.magic == 2 && stored.partition_leader_epoch != header.partition_leader_epoch
        };
        if stored.is_some_and(is_mended) {
            let start = out.len();
            out.extend_from_slice(entry);
            let mut header = *header;
            header.write_changes(out.get_mut(start..).unwrap_or_default(), false);
            return Ok(false);
        }
        Ok(true)
    }

    /// What the entry's batch is to be, but for its base offset if the magic changes.
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
                "the batch at offset {} is compressed with zstd, which magic {magic} does not know: give another codec",
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
        let header = &self.mended(header);
        self.converted.batches += 1;
        header
            .check_crc(entry)
            .map_err(|error| header.locate(error))?;
        let next_offset = self.next_offset;
        self.check_offset_range(header)?;
        if header.magic < 2 && self.conversion.magic.unwrap_or(header.magic) < 2 {
            // Of what becomes a batch the new header tells.
            message::first_offset(header, entry, &mut self.codecs.decompressor)
                .and_then(|first| walk::check_first_offset(first, next_offset))
                .map_err(|error| header.locate(error))?;
        }
        if self.is_left_out(header, entry)? {
            self.converted.changed += 1;
            return Ok(false);
        }
        if self.join(header, entry, out)? {
            return Ok(false);
        }
        self.finish(out)?;
        self.single(header, entry, out)
    }

    /// No batch crosses the end of a segment.
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
        let alone = std::mem::take(&mut self.alone);
        if self.single(&group.first, &alone, out)? {
            out.extend_from_slice(&alone);
        }
        self.alone = alone;
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

    /// Appends the builder's batch to `out`. One of magic 2 ends where its sources' headers say, which is behind the last
    /// record once the cleaner dropped it; a wrapper that says 0 tells nothing.
    fn close(&mut self, magic: i8, last_offset: i64, out: &mut Vec<u8>) -> Result<()> {
        if magic == 2 && last_offset > self.builder.last_offset() {
            self.builder.override_last_offset(last_offset)?;
        }
        self.builder.finish(out).map(drop)
    }

    /// The batch of magic 2 with this header and its records in another block, or in the same: of the header change only
    /// length, codec and checksum.
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
            // The cleaner leaves no codec in an empty batch, and readers do not look behind its header.
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
            Error::invalid("the batch becomes larger than 2147483647 bytes: take another codec")
        })
    }
}
