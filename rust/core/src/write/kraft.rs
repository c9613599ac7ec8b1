//! A KRaft snapshot (`RecordsSnapshotWriter`): metadata records between a header and a footer, as batches of magic 2.
//!
//! The first batch holds the control record SnapshotHeader, and those of the voters, if they are in the snapshot; the
//! last one SnapshotFooter. Offsets count through all of them from 0. All are Kafka's generated messages at version 0
//! (see `control`).

use crate::base::error::Result;
use crate::format::record::Headers;
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};

/// Keys of control records: int16 version 0, int16 type.
const SNAPSHOT_HEADER: [u8; 4] = [0, 0, 0, 3];
const SNAPSHOT_FOOTER: [u8; 4] = [0, 0, 0, 4];
/// int16 version, int64 timestamp of the last record that the snapshot covers (0 for none), no tagged fields.
const HEADER_VALUE: [u8; 11] = [0; 11];
/// int16 version, no tagged fields.
const FOOTER_VALUE: [u8; 3] = [0; 3];
/// The largest batch that the Raft layer reads (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`).
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Appends to `out` a snapshot that covers only these records, as `bootstrap.checkpoint` contains it.
///
/// `controls` are further control records behind the header, each with its type. `timestamp` is that of every record,
/// ms. The leader epoch is 0.
pub fn kraft_snapshot<'a>(
    records: impl IntoIterator<Item = &'a [u8]>,
    controls: impl IntoIterator<Item = (i16, &'a [u8])>,
    timestamp: i64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut snapshot = SnapshotBuilder {
        builder: BatchBuilder::new(),
        offset: 0,
        timestamp,
    };
    snapshot.begin(true)?;
    snapshot.append(Some(&SNAPSHOT_HEADER), &HEADER_VALUE)?;
    for (kind, value) in controls {
        let [high, low] = kind.to_be_bytes();
        snapshot.append(Some(&[0, 0, high, low]), value)?;
    }
    snapshot.builder.finish(out)?;
    snapshot.begin(false)?;
    for record in records {
        if !snapshot.has_room_for(record) {
            snapshot.builder.finish(out)?;
            snapshot.begin(false)?;
        }
        snapshot.append(None, record)?;
    }
    snapshot.builder.finish(out)?;
    snapshot.control(&SNAPSHOT_FOOTER, &FOOTER_VALUE, out)
}

struct SnapshotBuilder {
    builder: BatchBuilder,
    /// Offset of the next record.
    offset: i64,
    timestamp: i64,
}

impl SnapshotBuilder {
    fn begin(&mut self, is_control: bool) -> Result<()> {
        self.builder.begin(BatchOptions {
            base_offset: self.offset,
            partition_leader_epoch: 0,
            is_control,
            ..BatchOptions::default()
        })
    }

    fn record<'a>(&self, key: Option<&'a [u8]>, value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            offset: self.offset,
            timestamp: self.timestamp,
            key,
            value: Some(value),
            headers: Headers::NONE,
        }
    }

    fn has_room_for(&self, record: &[u8]) -> bool {
        self.builder
            .has_room_for(&self.record(None, record), MAX_BATCH_BYTES)
    }

    fn append(&mut self, key: Option<&[u8]>, value: &[u8]) -> Result<()> {
        let record = self.record(key, value);
        self.builder.append(&record)?;
        self.offset += 1;
        Ok(())
    }

    fn control(&mut self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.begin(true)?;
        self.append(Some(key), value)?;
        self.builder.finish(out)?;
        Ok(())
    }
}
