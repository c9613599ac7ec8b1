//! The search for an offset by timestamp inside one segment (`LogSegment.findOffsetByTimestamp`).

use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::message::MessageSet;
use crate::format::record;

/// A record found by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampMatch {
    /// The record's timestamp, ms.
    pub timestamp: i64,
    /// The record's offset.
    pub offset: i64,
    /// The batch's leader epoch; -1 for none.
    pub leader_epoch: i32,
}

/// The conditions that a record must match.
#[derive(Debug, Clone, Copy)]
pub struct TimestampQuery {
    /// The least timestamp, ms.
    pub timestamp: i64,
    /// The least offset.
    pub start_offset: i64,
    /// True if the timestamp must be equal. The record must then be in the first batch whose largest timestamp is this
    /// timestamp.
    pub exact: bool,
}

impl TimestampQuery {
    /// Returns true if the batch may hold a match, judged by its header.
    fn is_candidate(&self, header: &Header) -> bool {
        if self.exact {
            header.max_timestamp == self.timestamp
        } else {
            header.max_timestamp >= self.timestamp
        }
    }

    fn is_met(&self, timestamp: i64, offset: i64) -> bool {
        let in_time = if self.exact {
            timestamp == self.timestamp
        } else {
            timestamp >= self.timestamp
        };
        in_time && offset >= self.start_offset
    }
}

/// Searches the entries in `bytes`, which start at `position` of a file of `end` bytes. Control records can match.
///
/// Returns the match, and the position to continue at, as from [`crate::HeaderWalk::feed`]. Bodies that cannot hold a
/// match are not needed. At `end`, the search is complete.
pub fn find_timestamp(
    bytes: &[u8],
    position: u64,
    end: u64,
    target: TimestampQuery,
    decompressor: &mut Decompressor,
) -> Result<(Option<TimestampMatch>, u64)> {
    let mut at = position;
    loop {
        let rest = match usize::try_from(at - position)
            .ok()
            .and_then(|skip| bytes.get(skip..))
        {
            Some(rest) if !rest.is_empty() => rest,
            _ => return Ok((None, at)),
        };
        let Some(header) = Header::parse(rest, at)? else {
            let is_cut = at + rest.len() as u64 >= end;
            return Ok((None, if is_cut { end } else { at }));
        };
        if header.end_position() > end {
            return Ok((None, end));
        }
        if target.is_candidate(&header) {
            if target.exact && header.magic == 0 {
                // `RecordBatch.offsetOfMaxTimestamp` is none for magic 0, and Kafka searches no further.
                return Ok((None, end));
            }
            let Some(entry) = rest.get(..header.size()) else {
                return Ok((None, at));
            };
            let found = find_in_batch(&header, entry, target, decompressor)
                .map_err(|error| header.locate(error))?;
            if found.is_some() || target.exact {
                // Kafka trusts the first such batch and searches no further.
                return Ok((found, if found.is_some() { at } else { end }));
            }
        }
        at = header.end_position();
    }
}

fn find_in_batch(
    header: &Header,
    entry: &[u8],
    target: TimestampQuery,
    decompressor: &mut Decompressor,
) -> Result<Option<TimestampMatch>> {
    let mut found = None;
    let mut meet = |timestamp, offset| {
        if found.is_none() && target.is_met(timestamp, offset) {
            found = Some(TimestampMatch {
                timestamp,
                offset,
                leader_epoch: header.partition_leader_epoch,
            });
        }
        Ok(())
    };
    if header.magic == 2 {
        let payload = record::payload(header, entry, decompressor)?;
        record::for_each(payload, header.records_count.unwrap_or(0), |record| {
            let (timestamp, offset) = record.timestamp_and_offset(header);
            meet(timestamp, offset)
        })?;
    } else {
        MessageSet::open(header, entry, decompressor)?
            .for_each(false, |message| meet(message.timestamp, message.offset))?;
    }
    Ok(found)
}
