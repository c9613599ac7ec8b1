//! Erasing records that match: found first, and taken out afterwards.
//!
//! [`ErasureScan`] reads a segment and says by a bit for each record, by its number, which ones go; [`Eraser`] makes the new
//! segment of the old one and these bits, without looking at a key again. Offsets, markers and producers stay: a batch of
//! magic 2 that lost all its records stays as a header, as the cleaner leaves it for a producer's last sequence.

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

/// Which records are meant: those that any one of these names. Null keys and values match nothing.
#[derive(Debug, Clone, Default)]
pub struct RecordMatcher {
    /// By their whole key. Hashed with a random key, so crafted ones cannot slow it down.
    pub keys: HashSet<Vec<u8>>,
    /// By what their key starts with.
    pub key_prefixes: Vec<Vec<u8>>,
    /// By a header with this key and this value.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RecordMatcher {
    /// Whether the record is meant.
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

/// Ranges of offsets beyond these are not listed one by one.
const MAX_RANGES: usize = 1 << 16;

/// What is to be erased of a segment.
#[derive(Debug, Default)]
pub struct ErasedRecords {
    /// A bit for each record by number, set if it goes, least significant first; those behind the last byte stay. None goes
    /// if there is no byte.
    pub bits: Vec<u8>,
    /// How many go.
    pub records: u64,
    /// Their keys and values, in bytes.
    pub bytes: u64,
    /// First and last offset of each run of records that go; a run goes on over offsets that no record has.
    pub ranges: Vec<(i64, i64)>,
    /// Records that were looked at.
    pub examined: u64,
}

/// Finds the records of a segment that match, and its scratch memory.
#[derive(Debug)]
pub struct ErasureScan {
    matcher: RecordMatcher,
    is_blanking: bool,
    decompressor: Decompressor,
    bits: Bits,
    found: ErasedRecords,
    /// Of the next record.
    number: u64,
    /// After the last entry, and where the segment has to end.
    next_offset: i64,
    limit: i64,
    /// The record before the next one goes too.
    is_run: bool,
    /// Bytes that the entry at the last `consumed` needs; 0: cannot be told.
    pub needed: usize,
}

impl ErasureScan {
    /// With `is_blanking` records go only as far as their values: those without one, or with an empty one, do not count.
    /// `max_batch_bytes` is the most that one batch may decompress to.
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

    /// Goes on with a segment that has offsets from `base_offset` to below `limit`; what was found before was taken.
    pub fn begin(&mut self, base_offset: i64, limit: i64) {
        (self.next_offset, self.limit) = (base_offset, limit);
    }

    /// Takes the whole entries that `bytes`, at `position` of the segment, start with; returns how many bytes that are.
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

    /// What was found in the segment. The next one begins.
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
        // Control records are walked too: a count that nobody checked could claim a number beyond all memory.
        transcode::for_each(header, entry, decompressor, true, |record| {
            if header.magic < 2 {
                // Of a wrapper, the header tells only the last.
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

/// Takes the records out of a segment that a scan found, or their values.
#[derive(Debug)]
pub struct Eraser {
    filter: BatchFilter,
    decompressor: Decompressor,
    verdict: Verdict,
    erased: Vec<u8>,
    /// Of the next record.
    number: u64,
}

impl Eraser {
    /// With `is_blanking`, records stay with an empty value. `max_batch_bytes` is the most that one batch may decompress to.
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

    /// Goes on with a segment of which these go ([`ErasedRecords::bits`]).
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
        // Messages become a batch.
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
