//! A walk over headers that skips the bodies: what a log holds without reading its records.

use crate::base::error::Result;
use crate::format::batch::{CRC_END, Header};
use crate::format::walk::check_offset_range;
use crate::read::transactions::Transactions;

/// What the headers of a log, or of a part of one, say together.
#[derive(Debug, Default)]
pub struct HeaderWalk {
    /// Open and aborted transactions.
    pub transactions: Transactions,
    /// The tail is reached: nothing whole follows.
    pub done: bool,
    /// Where the last whole entry ends.
    pub end_position: u64,
    /// First entry's offset field.
    pub first_offset: Option<i64>,
    /// After the last entry.
    pub next_offset: Option<i64>,
    /// Where the last entry starts, and its first bytes: up to a checksum, in every magic.
    pub last: Option<(u64, [u8; CRC_END])>,
    /// Greatest partition leader epoch, -1 for none.
    pub leader_epoch: i32,
    /// Greatest, ms; -1 for none.
    pub max_timestamp: i64,
    /// Entries.
    pub batches: u64,
    /// Records in batches that tell; a v0/v1 entry counts as one.
    pub records: u64,
    /// Bit n set: magic n seen.
    pub magics: u8,
    /// Bit n set: codec id n seen.
    pub compressions: u8,
    /// The lowest offset that the next entry may have, and the first that none of the file may have: then what does not
    /// rise is an error, and so is a wrong checksum of an entry that is small enough for a marker.
    order: Option<(i64, i64)>,
}

/// A transaction marker is no larger. Its checksum has to be right even if it seems to be something else.
const MAX_MARKER: usize = 128;

impl HeaderWalk {
    /// Starts with `transactions` from an earlier part of the log.
    pub fn new(transactions: Transactions) -> Self {
        Self {
            transactions,
            leader_epoch: -1,
            max_timestamp: -1,
            ..Self::default()
        }
    }

    /// Takes what `bytes`, at `position` of a file of `end` bytes, hold of headers; returns the position wanted next.
    ///
    /// That may lie behind `bytes` (the body in between is not needed) or inside them (a header or a marker is
    /// cut there: give a window that starts with it). At the cut or exact end of the file, `done` is set.
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
                // Not even a header: the rest of it is either still to come or was never written.
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
            self.verify(&header, entry.unwrap_or_default(), may_be_marker)
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

    fn verify(&mut self, header: &Header, entry: &[u8], may_be_marker: bool) -> Result<()> {
        if may_be_marker {
            header.check_crc(entry)?;
        }
        if let Some((next_offset, limit)) = self.order {
            check_offset_range(header, next_offset, limit)?;
            self.order = Some((header.next_offset(), limit));
        }
        Ok(())
    }

    /// The next position fed belongs to another file of the same log. With `order`, its entries are verified.
    pub fn start_file(&mut self, order: Option<(i64, i64)>) {
        self.done = false;
        self.end_position = 0;
        self.order = order;
    }
}
