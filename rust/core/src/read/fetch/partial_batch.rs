//! A batch that a [`Fetch`](super::Fetch) appends part by part, because it has very many records, headers or bytes.
//!
//! The whole batch is checked before its first part is appended, so later parts cannot fail.

use crate::base::error::{Error, Result};
use crate::format::batch::Header;
use crate::format::message::{self, MessageSet};
use crate::format::record;

/// The maximum number of records of one part. No batch of a producer has as many. A hostile batch takes 300 bytes of
/// memory per record.
const PART_RECORDS: usize = 1 << 18;

/// The number of messages between two checks of the size of a part.
const STEP: usize = 64;

/// The maximum number of headers of one part, unless one record has more. A hostile batch takes forty bytes of memory
/// per header.
const PART_HEADERS: usize = 1 << 20;

/// The maximum number of bytes of one part, unless one record has more.
const PART_BYTES: usize = 16 << 20;

/// The maximum number of headers of one record. A record is never divided. A million fit into a batch of Kafka's
/// default size.
const MAX_HEADERS: usize = 1 << 24;

/// A position between two records of a payload.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// The number of records before it.
    pub(super) record: usize,
    /// The number of bytes before it.
    pub(super) position: usize,
}

/// An opened batch: its payload is decompressed, and this is the part to be appended next.
#[derive(Debug)]
pub(super) struct PartialBatch {
    pub(super) header: Header,
    /// Bytes of the decompressed payload.
    pub(super) payload_length: usize,
    /// The start of this part.
    pub(super) start: Cursor,
    /// The end of this part.
    pub(super) end: Cursor,
    /// The ends of the parts after this one, the last one first.
    later_ends: Vec<Cursor>,
    /// The number to add to the offsets of a wrapper's messages.
    pub(super) offset_shift: i64,
}

impl PartialBatch {
    /// Opens a batch of magic 2 with this payload. `with_headers`: headers are appended too.
    pub(super) fn of_records(header: &Header, payload: &[u8], with_headers: bool) -> Result<Self> {
        let records_count = header.records_count.unwrap_or(0);
        let count = record::check_count(records_count)?;
        // A header takes at least two bytes.
        let may_have_many_headers = with_headers && payload.len() / 2 > PART_HEADERS;
        if count > PART_RECORDS || payload.len() > PART_BYTES || may_have_many_headers {
            let ends = part_ends(payload, records_count)?;
            return Ok(Self::divided(header, payload.len(), 0, ends));
        }
        Ok(Self::whole(header, count, payload.len(), 0))
    }

    /// Opens an entry of magic 0 or 1. With `check_crcs`, the messages of a wrapper that has several parts are verified
    /// here.
    pub(super) fn of_messages(
        header: &Header,
        set: &MessageSet<'_>,
        check_crcs: bool,
    ) -> Result<Self> {
        let length = set.payload().len();
        let most = length / message::MIN_SIZE;
        if most <= PART_RECORDS && length <= PART_BYTES {
            return Ok(Self::whole(header, most, length, set.offset_shift()));
        }
        let (mut ends, mut start, mut end) = (Vec::new(), Cursor::default(), Cursor::default());
        while end.position < length {
            end.record += set.walk(check_crcs, &mut end.position, STEP, |_| Ok(()))?;
            let is_full = end.record - start.record >= PART_RECORDS
                || end.position - start.position >= PART_BYTES;
            if is_full || end.position >= length {
                ends.push(end);
                start = end;
            }
        }
        Ok(Self::divided(header, length, set.offset_shift(), ends))
    }

    fn whole(header: &Header, records: usize, payload_length: usize, offset_shift: i64) -> Self {
        Self {
            header: *header,
            payload_length,
            start: Cursor::default(),
            end: Cursor {
                record: records,
                position: payload_length,
            },
            later_ends: Vec::new(),
            offset_shift,
        }
    }

    fn divided(
        header: &Header,
        payload_length: usize,
        offset_shift: i64,
        mut ends: Vec<Cursor>,
    ) -> Self {
        ends.reverse();
        Self {
            header: *header,
            payload_length,
            start: Cursor::default(),
            end: ends.pop().unwrap_or_default(),
            later_ends: ends,
            offset_shift,
        }
    }

    /// The number of records in this part. Batches of magic 0 and 1 have no records count: for them, the maximum.
    pub(super) fn records(&self) -> usize {
        self.end.record - self.start.record
    }

    /// Bytes in this part.
    pub(super) fn bytes(&self) -> usize {
        self.end.position - self.start.position
    }

    /// Returns true if no part follows this one.
    pub(super) fn is_last(&self) -> bool {
        self.later_ends.is_empty()
    }

    /// Returns true if the batch has several parts, whose records have then been checked.
    pub(super) fn is_divided(&self) -> bool {
        self.start.record > 0 || !self.is_last()
    }

    /// The next part, which starts at byte `position`; None after the last one.
    pub(super) fn next(mut self, position: usize) -> Option<Self> {
        let next_end = self.later_ends.pop()?;
        self.start = Cursor {
            record: self.end.record,
            position,
        };
        self.end = next_end;
        Some(self)
    }
}

/// Parses every record of a payload, and returns the ends of its parts.
fn part_ends(payload: &[u8], records_count: i32) -> Result<Vec<Cursor>> {
    let mut ends = Vec::new();
    let (mut position, mut records, mut headers) = (0, 0, 0);
    let mut part_start = 0;
    let count = record::check_count(records_count)?;
    for index in 0..count {
        let start = position;
        let record_headers = record::outline(payload, &mut position)
            .and_then(|record| check_headers(record.headers))
            .map_err(|error| record::at_record(error, index, records_count))?;
        let is_large =
            headers + record_headers > PART_HEADERS || position - part_start > PART_BYTES;
        if records == PART_RECORDS || records > 0 && is_large {
            ends.push(Cursor {
                record: index,
                position: start,
            });
            (records, headers, part_start) = (0, 0, start);
        }
        records += 1;
        headers += record_headers;
    }
    record::check_end(payload, position, records_count)?;
    ends.push(Cursor {
        record: count,
        position: payload.len(),
    });
    Ok(ends)
}

fn check_headers(count: usize) -> Result<usize> {
    if count > MAX_HEADERS {
        return Err(Error::unsupported(format!(
            "the record has {count} headers; at most {MAX_HEADERS} are read"
        )));
    }
    Ok(count)
}
