//! Offsets for times inside one segment (`LogSegment.findOffsetByTimestamp`).

use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::message::MessageSet;
use crate::format::record;

/// A record found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampMatch {
    /// The record's, ms.
    pub timestamp: i64,
    /// The record's.
    pub offset: i64,
    /// The batch's; -1 for none.
    pub leader_epoch: i32,
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct TimestampQuery {
    /// At least this late, ms.
    pub timestamp: i64,
    /// At least this far in the log.
    pub start_offset: i64,
    /// Exactly this late, in the first batch whose greatest timestamp it is.
    pub exact: bool,
}

impl TimestampQuery {
    /// Whether a batch may hold an answer, by its header.
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

/// Searches the entries in `bytes`, at `position` of a file of `end` bytes; control records count.
///
/// Returns what was found, and the position wanted next, as [`crate::HeaderWalk::feed`] does: bodies that cannot hold
/// an answer are not needed. At `end` there is nothing more to search.
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
                // `RecordBatch.offsetOfMaxTimestamp`: none, and Kafka looks no further.
                return Ok((None, end));
            }
            let Some(entry) = rest.get(..header.size()) else {
                return Ok((None, at));
            };
            let found = find_in_batch(&header, entry, target, decompressor)
                .map_err(|error| header.locate(error))?;
            if found.is_some() || target.exact {
                // The first batch that says so is believed, and Kafka looks no further.
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
            let (timestamp, offset) = header.timestamp_and_offset(&record);
            meet(timestamp, offset)
        })?;
    } else {
        MessageSet::open(header, entry, decompressor)?
            .for_each(false, |message| meet(message.timestamp, message.offset))?;
    }
    Ok(found)
}
