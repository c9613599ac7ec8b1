//! Erasure of matching records, in two steps.
//!
//! [`ErasureScan`] reads a segment and marks the matching records: one bit for each record, by its number. [`Eraser`]
//! builds the new segment from the old one and these bits, without comparing keys again. Offsets, markers and producers
//! stay. A batch of magic 2 that loses all its records stays as a header. The cleaner does this too, to keep a
//! producer's last sequence.

use std::collections::HashSet;

use crate::base::bits::{self, Bits};
use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::walk;
use crate::rewrite::filter::{BatchFilter, Retention, Verdict};
use crate::rewrite::rewriter::Rewrite;
use crate::write::batch_builder::NewRecord;
use crate::write::transcode;

/// The criteria for the records to erase: a record must match one of them. Null keys and values match nothing.
#[derive(Debug, Clone, Default)]
pub struct RecordMatcher {
    /// Whole keys. They are hashed with a random key, so crafted keys cannot slow the search down.
    pub keys: HashSet<Vec<u8>>,
    /// Prefixes of keys.
    pub key_prefixes: Vec<Vec<u8>>,
    /// Headers, as key and value.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RecordMatcher {
    /// Returns true if the record matches.
    pub fn matches(&self, record: &NewRecord<'_>) -> Result<bool> {
        let by_key = record.key.is_some_and(|key| {
            self.keys.contains(key)
                || self
                    .key_prefixes
                    .iter()
                    .any(|prefix| key.starts_with(prefix))
        });
        if by_key || self.headers.is_empty() {
            return Ok(by_key);
        }
        let mut by_header = false;
        record.headers.for_each(|key, value| {
            by_header |= self
                .headers
                .iter()
                .any(|(wanted, content)| key == wanted && value == Some(content));
            Ok(())
        })?;
        Ok(by_header)
    }
}

/// The maximum number of listed ranges of offsets. Further ranges extend the last one.
const MAX_RANGES: usize = 1 << 16;

/// The records to erase in a segment.
#[derive(Debug, Default)]
pub struct ErasedRecords {
    /// A bit for each record by its number, least significant first. It is set if the record is erased. Records after
    /// the last byte stay.
    pub bits: Vec<u8>,
    /// The number of records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// First and last offset of each run of erased records. A run continues over offsets without records.
    pub ranges: Vec<(i64, i64)>,
    /// Records that were compared.
    pub examined: u64,
}

/// Finds the matching records of segments.
#[derive(Debug)]
pub struct ErasureScan {
    matcher: RecordMatcher,
    is_blanking: bool,
    decompressor: Decompressor,
    bits: Bits,
    found: ErasedRecords,
    /// Number of the next record.
    number: u64,
    /// The offset after the last entry, and the limit of the segment's offsets.
    next_offset: i64,
    limit: i64,
    /// True if the last record was erased, so that the next one continues its range.
    is_run: bool,
    /// The size in bytes of the entry after the consumed bytes; 0 if unknown.
    pub needed: usize,
}

impl ErasureScan {
    /// With `is_blanking`, only values are erased: records without a value, or with an empty one, do not match.
    /// `max_batch_bytes` caps the decompressed size of one batch.
    pub fn new(matcher: RecordMatcher, is_blanking: bool, max_batch_bytes: usize) -> Self {
        Self {
            matcher,
            is_blanking,
            decompressor: Decompressor::new(max_batch_bytes),
            bits: Bits::default(),
            found: ErasedRecords::default(),
            number: 0,
            next_offset: i64::MIN,
            limit: i64::MAX,
            is_run: false,
            needed: 0,
        }
    }

    /// Starts a segment with offsets from `base_offset` to below `limit`. The result of the previous segment must have
    /// been taken.
    pub fn begin(&mut self, base_offset: i64, limit: i64) {
        (self.next_offset, self.limit) = (base_offset, limit);
    }

    /// Scans the whole entries at the start of `bytes`, which start at `position` of the segment; returns their size in
    /// bytes.
    pub fn feed(&mut self, bytes: &[u8], position: u64) -> Result<usize> {
        let (consumed, needed) = walk::for_each(bytes, position, |header, entry| {
            header.check_crc(entry)?;
            // No checksum covers offsets.
            walk::check_offset_range(header, self.next_offset, self.limit)?;
            self.entry(header, entry)?;
            self.next_offset = header.next_offset();
            Ok(())
        })?;
        self.needed = needed;
        Ok(consumed)
    }

    /// Takes the result for the segment. The next segment begins.
    pub fn take(&mut self) -> ErasedRecords {
        self.number = 0;
        self.is_run = false;
        ErasedRecords {
            bits: std::mem::take(&mut self.bits).into_bytes(),
            ..std::mem::take(&mut self.found)
        }
    }

    fn entry(&mut self, header: &Header, entry: &[u8]) -> Result<()> {
        let is_control = header.is_control();
        let Self {
            matcher,
            is_blanking,
            decompressor,
            bits,
            found,
            number,
            next_offset,
            is_run,
            ..
        } = self;
        // Control records are walked too: an unchecked count could claim record numbers beyond any memory.
        transcode::for_each(header, entry, decompressor, true, |record| {
            if header.magic < 2 {
                // A wrapper's header holds only its last offset.
                walk::check_first_offset(record.offset, *next_offset)?;
            }
            let has_value = record.value.is_some_and(|value| !value.is_empty());
            let may_go = !is_control && (has_value || !*is_blanking);
            let goes = may_go && matcher.matches(&record)?;
            if goes {
                bits.set(*number);
                found.records += 1;
                let key = record.key.filter(|_| !*is_blanking);
                let bytes = [key, record.value].map(|field| field.map_or(0, <[u8]>::len));
                found.bytes += bytes.iter().sum::<usize>() as u64;
                let goes_on = *is_run || found.ranges.len() == MAX_RANGES;
                match found.ranges.last_mut() {
                    Some((_, last)) if goes_on => *last = record.offset,
                    _ => found.ranges.push((record.offset, record.offset)),
                }
            }
            *is_run = goes;
            *number += 1;
            found.examined += u64::from(!is_control);
            Ok(())
        })
    }
}

/// Erases the records, or their values, that a scan found.
#[derive(Debug)]
pub struct Eraser {
    filter: BatchFilter,
    decompressor: Decompressor,
    verdict: Verdict,
    erased: Vec<u8>,
    /// Number of the next record.
    number: u64,
}

impl Eraser {
    /// With `is_blanking`, records stay with an empty value. `max_batch_bytes` caps the decompressed size of one batch.
    pub fn new(is_blanking: bool, max_batch_bytes: usize) -> Self {
        Self {
            filter: BatchFilter::new(max_batch_bytes),
            decompressor: Decompressor::new(max_batch_bytes),
            verdict: if is_blanking {
                Verdict::Blank
            } else {
                Verdict::Drop
            },
            erased: Vec::new(),
            number: 0,
        }
    }

    /// Starts a segment, given the bits of its erased records ([`ErasedRecords::bits`]).
    pub fn begin(&mut self, erased: &[u8]) {
        self.erased.clear();
        self.erased.extend_from_slice(erased);
        self.number = 0;
    }
}

impl Rewrite for Eraser {
    fn entry(&mut self, header: &Header, entry: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let count = header
            .check_crc(entry)
            .and_then(|()| transcode::count(header, entry, &mut self.decompressor))
            .map_err(|error| header.locate(error))?;
        let first = self.number;
        self.number += count;
        if bits::ones(&self.erased, first, count) == 0 {
            return Ok(true);
        }
        let retention = Retention {
            retain_empty: header.magic == 2,
            delete_horizon_ms: None,
        };
        let (erased, verdict) = (&self.erased, self.verdict);
        // Rebuilt messages become a batch.
        let header = &match header.magic {
            2 => *header,
            _ => header.with_valid_leader_epoch(),
        };
        let filtered =
            self.filter.filter(header, entry, retention, |index| {
                match bits::is_set(erased, first + index as u64) {
                    true => verdict,
                    false => Verdict::Keep,
                }
            })?;
        out.extend_from_slice(filtered.batch);
        Ok(false)
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
