//! The records of an entry of any magic, in the form that a builder accepts.

use crate::base::error::Result;
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::message::MessageSet;
use crate::format::record::{self, Headers};
use crate::format::walk;
use crate::write::batch_builder::NewRecord;

/// Counts the records of an entry. Only magic 2 has the count in its header.
pub(crate) fn count(header: &Header, entry: &[u8], decompressor: &mut Decompressor) -> Result<u64> {
    count_from(header, entry, decompressor, i64::MIN)
}

/// Counts the records of an entry. Refuses an entry that begins below `next_offset`. No checksum covers a wrapper's
/// offset. So a flipped bit can give its messages the offsets of earlier messages, and only the messages themselves
/// reveal this.
pub(crate) fn count_from(
    header: &Header,
    entry: &[u8],
    decompressor: &mut Decompressor,
    next_offset: i64,
) -> Result<u64> {
    walk::check_offset(header, next_offset)?;
    if let Some(count) = header.records_count {
        return Ok(count.max(0).unsigned_abs().into());
    }
    let mut count = 0;
    for_each(header, entry, decompressor, false, |record| {
        count += 1;
        walk::check_first_offset(record.offset, next_offset)
    })?;
    Ok(count)
}

/// Calls `visit` with each record of the entry, in the order of its bytes. The caller verifies the entry's own
/// checksum. With `check_crcs`, this function verifies the checksums of messages in a wrapper.
pub(crate) fn for_each(
    header: &Header,
    entry: &[u8],
    decompressor: &mut Decompressor,
    check_crcs: bool,
    mut visit: impl FnMut(NewRecord<'_>) -> Result<()>,
) -> Result<()> {
    if header.magic == 2 {
        let payload = record::payload(header, entry, decompressor)?;
        let count = header.records_count.unwrap_or(0);
        return record::for_each(payload, count, |record| {
            let (timestamp, offset) = record.timestamp_and_offset(header);
            visit(NewRecord {
                offset,
                timestamp,
                key: record.key,
                value: record.value,
                headers: record.headers,
            })
        });
    }
    MessageSet::open(header, entry, decompressor)?.for_each(check_crcs, |message| {
        visit(NewRecord {
            offset: message.offset,
            timestamp: message.timestamp,
            key: message.key,
            value: message.value,
            headers: Headers::NONE,
        })
    })
}
