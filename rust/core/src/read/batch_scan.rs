//! A scan over batch headers that skips the records.

use crate::base::error::Result;
use crate::format::batch::BATCH_OVERHEAD;
use crate::format::batch::{CRC_END, Header};
use crate::format::walk::{check_offset_range, is_continued, may_overlap};
use crate::read::transactions::Transactions;

/// The facts from the headers of a log, or of a part of it.
#[derive(Debug, Default)]
pub struct HeaderWalk {
    /// Open and aborted transactions.
    pub transactions: Transactions,
    /// True if the scan has reached the end: no whole entry follows.
    pub done: bool,
    /// The position at which the last whole entry ends.
    pub end_position: u64,
    /// The offset field of the first entry.
    pub first_offset: Option<i64>,
    /// The offset after the last entry.
    pub next_offset: Option<i64>,
    /// The position of the last entry, and its first bytes, up to a checksum in every magic.
    pub last: Option<(u64, [u8; CRC_END])>,
    /// The greatest partition leader epoch; -1 for none.
    pub leader_epoch: i32,
    /// The largest timestamp, ms; -1 for none.
    pub max_timestamp: i64,
    /// The number of entries.
    pub batches: u64,
    /// The number of records. An entry of v0 or v1, which has no records count, is counted as one record.
    pub records: u64,
    /// Bit n is set if magic n occurs.
    pub magics: u8,
    /// Bit n is set if codec id n occurs.
    pub compressions: u8,
    /// The lowest allowed offset of the next entry, and the offset below which all entries of the file must end. If
    /// set, two faults are errors: offsets that do not rise, and wrong checksums of entries small enough for a marker.
    order: Option<(i64, i64)>,
    /// True if offsets are missing before an entry of the file.
    has_gap: bool,
}

/// The largest entry that may be a transaction marker. The checksum of an entry up to this size must be right, even if
/// its header does not describe a marker.
const MAX_MARKER: usize = 128;

impl HeaderWalk {
    /// Starts with the `transactions` of an earlier part of the log.
    pub fn new(transactions: Transactions) -> Self {
        Self {
            transactions,
            leader_epoch: -1,
            max_timestamp: -1,
            ..Self::default()
        }
    }

    /// Scans the headers in `bytes`, which start at `position` of a file of `end` bytes. Returns the position to
    /// continue at.
    ///
    /// The position to continue at may lie after `bytes`, because the scan skips the bodies of batches. If `bytes` end
    /// within a header or a marker, the position lies inside `bytes`; the next window must then start there. At the end
    /// of the file, or at an incomplete last entry, `done` is set.
    pub fn feed(&mut self, bytes: &[u8], position: u64, end: u64) -> Result<u64> {
        let mut at = position;
        while !self.done {
            let rest = match usize::try_from(at - position)
                .ok()
                .and_then(|skip| bytes.get(skip..))
            {
                Some(rest) if !rest.is_empty() || at >= end => rest,
                _ => return Ok(at),
            };
            let Some(header) = Header::parse(rest, at)? else {
                // Less than a header is left: the rest is still to come, or was never written.
                self.done = at + rest.len() as u64 >= end;
                self.end_position = at;
                return Ok(at);
            };
            if header.end_position() > end {
                self.done = true;
                self.end_position = at;
                return Ok(at);
            }
            let entry = rest.get(..header.size());
            let may_be_marker = self.order.is_some() && header.size() <= MAX_MARKER;
            if (header.is_control() || may_be_marker) && entry.is_none() {
                return Ok(at);
            }
            let after = rest.get(header.size()..).unwrap_or_default();
            let is_cut_off =
                after.len() < BATCH_OVERHEAD && header.end_position() + (after.len() as u64) < end;
            if is_cut_off && self.may_overlap(&header) {
                return Ok(at);
            }
            self.verify(&header, entry.unwrap_or_default(), after, may_be_marker)
                .map_err(|error| header.locate(error))?;
            self.take(&header, entry.unwrap_or_default())?;
            self.last = rest.first_chunk().map(|start| (at, *start));
            at = header.end_position();
            self.end_position = at;
        }
        Ok(at)
    }

    fn take(&mut self, header: &Header, entry: &[u8]) -> Result<()> {
        self.transactions.batch(header, entry)?;
        self.first_offset.get_or_insert(header.base_offset);
        self.next_offset = Some(header.next_offset());
        self.leader_epoch = self.leader_epoch.max(header.partition_leader_epoch);
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        self.batches += 1;
        self.records += header
            .records_count
            .map_or(1, |count| u64::from(count.max(0).unsigned_abs()));
        self.magics |= 1 << header.magic;
        self.compressions |= 1 << header.compression_id();
        Ok(())
    }

    fn verify(
        &mut self,
        header: &Header,
        entry: &[u8],
        after: &[u8],
        may_be_marker: bool,
    ) -> Result<()> {
        if may_be_marker {
            header.check_crc(entry)?;
        }
        if let Some((next_offset, limit)) = self.order {
            if let Err(error) = check_offset_range(header, next_offset, limit)
                && (!self.may_overlap(header) || !is_continued(header, limit, after))
            {
                return Err(error);
            }
            self.has_gap = next_offset < header.base_offset;
            self.order = Some((header.next_offset(), limit));
        }
        Ok(())
    }

    /// Returns true if an entry may overlap the previous one, provided that the log continues after it.
    fn may_overlap(&self, header: &Header) -> bool {
        let is_first = self.end_position == 0;
        let Some((next_offset, limit)) = self.order else {
            return false;
        };
        !is_first && !self.has_gap && may_overlap(header, next_offset, limit)
    }

    /// Starts another file of the same log. With `order`, its entries are verified.
    pub fn start_file(&mut self, order: Option<(i64, i64)>) {
        self.done = false;
        self.end_position = 0;
        self.order = order;
        self.has_gap = false;
    }
}
