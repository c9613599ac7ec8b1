//! `Decoder`: decodes the bytes of a log to columns, chunk by chunk.

use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::walk::{
    NextBatch, check_first_offset, check_offset_range, framing_holds, next_batch,
};
use crate::read::columns::Columns;
use crate::read::fetch::{Fetch, Progress};

/// A decoder for one range of a log. It keeps its position between calls.
pub struct Decoder {
    fetch: Fetch,
    /// The rows of the last call. Take them before the next one.
    pub columns: Columns,
    /// A call returns after the batch that reaches this many rows, or bytes.
    max_rows: usize,
    max_bytes: usize,
    /// The size in bytes of the batch after the consumed bytes; 0 if unknown.
    pub needed: usize,
    /// The offset after the last consumed batch; -1 before any.
    pub next_offset: i64,
    /// The lowest offset that the next batch may have, and the end below which all offsets must be. None for any
    /// offset.
    pub order: Option<(i64, i64)>,
    /// True if offsets are missing before a batch: a cleaner removed them, or the batch was moved here.
    pub has_gap: bool,
    /// The position of a skipped batch that may contain the first wanted offset, because no later batch contains it.
    /// The caller must verify the checksum of this batch. A call ends before the batch after it.
    pub doubted: Option<u64>,
    /// The position of the last batch that was skipped because, by its header, it ends below the wanted offsets.
    below: Option<u64>,
    /// Rows below this offset are left out. They are in a batch that a survey keeps although it begins below the end of
    /// the previous batch.
    pub floor: i64,
    /// The position of a batch that overlaps the previous batch. Its rows are wanted from the end of the previous batch
    /// on.
    pub(crate) overlapping: Option<u64>,
    check_crcs: bool,
}

impl Decoder {
    /// Creates a decoder that appends to `columns`. With `check_crcs`, checksums are verified.
    pub fn new(
        fetch: Fetch,
        columns: Columns,
        (max_rows, max_bytes): (usize, usize),
        order: Option<(i64, i64)>,
        check_crcs: bool,
    ) -> Self {
        Self {
            fetch,
            columns,
            max_rows,
            max_bytes,
            needed: 0,
            next_offset: -1,
            order,
            has_gap: false,
            doubted: None,
            below: None,
            floor: i64::MIN,
            overlapping: None,
            check_crcs,
        }
    }

    /// True if the search is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        let search = self.fetch.search.as_ref();
        search.is_some_and(|search| search.is_stopped())
    }

    /// Forgets the previous batches, but still leaves out the rows that have been returned.
    pub(crate) fn restart(&mut self, order: (i64, i64)) {
        self.fetch.leave_out_below(self.next_offset);
        self.order = Some(order);
        self.next_offset = -1;
        self.has_gap = false;
        (self.doubted, self.below) = (None, None);
    }

    /// Decodes whole batches until there are enough rows, the bytes end, or a batch is damaged. Returns the bytes
    /// consumed.
    pub fn decode(&mut self, data: &[u8], position: u64) -> Result<usize> {
        let mut consumed = 0;
        self.needed = 0;
        while self.columns.rows() < self.max_rows && self.columns.bytes() < self.max_bytes {
            let rest = data.get(consumed..).unwrap_or_default();
            let (header, entry) = match next_batch(rest, position + consumed as u64) {
                Ok(NextBatch::Batch(header, entry)) => (header, entry),
                Ok(NextBatch::NeedMore(bytes)) => {
                    self.needed = bytes;
                    break;
                }
                Err(_) if self.has_progress(consumed) => break,
                Err(error) => return Err(error),
            };
            let is_below = self.fetch.is_below(&header);
            if self.order.is_some() && !is_below {
                self.doubted = self
                    .below
                    .take()
                    .filter(|_| self.check_crcs && self.fetch.begins_before(&header));
                if self.doubted.is_some() {
                    break;
                }
            }
            let taken = self.is_in_order(&header, entry).and_then(|floor| {
                self.fetch
                    .batch_from(floor, &header, rest, &mut self.columns)
            });
            match taken {
                Ok(Progress::Complete) => {
                    consumed += header.size();
                    self.below = is_below.then_some(header.position);
                    self.next_offset = header.next_offset();
                    if let Some((next_offset, _)) = &mut self.order {
                        self.has_gap = *next_offset < header.base_offset;
                        *next_offset = self.next_offset;
                        self.fetch.next_offset = self.next_offset;
                    }
                }
                // The next call continues with this batch. If none of its rows were wanted, there is nothing to return
                // yet.
                Ok(Progress::Partial) if self.columns.rows() == 0 => {}
                Ok(Progress::Partial | Progress::ColumnsFull) => break,
                // The rows before the damage are returned first. The next call starts at it and reports it.
                Err(_) if self.has_progress(consumed) => break,
                Err(mut error) => {
                    let after = rest.get(entry.len()..).unwrap_or_default();
                    if framing_holds(after, header.end_position(), header.base_offset) {
                        error.next_position = Some(header.end_position());
                    }
                    return Err(error);
                }
            }
        }
        if let Some(search) = &self.fetch.search {
            search.count_bytes(consumed);
        }
        Ok(consumed)
    }

    /// Refuses a first batch in `data` that does not continue where the last one ended. `first_offset` is the offset of
    /// its first record, which a wrapper's header does not contain.
    pub fn check_order(&self, data: &[u8], position: u64, first_offset: Option<i64>) -> Result<()> {
        // Decoding reports what is wrong with a header.
        match (self.order, Header::parse(data, position).ok().flatten()) {
            (Some((next_offset, limit)), Some(header)) => {
                check_offset_range(&header, next_offset, limit)
                    .and_then(|()| {
                        check_first_offset(first_offset.unwrap_or(i64::MAX), next_offset)
                    })
                    .map_err(|error| error.at(position, Some(header.base_offset)))
            }
            _ => Ok(()),
        }
    }

    /// Checks a batch's offsets before the batch may be skipped by its offsets, which no checksum covers. Returns the
    /// offset below which its rows are left out, because they were in the previous batch already.
    fn is_in_order(&self, header: &Header, entry: &[u8]) -> Result<i64> {
        let Some((next_offset, limit)) = self.order else {
            return Ok(i64::MIN);
        };
        if header.magic == 2 && header.base_offset < self.floor {
            return Ok(self.floor);
        }
        if self.overlapping == Some(header.position) {
            return Ok(next_offset);
        }
        let checked = check_offset_range(header, next_offset, limit);
        checked.map(|()| i64::MIN).map_err(|error| {
            let summed = if self.check_crcs {
                header.check_crc(entry)
            } else {
                Ok(())
            };
            // If the header itself is damaged, that is the error to report.
            summed
                .err()
                .unwrap_or(error)
                .at(header.position, Some(header.base_offset))
        })
    }

    fn has_progress(&self, consumed: usize) -> bool {
        consumed > 0 || self.columns.rows() > 0
    }
}
