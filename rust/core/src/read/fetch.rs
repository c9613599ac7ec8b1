//! What a consumer does with fetched bytes (`CompletedFetch`): check, skip, decompress, hand out rows.
//!
//! Whole batches are passed over by their header alone, before checksum and decompression. Control records are never
//! handed out; their offsets are consumed.

use std::collections::HashMap;

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header};
use crate::format::compression::{Compression, Decompressor};
use crate::format::message::{self, Message, MessageSet};
use crate::format::record::{self, Headers, Record};
use crate::format::walk::check_first_offset;
use crate::read::columns::{Columns, Row};
use crate::read::fast_decode::{self, Base, Payload};

/// A transaction that ended with an ABORT marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: i64,
    /// Of its first batch in this partition.
    pub first_offset: i64,
    /// Of the marker.
    pub last_offset: i64,
}

impl From<(i64, i64, i64)> for AbortedTransaction {
    /// From its fields in their order.
    fn from((producer_id, first_offset, last_offset): (i64, i64, i64)) -> Self {
        Self {
            producer_id,
            first_offset,
            last_offset,
        }
    }
}

/// Which rows a consumer wants.
#[derive(Debug)]
pub struct Selection {
    /// First offset wanted.
    pub start_offset: i64,
    /// First offset not wanted.
    pub end_offset: i64,
    /// Producer id to the offset ranges [first, last) of its aborted transactions, ascending and apart.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
}

impl Selection {
    /// Everything but `aborted` transactions.
    pub fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut by_producer: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
        for range in aborted {
            by_producer
                .entry(range.producer_id)
                .or_default()
                .push((range.first_offset, range.last_offset));
        }
        for ranges in by_producer.values_mut() {
            ranges.sort_unstable();
            // Of a damaged log, ranges may overlap: one of them tells where a transaction surely was.
            ranges.dedup_by(|next, before| {
                let overlaps = next.0 <= before.1;
                if overlaps {
                    before.1 = before.1.max(next.1);
                }
                overlaps
            });
        }
        Self {
            start_offset: i64::MIN,
            end_offset: i64::MAX,
            aborted: by_producer,
        }
    }

    /// Outside the offsets: told before the checksum, so that whoever seeks need not read what comes before.
    fn is_elsewhere(&self, header: &Header) -> bool {
        header.last_offset() < self.start_offset && header.last_offset_delta >= 0
            || header.magic == 2 && !is_before(header.base_offset, self.end_offset)
    }

    /// No row of the batch is wanted, by what only the checksum vouches for.
    fn is_unwanted(&self, header: &Header) -> bool {
        header.is_control() || header.records_count == Some(0) || self.is_aborted(header)
    }

    /// A transaction's batches lie between its first offset and its marker. The batch's *last* offset counts:
    /// compaction keeps base offsets, so the first batch may start below.
    pub(crate) fn is_aborted(&self, header: &Header) -> bool {
        header.is_transactional()
            && self.aborted.get(&header.producer_id).is_some_and(|ranges| {
                let started = ranges.partition_point(|&(first, _)| first <= header.last_offset());
                ranges
                    .get(..started)
                    .and_then(<[_]>::last)
                    .is_some_and(|&(_, last)| header.last_offset() < last)
            })
    }

    /// Every row of the batch.
    fn is_all_wanted(&self, header: &Header) -> bool {
        header.magic == 2
            && header.base_offset >= self.start_offset
            && is_before(header.last_offset(), self.end_offset)
    }

    fn push(&self, row: Row<'_>, columns: &mut Columns) -> Result<()> {
        let is_wanted = row.offset >= self.start_offset && is_before(row.offset, self.end_offset);
        if is_wanted { columns.push(row) } else { Ok(()) }
    }
}

/// Below an exclusive end. The greatest number stands for no end, and so is before it: an offset may be it.
#[inline]
pub(crate) fn is_before(value: i64, end: i64) -> bool {
    value < end || end == i64::MAX
}

/// Records, and headers, of one batch that are appended at once: no producer's batch has as many, but a hostile one takes
/// 300 bytes of memory for each record, and forty for each header.
const PART_ROWS: usize = 1 << 18;
const PART_HEADERS: usize = 1 << 20;

/// Headers of one record, which comes whole. A million have room in a batch of Kafka's default size.
const MAX_HEADERS: usize = 1 << 24;

/// How much of a batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All: go on behind it.
    All,
    /// Some of its records: take what is there, and come again with the same batch.
    Part,
    /// Nothing, since what is there already left no room: take that, and come again with the same batch.
    NoRoom,
}

/// A batch that is taken in parts: all of it has been checked, and is decompressed where it was compressed.
#[derive(Debug)]
struct Begun {
    header: Header,
    /// Bytes of its payload.
    length: usize,
    /// Records taken, and where the next one starts.
    done: usize,
    at: usize,
    /// Where this part ends: records, and bytes.
    end: (usize, usize),
    /// And the parts behind it, the last one first.
    later: Vec<(usize, usize)>,
    /// Of a wrapper: what its messages' offsets lack.
    offset_shift: i64,
}

/// A consumer: what it wants, and its scratch memory.
pub struct Fetch {
    selection: Selection,
    check_crcs: bool,
    decompressor: Decompressor,
    begun: Option<Begun>,
    /// No wrapper may begin below: its header does not tell where it does.
    pub next_offset: i64,
}

impl Fetch {
    /// `max_batch_bytes` is the most that one batch may decompress to; never more than 1 GiB, since columns end at 2.
    pub fn new(selection: Selection, check_crcs: bool, max_batch_bytes: usize) -> Self {
        let decompressor = Decompressor::new(max_batch_bytes.min(1 << 30));
        Self {
            selection,
            check_crcs,
            decompressor,
            begun: None,
            next_offset: i64::MIN,
        }
    }

    /// Appends the wanted rows of the entry that `bytes` start with: all of them, or an error and none. Only of a batch with
    /// very many records or headers are there several parts, and then the error comes with the first.
    pub fn batch(&mut self, header: &Header, bytes: &[u8], columns: &mut Columns) -> Result<Taken> {
        let begun = self.begun.take().filter(|begun| begun.header == *header);
        if begun.is_none() && self.selection.is_elsewhere(header) {
            return Ok(Taken::All);
        }
        self.part(header, bytes, begun, columns).map_err(|error| {
            columns.rollback();
            error.at_batch(header)
        })
    }

    fn part(
        &mut self,
        header: &Header,
        bytes: &[u8],
        begun: Option<Begun>,
        columns: &mut Columns,
    ) -> Result<Taken> {
        let begun = match begun {
            Some(begun) => begun,
            None => {
                let entry = bytes.get(..header.size()).unwrap_or(bytes);
                if self.check_crcs {
                    header.check_crc(entry)?;
                }
                if self.selection.is_unwanted(header) {
                    return Ok(Taken::All);
                }
                if header.magic == 2 {
                    self.begin_records(header, bytes, columns)?
                } else {
                    self.begin_messages(header, entry)?
                }
            }
        };
        if header.magic == 2 {
            self.records(begun, bytes, columns)
        } else {
            self.messages(begun, bytes, columns)
        }
    }

    fn begin_records(&mut self, header: &Header, bytes: &[u8], columns: &Columns) -> Result<Begun> {
        let length = match header.compression()? {
            Compression::None => header.size() - BATCH_OVERHEAD,
            codec => {
                let stored = bytes.get(BATCH_OVERHEAD..header.size()).unwrap_or_default();
                self.decompressor.decompress(codec, stored, false)?.len()
            }
        };
        let payload = self.room(header, bytes).get(..length).unwrap_or_default();
        let records_count = header.records_count.unwrap_or(0);
        let count = record::check_count(records_count)?;
        // A header takes two bytes at least.
        let may_have_many_headers = columns.headers.is_some() && length / 2 > PART_HEADERS;
        let mut later = Vec::new();
        if count > PART_ROWS || may_have_many_headers {
            // All of the batch or an error: the parts to come must not fail.
            later = part_ends(payload, records_count)?;
        }
        Ok(Begun {
            header: *header,
            length,
            done: 0,
            at: 0,
            end: later.pop().unwrap_or((count, length)),
            later,
            offset_shift: 0,
        })
    }

    /// The memory that a batch's payload starts.
    fn room<'a>(&'a self, header: &Header, bytes: &'a [u8]) -> &'a [u8] {
        match header.compression_id() {
            0 => bytes.get(BATCH_OVERHEAD..).unwrap_or_default(),
            _ => self.decompressor.room(),
        }
    }

    fn records(&mut self, begun: Begun, bytes: &[u8], columns: &mut Columns) -> Result<Taken> {
        let header = begun.header;
        let room = self.room(&header, bytes);
        let payload = room.get(..begun.length).unwrap_or_default();
        let records_count = header.records_count.unwrap_or(0);
        let (end, end_position) = begun.end;
        if !columns.begin(end - begun.done, end_position - begun.at) {
            self.begun = Some(begun);
            return Ok(Taken::NoRoom);
        }
        let base = match header.log_append_time() {
            Some(timestamp) => Base {
                offset: header.base_offset,
                timestamp,
                timestamp_factor: 0,
            },
            None => Base {
                offset: header.base_offset,
                timestamp: header.base_timestamp,
                timestamp_factor: 1,
            },
        };
        let is_plain = columns.sequences.is_none() && self.selection.is_all_wanted(&header);
        let (mut done, mut at) = (begun.done, begun.at);
        while done < end {
            if is_plain {
                let payload = Payload {
                    bytes: room,
                    length: end_position,
                };
                let (next, taken) = fast_decode::append(payload, at, end - done, base, columns);
                at = next;
                done += taken;
                if done == end {
                    break;
                }
            }
            record::parse(payload, &mut at)
                .and_then(|record| {
                    let (timestamp, offset) = header.place(&record);
                    let sequence = header.sequence(record.offset_delta);
                    let Record {
                        key,
                        value,
                        headers,
                        ..
                    } = record;
                    let row = Row {
                        offset,
                        timestamp,
                        sequence,
                        key,
                        value,
                        headers,
                    };
                    self.selection.push(row, columns)
                })
                .map_err(|error| record::numbered(error, done, records_count))?;
            done += 1;
        }
        if begun.later.is_empty() {
            record::check_end(payload, at, records_count)?;
        }
        columns.end(&header, header.base_offset);
        Ok(self.go_on(begun, at))
    }

    fn begin_messages(&mut self, header: &Header, entry: &[u8]) -> Result<Begun> {
        let set = message::open(header, entry, &mut self.decompressor)?;
        check_first_offset(set.first_offset(), self.next_offset)?;
        let length = set.payload().len();
        let mut later = Vec::new();
        if length / message::MIN_SIZE > PART_ROWS {
            // All of the wrapper or an error: the parts to come must not fail.
            let (mut done, mut at) = (0, 0);
            while at < length {
                done += set.walk(self.check_crcs, &mut at, PART_ROWS, |_| Ok(()))?;
                later.push((done, at));
            }
            later.reverse();
        }
        Ok(Begun {
            header: *header,
            length,
            done: 0,
            at: 0,
            end: later.pop().unwrap_or((length / message::MIN_SIZE, length)),
            later,
            offset_shift: set.offset_shift(),
        })
    }

    fn messages(&mut self, begun: Begun, bytes: &[u8], columns: &mut Columns) -> Result<Taken> {
        let header = begun.header;
        let Self {
            selection,
            check_crcs,
            decompressor,
            ..
        } = self;
        let set = match message::wrapper_codec(&header)? {
            Some(_) => {
                let payload = decompressor.room().get(..begun.length);
                MessageSet::Wrapper(header, payload.unwrap_or_default(), begun.offset_shift)
            }
            None => message::open(
                &header,
                bytes.get(..header.size()).unwrap_or(bytes),
                decompressor,
            )?,
        };
        let (end, end_position) = begun.end;
        if !columns.begin(end - begun.done, end_position - begun.at) {
            self.begun = Some(begun);
            return Ok(Taken::NoRoom);
        }
        let is_checked = begun.done > 0 || !begun.later.is_empty();
        let mut at = begun.at;
        set.walk(
            *check_crcs && !is_checked,
            &mut at,
            end - begun.done,
            |message| {
                let Message {
                    offset,
                    timestamp,
                    key,
                    value,
                    ..
                } = message;
                let row = Row {
                    offset,
                    timestamp,
                    sequence: -1,
                    key,
                    value,
                    headers: Headers::NONE,
                };
                selection.push(row, columns)
            },
        )?;
        columns.end(&header, set.first_offset());
        Ok(self.go_on(begun, at))
    }

    /// What was taken is one part, which ends at `at`; the next one follows.
    fn go_on(&mut self, mut begun: Begun, at: usize) -> Taken {
        let Some(next) = begun.later.pop() else {
            return Taken::All;
        };
        (begun.done, begun.at) = (begun.end.0, at);
        begun.end = next;
        self.begun = Some(begun);
        Taken::Part
    }
}

/// Where the parts of a batch end, the last one first: records, and bytes. Every record is looked into.
fn part_ends(payload: &[u8], records_count: i32) -> Result<Vec<(usize, usize)>> {
    let mut ends = Vec::new();
    let (mut at, mut rows, mut headers) = (0, 0, 0);
    let count = record::check_count(records_count)?;
    for done in 0..count {
        let start = at;
        let of_record = record::parse(payload, &mut at)
            .and_then(|record| count_headers(&record))
            .map_err(|error| record::numbered(error, done, records_count))?;
        if rows == PART_ROWS || rows > 0 && headers + of_record > PART_HEADERS {
            ends.push((done, start));
            (rows, headers) = (0, 0);
        }
        rows += 1;
        headers += of_record;
    }
    record::check_end(payload, at, records_count)?;
    ends.push((count, payload.len()));
    ends.reverse();
    Ok(ends)
}

fn count_headers(record: &Record<'_>) -> Result<usize> {
    let count = record.headers.count;
    if count > MAX_HEADERS {
        return Err(Error::unsupported(format!(
            "{count} headers; {MAX_HEADERS} are the most that are read of one record"
        )));
    }
    record.headers.for_each(|_, _| Ok(()))?;
    Ok(count)
}

/// The records of a magic 2 batch, decompressed.
pub fn payload<'a>(
    header: &Header,
    entry: &'a [u8],
    decompressor: &'a mut Decompressor,
) -> Result<&'a [u8]> {
    let stored = entry.get(BATCH_OVERHEAD..).unwrap_or_default();
    match header.compression()? {
        Compression::None => Ok(stored),
        codec => decompressor.decompress(codec, stored, false),
    }
}
