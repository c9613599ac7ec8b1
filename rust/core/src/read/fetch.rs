//! Turns batches into rows, as a consumer reads fetched data (`CompletedFetch`): check, skip, decompress, append.
//!
//! A batch is skipped by its header alone, before its checksum and decompression. Control records never become rows;
//! their offsets are consumed.

mod partial_batch;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::error::Result;
use crate::format::batch::{BATCH_OVERHEAD, Header};
use crate::format::compression::{Compression, Decompressor};
use crate::format::message::{self, Message, MessageSet};
use crate::format::record::{self, Headers, Record};
use crate::format::walk::{check_first_offset, is_before};
use crate::read::columns::{Columns, Row};
use crate::read::fast_decode::{self, Base, Payload};
use crate::read::search::Search;
use partial_batch::PartialBatch;

/// A transaction that ended with an ABORT marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer's id.
    pub producer_id: i64,
    /// First offset of its first batch in this partition.
    pub first_offset: i64,
    /// Offset of the marker.
    pub last_offset: i64,
}

impl From<(i64, i64, i64)> for AbortedTransaction {
    /// Creates it from its fields, in order.
    fn from((producer_id, first_offset, last_offset): (i64, i64, i64)) -> Self {
        Self {
            producer_id,
            first_offset,
            last_offset,
        }
    }
}

/// The rows that a consumer wants.
#[derive(Debug)]
pub struct Selection {
    /// First offset wanted.
    pub start_offset: i64,
    /// First offset not wanted.
    pub end_offset: i64,
    /// Batches whose header has a largest timestamp below this one, in ms, may be left out as a whole. A broker
    /// computes that timestamp from the records, and also uses it to search by time.
    pub min_timestamp: i64,
    /// By producer id: the offset ranges [first, last) of its aborted transactions. They ascend and do not overlap.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
}

impl Selection {
    /// Selects every row except those of `aborted` transactions.
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
            // In a damaged log, ranges may overlap. Their union is certainly part of aborted transactions.
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
            min_timestamp: i64::MIN,
            aborted: by_producer,
        }
    }

    /// Returns true if the batch lies outside the wanted offsets. This is called before the checksum is verified, so
    /// that a seek does not have to read all bytes before its target.
    fn is_outside(&self, header: &Header) -> bool {
        self.is_below(header)
            || header.magic == 2 && !is_before(header.base_offset, self.end_offset)
    }

    /// Returns true if the batch ends below the wanted offsets.
    fn is_below(&self, header: &Header) -> bool {
        header.last_offset() < self.start_offset && header.last_offset_delta >= 0
    }

    /// Returns true if no row of the batch is wanted. The result depends on fields that may be damaged, so the checksum
    /// must be verified first.
    fn is_unwanted(&self, header: &Header) -> bool {
        header.is_control()
            || header.records_count == Some(0)
            || self.is_aborted(header)
            || header.magic == 2
                && header.max_timestamp >= header.base_timestamp.max(0)
                && header.max_timestamp < self.min_timestamp
    }

    /// Returns true if the batch belongs to an aborted transaction: it lies between the transaction's first offset and
    /// its marker. The batch's *last* offset is compared. Compaction keeps base offsets, so the first batch may start
    /// below the transaction.
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

    /// Returns true if every row of the batch is wanted.
    fn is_all_wanted(&self, header: &Header) -> bool {
        header.magic == 2
            && header.base_offset >= self.start_offset
            && is_before(header.last_offset(), self.end_offset)
    }

    #[inline]
    fn has(&self, offset: i64) -> bool {
        offset >= self.start_offset && is_before(offset, self.end_offset)
    }

    #[inline]
    fn push(&self, row: Row<'_>, columns: &mut Columns) -> Result<()> {
        if self.has(row.offset) {
            columns.push(row)
        } else {
            Ok(())
        }
    }
}

/// The progress of [`Fetch::batch`] with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The batch is done: continue after it.
    Complete,
    /// Some of its records were appended: take the columns' rows, then pass the same batch again.
    Partial,
    /// Nothing was appended, because the columns are too full: take their rows, then pass the same batch again.
    ColumnsFull,
}

/// The state of a consumer's read: the wanted rows, and scratch memory.
pub struct Fetch {
    selection: Selection,
    check_crcs: bool,
    decompressor: Decompressor,
    /// The batch that is partly read.
    partial: Option<PartialBatch>,
    /// The lowest offset at which a wrapper may begin. A wrapper's header does not contain its first offset.
    pub next_offset: i64,
    /// True to make rows from a batch's header alone, if all wanted columns follow from the header. The records are
    /// then not validated, but the checksum is. If checksums are not checked, the records are read.
    pub by_headers: bool,
    /// The records to return; None for all.
    pub search: Option<Arc<Search>>,
}

/// A batch with more records is read record by record, in parts, because its count may be false.
const MAX_BY_HEADER: i32 = 1 << 18;

impl Fetch {
    /// `max_batch_bytes` caps the decompressed size of one batch. It is at most 1 GiB, because columns end at 2 GiB.
    pub fn new(selection: Selection, check_crcs: bool, max_batch_bytes: usize) -> Self {
        let decompressor = Decompressor::new(max_batch_bytes.min(1 << 30));
        Self {
            selection,
            check_crcs,
            decompressor,
            partial: None,
            next_offset: i64::MIN,
            by_headers: false,
            search: None,
        }
    }

    /// Returns true if the batch ends below the wanted offsets.
    pub(crate) fn is_below(&self, header: &Header) -> bool {
        self.selection.is_below(header)
    }

    /// Returns true if the wanted offsets begin below the batch's first offset. The first offset of a wrapper is inside
    /// it.
    pub(crate) fn begins_before(&self, header: &Header) -> bool {
        header.magic == 2 && self.selection.start_offset < header.base_offset
    }

    /// Leaves out rows below an offset, and restarts the check of where batches begin.
    pub(crate) fn leave_out_below(&mut self, offset: i64) {
        self.selection.start_offset = self.selection.start_offset.max(offset);
        self.next_offset = i64::MIN;
    }

    /// Works like [`Fetch::batch`], without the rows below an offset.
    pub(crate) fn batch_from(
        &mut self,
        floor: i64,
        header: &Header,
        bytes: &[u8],
        columns: &mut Columns,
    ) -> Result<Progress> {
        let start_offset = self.selection.start_offset;
        self.selection.start_offset = start_offset.max(floor);
        let taken = self.batch(header, bytes, columns);
        self.selection.start_offset = start_offset;
        taken
    }

    /// Appends the wanted rows of the entry at the start of `bytes`: all of them, or none and an error.
    ///
    /// A batch with very many records, headers or bytes needs several calls. If the batch is damaged, the first call
    /// returns the error.
    pub fn batch(
        &mut self,
        header: &Header,
        bytes: &[u8],
        columns: &mut Columns,
    ) -> Result<Progress> {
        let resumed = self.partial.take().filter(|batch| batch.header == *header);
        if resumed.is_none() && self.selection.is_outside(header) {
            return Ok(Progress::Complete);
        }
        self.append_part(header, bytes, resumed, columns)
            .map_err(|error| {
                columns.rollback();
                header.locate(error)
            })
    }

    fn append_part(
        &mut self,
        header: &Header,
        bytes: &[u8],
        resumed: Option<PartialBatch>,
        columns: &mut Columns,
    ) -> Result<Progress> {
        if resumed.is_none()
            && self.by_headers
            && self.search.is_none()
            && self.check_crcs
            && let Some(count) = self.counted(header, columns)
        {
            let entry = bytes.get(..header.size()).unwrap_or(bytes);
            header.check_crc(entry)?;
            if !self.selection.is_unwanted(header) {
                columns.push_unread(header, count);
            }
            return Ok(Progress::Complete);
        }
        let opened = match resumed {
            Some(batch) => Some(batch),
            None => self.open(header, bytes, columns.headers.is_some())?,
        };
        let Some(batch) = opened else {
            return Ok(Progress::Complete);
        };
        if !columns.begin(batch.records(), batch.bytes()) {
            self.partial = Some(batch);
            return Ok(Progress::ColumnsFull);
        }
        let position = if header.magic == 2 {
            self.append_records(&batch, bytes, columns)?
        } else {
            self.append_messages(&batch, bytes, columns)?
        };
        self.partial = batch.next(position);
        Ok(match self.partial {
            Some(_) => Progress::Partial,
            None => Progress::Complete,
        })
    }

    /// The number of rows of a batch whose wanted columns all follow from its header.
    fn counted(&self, header: &Header, columns: &Columns) -> Option<usize> {
        let count = header
            .records_count
            .filter(|count| (0..=MAX_BY_HEADER).contains(count))?;
        // A compacted batch has offsets without records.
        let is_complete = header.last_offset_delta == count - 1;
        let suffices = columns.has_offsets_alone() && (columns.offsets.is_none() || is_complete);
        (suffices && self.selection.is_all_wanted(header))
            .then(|| usize::try_from(count).ok())
            .flatten()
    }

    /// Verifies and decompresses a batch; None if no row of it is wanted.
    fn open(
        &mut self,
        header: &Header,
        bytes: &[u8],
        with_headers: bool,
    ) -> Result<Option<PartialBatch>> {
        let entry = bytes.get(..header.size()).unwrap_or(bytes);
        if self.check_crcs {
            header.check_crc(entry)?;
        }
        let is_left_out = |search: &Arc<Search>| search.leaves_out(header);
        if self.selection.is_unwanted(header) || self.search.as_ref().is_some_and(is_left_out) {
            return Ok(None);
        }
        if header.magic == 2 {
            let payload = record::payload(header, entry, &mut self.decompressor)?;
            let length = payload.len();
            if let Some(search) = &self.search
                && self.selection.is_all_wanted(header)
                && !search.may_be_in(payload)
            {
                let count = record::check_count(header.records_count.unwrap_or(0))?;
                search.count_records(count);
                return Ok(None);
            }
            let payload = self.payload_and_beyond(header, bytes).get(..length);
            return PartialBatch::of_records(header, payload.unwrap_or_default(), with_headers)
                .map(Some);
        }
        let set = MessageSet::open(header, entry, &mut self.decompressor)?;
        check_first_offset(set.first_offset(), self.next_offset)?;
        PartialBatch::of_messages(header, &set, self.check_crcs).map(Some)
    }

    /// The memory that begins with an opened batch's payload. [`fast_decode`] reads a little beyond the payload.
    fn payload_and_beyond<'a>(&'a self, header: &Header, bytes: &'a [u8]) -> &'a [u8] {
        match header.compression() {
            Ok(Compression::None) => bytes.get(BATCH_OVERHEAD..).unwrap_or_default(),
            _ => self.decompressor.buffer(),
        }
    }

    /// Appends the records of this part; returns the start of the next part.
    fn append_records(
        &self,
        batch: &PartialBatch,
        bytes: &[u8],
        columns: &mut Columns,
    ) -> Result<usize> {
        let header = &batch.header;
        let memory = self.payload_and_beyond(header, bytes);
        let payload = memory.get(..batch.payload_length).unwrap_or_default();
        if let Some(search) = &self.search {
            return self.append_found(search, batch, payload, columns);
        }
        let records_count = header.records_count.unwrap_or(0);
        let base = Base::of(header);
        let may_be_plain = columns.sequences.is_none() && self.selection.is_all_wanted(header);
        let (mut record, mut position) = (batch.start.record, batch.start.position);
        while record < batch.end.record {
            if may_be_plain {
                let payload = Payload {
                    bytes: memory,
                    length: batch.end.position,
                };
                let remaining = batch.end.record - record;
                let (next, appended) =
                    fast_decode::append(payload, position, remaining, base, columns);
                position = next;
                record += appended;
                if record == batch.end.record {
                    break;
                }
            }
            record::parse(payload, &mut position)
                .and_then(|parsed| self.selection.push(row(header, &parsed), columns))
                .map_err(|error| record::at_record(error, record, records_count))?;
            record += 1;
        }
        if batch.is_last() {
            record::check_end(payload, position, records_count)?;
        }
        columns.end(header, header.base_offset);
        Ok(position)
    }

    /// Appends the records of this part that the search finds; returns the start of the next part. All are checked.
    fn append_found(
        &self,
        search: &Search,
        batch: &PartialBatch,
        payload: &[u8],
        columns: &mut Columns,
    ) -> Result<usize> {
        let header = &batch.header;
        let records_count = header.records_count.unwrap_or(0);
        let mut position = batch.start.position;
        let mut next = search.next(payload, position);
        let mut searched = 0;
        for index in batch.start.record..batch.end.record {
            let parsed = record::parse(payload, &mut position)
                .map_err(|error| record::at_record(error, index, records_count))?;
            let row = row(header, &parsed);
            let is_wanted = self.selection.has(row.offset);
            searched += usize::from(is_wanted);
            if next.is_none_or(|next| next >= position) {
                continue;
            }
            if is_wanted && search.is_sought(row.key, row.value, row.headers) {
                columns.push(row)?;
            }
            next = search.next(payload, position);
        }
        if batch.is_last() {
            record::check_end(payload, position, records_count)?;
        }
        search.count_records(searched);
        columns.end(header, header.base_offset);
        Ok(position)
    }

    /// Appends the messages of this part; returns the start of the next part.
    fn append_messages(
        &mut self,
        batch: &PartialBatch,
        bytes: &[u8],
        columns: &mut Columns,
    ) -> Result<usize> {
        let header = &batch.header;
        let Self {
            selection,
            check_crcs,
            decompressor,
            search,
            ..
        } = self;
        let mut searched = 0;
        let set = match message::wrapper_codec(header)? {
            Some(_) => {
                let payload = decompressor.buffer().get(..batch.payload_length);
                MessageSet::Wrapper(*header, payload.unwrap_or_default(), batch.offset_shift)
            }
            None => {
                let entry = bytes.get(..header.size()).unwrap_or(bytes);
                MessageSet::open(header, entry, decompressor)?
            }
        };
        // The messages of a divided wrapper were verified when it was opened.
        let check_crcs = *check_crcs && !batch.is_divided();
        let mut position = batch.start.position;
        set.walk(check_crcs, &mut position, batch.records(), |message| {
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
            if let Some(search) = &search {
                let is_wanted = selection.has(offset);
                searched += usize::from(is_wanted);
                if !is_wanted || !search.is_sought(key, value, Headers::NONE) {
                    return Ok(());
                }
            }
            selection.push(row, columns)
        })?;
        if let Some(search) = search {
            search.count_records(searched);
        }
        columns.end(header, set.first_offset());
        Ok(position)
    }
}

/// The row of a record of magic 2.
#[inline]
fn row<'a>(header: &Header, record: &Record<'a>) -> Row<'a> {
    let (timestamp, offset) = record.timestamp_and_offset(header);
    Row {
        offset,
        timestamp,
        sequence: header.sequence(record.offset_delta),
        key: record.key,
        value: record.value,
        headers: record.headers,
    }
}
