//! Estimates the size of records in each message format, codec and batch size, from a sample of them.
//!
//! Every batch is built in every form. The records of all batches are also put into batches of other sizes, as a busy
//! producer with such a `batch.size` would fill them. The metadata of a form is its size minus the size of the content:
//! keys, values and (in magic 2) headers, compressed without the rest. So the metadata shows the bytes that the format
//! adds, even if a codec compresses most of them.

use crate::base::error::Result;
use crate::format::batch::{Header, TimestampType};
use crate::format::compression::{Codec, Compression, Compressor, Decompressor};
use crate::format::record::Headers;
use crate::format::walk;
use crate::rewrite::convert::DEFAULT_BATCH_SIZE;
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};
use crate::write::transcode;

/// The bytes of a large batch that are measured together, with sizes as in formats 0 and 1. A record with more bytes is
/// measured in one form after the other.
const MAX_PIECE: usize = 1 << 20;
const MEMORY_OF_RECORD: usize = 34;
/// A larger distance of offsets is reduced to this one. A delta of offsets has 32 bits, and the deltas of one piece
/// still fit after this distance.
const MOST_DISTANCE: i64 = 1 << 30;

/// The number of message formats, and of codecs.
const FORMS: (usize, usize) = (3, 5);

/// The size of the records in one form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the batches.
    pub bytes: u64,
    /// Bytes of keys, values and headers, compressed without the rest.
    pub content: u64,
}

/// Batches of magic 2 that are filled up to a size, regardless of the batches that the records come from.
#[derive(Debug)]
struct Filled {
    batch_size: usize,
    codec: Codec,
    builder: BatchBuilder,
    is_open: bool,
    bytes: u64,
}

impl Filled {
    fn append(&mut self, record: &NewRecord<'_>, built: &mut Vec<u8>) -> Result<()> {
        if self.is_open && self.builder.append_within(record, self.batch_size)? {
            return Ok(());
        }
        self.close(built)?;
        self.builder.begin(BatchOptions {
            magic: 2,
            codec: self.codec,
            timestamp_type: TimestampType::CreateTime,
            base_offset: record.offset,
            ..BatchOptions::default()
        })?;
        self.is_open = true;
        self.builder.append(record)?;
        if size_of(record) > MAX_PIECE.max(self.batch_size) {
            // No other record fits beside it, and its memory is needed for the next form.
            self.close(built)?;
            self.builder = BatchBuilder::new();
        }
        Ok(())
    }

    fn close(&mut self, built: &mut Vec<u8>) -> Result<()> {
        if self.is_open {
            self.is_open = false;
            built.clear();
            self.builder.finish(built)?;
            self.bytes += built.len() as u64;
        }
        Ok(())
    }
}

/// Measures records, in memory that is reused.
#[derive(Debug)]
pub struct SpaceEstimate {
    decompressor: Decompressor,
    compressor: Compressor,
    builders: Vec<(i8, Codec, BatchBuilder)>,
    filled: Vec<Filled>,
    built: Vec<u8>,
    /// Keys and values of the current batch, without and with headers.
    contents: [Vec<u8>; 2],
    spaces: [[Space; FORMS.1]; FORMS.0],
    records: u64,
    /// Bytes of single messages in the current batch.
    open_bytes: usize,
    is_open: bool,
    /// The offset of the first record of the open batches, and the distance from it to the last one.
    first_offset: i64,
    last_offset: i64,
    /// The size in bytes of the entry after the consumed bytes; 0 if unknown.
    pub needed: usize,
}

impl SpaceEstimate {
    /// `max_batch_bytes` caps the decompressed size of one batch; `batch_sizes` are the `batch.size`s to measure.
    pub fn new(max_batch_bytes: usize, batch_sizes: &[usize]) -> Self {
        let forms = (0..=2).flat_map(|magic| (0..5).map(move |id| (magic, id)));
        let codecs = forms.filter_map(|(magic, id)| {
            let compression = Compression::from_id(id)?;
            let codec = Codec {
                compression,
                level: None,
            };
            let is_known = magic == 2 || compression != Compression::Zstd;
            is_known.then(|| (magic, codec, BatchBuilder::new()))
        });
        let filled = batch_sizes.iter().flat_map(|&batch_size| {
            Compression::ALL.map(|compression| Filled {
                batch_size,
                codec: Codec {
                    compression,
                    level: None,
                },
                builder: BatchBuilder::new(),
                is_open: false,
                bytes: 0,
            })
        });
        Self {
            decompressor: Decompressor::new(max_batch_bytes),
            compressor: Compressor::new(),
            builders: codecs.collect(),
            filled: filled.collect(),
            built: Vec::new(),
            contents: Default::default(),
            spaces: Default::default(),
            records: 0,
            open_bytes: 0,
            is_open: false,
            first_offset: 0,
            last_offset: -1,
            needed: 0,
        }
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the size in a form; None if the magic does not support the codec.
    pub fn space(&self, magic: i8, compression: Compression) -> Option<Space> {
        if magic < 2 && compression == Compression::Zstd {
            return None;
        }
        let by_codec = self.spaces.get(usize::try_from(magic).ok()?)?;
        by_codec.get(compression as usize).copied()
    }

    /// Returns the size in batches of magic 2 with a `batch.size`; None if it is not measured.
    pub fn filled(&mut self, compression: Compression, batch_size: usize) -> Result<Option<u64>> {
        let Self { filled, built, .. } = self;
        let is_wanted = |filled: &&mut Filled| {
            filled.batch_size == batch_size && filled.codec.compression == compression
        };
        let Some(found) = filled.iter_mut().find(is_wanted) else {
            return Ok(None);
        };
        found.close(built)?;
        Ok(Some(found.bytes))
    }

    /// Measures the whole entries at the start of `bytes`, which start at `position` of a segment; returns their size
    /// in bytes.
    pub fn feed(&mut self, bytes: &[u8], position: u64) -> Result<usize> {
        let (consumed, needed) =
            walk::for_each(bytes, position, |header, entry| self.entry(header, entry))?;
        self.needed = needed;
        Ok(consumed)
    }

    /// Closes the current batch. Single messages of magic 0 and 1 are grouped into batches as in a conversion.
    pub fn finish(&mut self) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        self.is_open = false;
        self.open_bytes = 0;
        measure(
            &mut self.builders,
            &mut self.contents,
            &mut self.compressor,
            &mut self.built,
            &mut self.spaces,
        )
    }

    fn entry(&mut self, header: &Header, entry: &[u8]) -> Result<()> {
        header.check_crc(entry)?;
        let is_alone = header.magic < 2 && header.compression()? == Compression::None;
        if !is_alone || self.open_bytes + entry.len() > DEFAULT_BATCH_SIZE {
            self.finish()?;
        }
        if header.is_control() || header.records_count == Some(0) {
            return Ok(());
        }
        let Self {
            decompressor,
            builders,
            filled,
            built,
            contents,
            records,
            is_open,
            compressor,
            spaces,
            first_offset,
            last_offset,
            ..
        } = self;
        let mut piece = 0;
        transcode::for_each(header, entry, decompressor, true, |record| {
            let size = size_of(&record);
            // All forms of a large batch at once would take much memory: it is measured in pieces.
            if piece > MAX_PIECE || *is_open && size > MAX_PIECE {
                piece = 0;
                *is_open = false;
                measure(builders, contents, compressor, built, spaces)?;
            }
            piece += size;
            // The offsets of a damaged batch may fall, or leap. Only their distances count.
            if !*is_open {
                (*first_offset, *last_offset) = (record.offset, -1);
            }
            let distance = record.offset.wrapping_sub(*first_offset);
            *last_offset = distance.clamp(*last_offset + 1, MOST_DISTANCE.max(*last_offset + 1));
            let rising = NewRecord {
                offset: *last_offset,
                ..record
            };
            let is_large = size > MAX_PIECE;
            if !is_large {
                append_in_all_forms(&rising, builders, *is_open)?;
            }
            // The samples come from several places. Consecutive offsets keep the distances between samples out of the
            // sizes.
            let in_row = NewRecord {
                offset: *records as i64,
                timestamp: record.timestamp.max(-1),
                ..record
            };
            filled
                .iter_mut()
                .try_for_each(|filled| filled.append(&in_row, built))?;
            append_content(&record, contents)?;
            *records += 1;
            if is_large {
                for form in &mut **builders {
                    let form = std::slice::from_mut(form);
                    append_in_all_forms(&rising, form, false)?;
                    measure_forms(form, contents, compressor, built, spaces)?;
                    form.iter_mut()
                        .for_each(|form| form.2 = BatchBuilder::new());
                }
                contents.iter_mut().for_each(Vec::clear);
                piece = 0;
            } else {
                *is_open = true;
            }
            Ok(())
        })?;
        self.open_bytes += entry.len();
        if is_alone {
            return Ok(());
        }
        self.finish()
    }
}

/// Closes the batch of each form, and adds up its size.
fn measure(
    builders: &mut [(i8, Codec, BatchBuilder)],
    contents: &mut [Vec<u8>; 2],
    compressor: &mut Compressor,
    built: &mut Vec<u8>,
    spaces: &mut [[Space; FORMS.1]; FORMS.0],
) -> Result<()> {
    measure_forms(builders, contents, compressor, built, spaces)?;
    contents.iter_mut().for_each(Vec::clear);
    Ok(())
}

fn measure_forms(
    builders: &mut [(i8, Codec, BatchBuilder)],
    contents: &[Vec<u8>; 2],
    compressor: &mut Compressor,
    built: &mut Vec<u8>,
    spaces: &mut [[Space; FORMS.1]; FORMS.0],
) -> Result<()> {
    for (magic, codec, builder) in builders {
        built.clear();
        builder.finish(built)?;
        let [bare, with_headers] = contents;
        let content = if *magic == 2 { with_headers } else { bare };
        let content = match codec.compression {
            Compression::None => content.len(),
            _ => compressor.compressed(*codec, *magic, content)?.len(),
        };
        let by_codec = spaces.get_mut(*magic as usize);
        if let Some(space) =
            by_codec.and_then(|by_codec| by_codec.get_mut(codec.compression as usize))
        {
            space.bytes += built.len() as u64;
            space.content += content as u64;
        }
    }
    Ok(())
}

/// The approximate bytes of a record in any form.
fn size_of(record: &NewRecord<'_>) -> usize {
    let content = [record.key, record.value].into_iter().flatten();
    MEMORY_OF_RECORD + content.map(<[u8]>::len).sum::<usize>() + record.headers.size()
}

/// Appends a record to the batch of each form. Unless `is_open` is set, the batches begin with this record.
fn append_in_all_forms(
    record: &NewRecord<'_>,
    builders: &mut [(i8, Codec, BatchBuilder)],
    is_open: bool,
) -> Result<()> {
    for (magic, codec, builder) in builders {
        if !is_open {
            builder.begin(BatchOptions {
                magic: *magic,
                codec: *codec,
                timestamp_type: TimestampType::CreateTime,
                base_offset: record.offset,
                ..BatchOptions::default()
            })?;
        }
        builder.append(&NewRecord {
            // Timestamps below -1 come from hostile bytes only and do not matter for the size.
            timestamp: record.timestamp.max(-1),
            headers: match *magic {
                2 => record.headers,
                _ => Headers::NONE,
            },
            ..*record
        })?;
    }
    Ok(())
}

/// Appends key and value to both contents, and the headers to the content with headers.
fn append_content(record: &NewRecord<'_>, contents: &mut [Vec<u8>; 2]) -> Result<()> {
    for content in contents.iter_mut() {
        content.extend_from_slice(record.key.unwrap_or_default());
        content.extend_from_slice(record.value.unwrap_or_default());
    }
    let [_, with_headers] = contents;
    record.headers.for_each(|key, value| {
        with_headers.extend_from_slice(key);
        with_headers.extend_from_slice(value.unwrap_or_default());
        Ok(())
    })
}
