//! Producer snapshots: the producers of a log at one offset (`ProducerStateManager`).
//!
//! ```text
//! int16 version = 1 | uint32 crc | int32 count | entries
//! entry: int64 producer id | int16 producer epoch | int32 last sequence | int64 last offset
//!        | int32 offset delta | int64 timestamp | int32 coordinator epoch
//!        | int64 current transaction's first offset                                         46
//! ```
//!
//! The CRC-32C covers all bytes after it, including trailing ones, which are otherwise ignored. The order of the
//! entries has no meaning.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;

const VERSION: i16 = 1;
const ENTRY: usize = 46;

/// One producer. `last_sequence`, `last_offset` and `offset_delta` describe its last batch; they are -1, -1 and 0 if
/// there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer's id.
    pub producer_id: i64,
    /// Its newest epoch.
    pub producer_epoch: i16,
    /// Last sequence of its last batch.
    pub last_sequence: i32,
    /// Last offset of its last batch.
    pub last_offset: i64,
    /// Last offset minus first offset of that batch.
    pub offset_delta: i32,
    /// Timestamp of its last batch or marker, ms.
    pub timestamp: i64,
    /// Coordinator epoch of its last marker; -1 before the first marker.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction; -1 for none.
    pub current_txn_first_offset: i64,
}

/// Parses the content of a `.snapshot` file.
pub fn producer_snapshot(data: &[u8]) -> Result<Vec<ProducerState>> {
    let mut reader = Reader::new(data);
    let version = reader.i16()?;
    if version != VERSION {
        return Err(Error::corrupt(format!(
            "producer snapshot version {version} is not {VERSION}"
        )));
    }
    let stored = reader.u32()?;
    let computed = crate::format::batch::crc32c(reader.rest());
    if stored != computed {
        return Err(Error::corrupt(format!(
            "producer snapshot crc mismatch: stored {stored:08x}, computed {computed:08x}"
        )));
    }
    let count = reader.i32()?;
    // The count is checked before memory is allocated for it.
    let present = reader.remaining() / ENTRY;
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count <= present)
        .ok_or_else(|| {
            Error::corrupt(format!(
                "producer snapshot declares {count} entries, but has room for {present}"
            ))
            .at(6, None)
        })?;
    (0..count).map(|_| entry(&mut reader)).collect()
}

fn entry(reader: &mut Reader<'_>) -> Result<ProducerState> {
    Ok(ProducerState {
        producer_id: reader.i64()?,
        producer_epoch: reader.i16()?,
        last_sequence: reader.i32()?,
        last_offset: reader.i64()?,
        offset_delta: reader.i32()?,
        timestamp: reader.i64()?,
        coordinator_epoch: reader.i32()?,
        current_txn_first_offset: reader.i64()?,
    })
}

/// Returns the content of a `.snapshot` file with these producers, in their order.
pub fn write_producer_snapshot(producers: &[ProducerState]) -> Vec<u8> {
    let mut entries = Vec::with_capacity(4 + ENTRY * producers.len());
    entries.extend((producers.len() as i32).to_be_bytes());
    for producer in producers {
        entries.extend(producer.producer_id.to_be_bytes());
        entries.extend(producer.producer_epoch.to_be_bytes());
        entries.extend(producer.last_sequence.to_be_bytes());
        entries.extend(producer.last_offset.to_be_bytes());
        entries.extend(producer.offset_delta.to_be_bytes());
        entries.extend(producer.timestamp.to_be_bytes());
        entries.extend(producer.coordinator_epoch.to_be_bytes());
        entries.extend(producer.current_txn_first_offset.to_be_bytes());
    }
    let mut file = Vec::with_capacity(6 + entries.len());
    file.extend(VERSION.to_be_bytes());
    file.extend(crate::format::batch::crc32c(&entries).to_be_bytes());
    file.extend(entries);
    file
}
