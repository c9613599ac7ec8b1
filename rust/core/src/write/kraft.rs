//! A KRaft snapshot (`RecordsSnapshotWriter`): metadata records between a header and a footer, as batches of magic 2.
//!
//! The first batch holds the control record SnapshotHeader, and the control records of the voters if the snapshot has
//! them. The last batch holds SnapshotFooter. Offsets of all records are consecutive, from 0.

use crate::base::error::Result;
use crate::format::control::ControlType;
use crate::format::record::Headers;
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};

/// The time of the last record before the snapshot. This value means that there is no such record.
const HEADER: &[u8] = br#"{"version": 0, "lastContainedLogTimestamp": 0}"#;
const FOOTER: &[u8] = br#"{"version": 0}"#;
/// The largest batch that the Raft layer reads (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`).
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Appends to `out` a snapshot that covers only these records, as `bootstrap.checkpoint` contains it.
///
/// `controls` are further control records after the header: types, and values as JSON. `timestamp` is the timestamp of
/// every record, ms. The leader epoch is 0.
pub fn kraft_snapshot<'a>(
    records: impl IntoIterator<Item = &'a [u8]>,
    controls: impl IntoIterator<Item = (ControlType, &'a [u8])>,
    timestamp: i64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut snapshot = SnapshotBuilder {
        builder: BatchBuilder::new(),
        offset: 0,
        timestamp,
    };
    snapshot.begin(true)?;
    snapshot.control(ControlType::SnapshotHeader, HEADER)?;
    for (control_type, value) in controls {
        snapshot.control(control_type, value)?;
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
    snapshot.begin(true)?;
    snapshot.control(ControlType::SnapshotFooter, FOOTER)?;
    snapshot.builder.finish(out)?;
    Ok(())
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

    fn control(&mut self, control_type: ControlType, json: &[u8]) -> Result<()> {
        self.append(
            Some(&control_type.key()),
            &control_type.value_from_json(json)?,
        )
    }
}
