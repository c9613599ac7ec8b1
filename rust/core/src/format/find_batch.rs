//! The search for the next batch after damage, where the framing is lost.

use std::ops::Range;

use crate::format::batch::{BATCH_OVERHEAD, Header, LOG_OVERHEAD, MAGIC_AT};
use crate::format::record::MIN_BYTES;

/// The meaningful attribute bits of magic 2.
const KNOWN_ATTRIBUTES: i16 = 0x7f;
/// The maximum size of a found batch. A larger batch is probably damage that looks like a header, and its verification
/// would need a checksum over all its bytes.
const MAX_SIZE: usize = 16 << 20;

/// Returns the first plausible header in `bytes`, which lie at `position` of a file of `end` bytes. Its offsets lie in
/// `offsets`, and its lengths and counts agree with each other and with the file. The checksum is not verified. Batches
/// above 16 MiB and headers that do not end in `bytes` are skipped.
pub fn find_batch(bytes: &[u8], position: u64, end: u64, offsets: &Range<i64>) -> Option<Header> {
    let starts = bytes.len().saturating_sub(MAGIC_AT);
    (0..starts).find_map(|at| {
        let entry = bytes.get(at..)?;
        let offset = i64::from_be_bytes(*entry.first_chunk()?);
        let length = i32::from_be_bytes(*entry.get(8..)?.first_chunk()?);
        // A cheap test first, which almost nothing passes, not even zeros: parsing composes an error text.
        if !offsets.contains(&offset) || length <= 0 || *entry.get(MAGIC_AT)? > 2 {
            return None;
        }
        let header = Header::parse(entry, position + at as u64).ok()??;
        let is_plausible = header.size() <= MAX_SIZE
            && header.end_position() <= end
            && offsets.contains(&header.last_offset())
            && match header.records_count {
                Some(count) => is_batch(&header, count),
                None => is_message(&header, entry),
            };
        is_plausible.then_some(header)
    })
}

fn is_batch(header: &Header, count: i32) -> bool {
    let is_packed = header.compression_id() != 0;
    let room = (header.size() - BATCH_OVERHEAD) / MIN_BYTES;
    (0..=KNOWN_ATTRIBUTES).contains(&header.attributes)
        && (0..=i64::from(header.last_offset_delta) + 1).contains(&i64::from(count))
        && (is_packed || count as usize <= room)
}

/// Returns true if the lengths of key and value, as far as they are in `entry`, match the length of the message.
fn is_message(header: &Header, entry: &[u8]) -> bool {
    let length_at = |at: usize| {
        let length = entry.get(at..)?.first_chunk()?;
        Some(i32::from_be_bytes(*length).max(0) as usize)
    };
    let key_at = LOG_OVERHEAD + if header.magic == 0 { 6 } else { 14 };
    let Some(key) = length_at(key_at) else {
        return true;
    };
    let value_at = key_at + 4 + key;
    if value_at + 4 > header.size() {
        return false;
    }
    length_at(value_at).is_none_or(|value| value_at + 4 + value == header.size())
}
