//! Sequences continue from batch to batch and follow the offsets.

use brokerless_core::{
    Compression, Header, Headers, HeadersBuffer, NewRecord, NextBatch, SourceFields, TimestampType,
    next_batch,
};

use crate::columns::Table;
use crate::{T, writer};

#[test]
fn what_is_discarded_leaves_no_trace() {
    let mut writer = writer(Compression::Gzip, 100, i32::MAX);
    let mut table = Table::default();
    for _ in 0..10 {
        table.push(None, 50, T);
    }
    let (expected, _) = table.batches(&mut writer, true);
    assert_eq!(writer.next_sequence(), 10);
    writer
        .push(table.record(0, &mut HeadersBuffer::default()))
        .unwrap();
    writer
        .push(table.record(1, &mut HeadersBuffer::default()))
        .unwrap();
    writer.discard();
    assert_eq!(writer.next_sequence(), 10);
    let (again, _) = table.batches(&mut writer, true);
    assert_eq!(again.len(), expected.len());
    let first = Header::parse(&again, 0).unwrap().unwrap();
    assert_eq!(first.base_sequence, 10);
}

/// Sequences follow offset deltas: a gap in the offsets is a gap in the sequences.
#[test]
fn kept_gaps_take_sequences() {
    let mut writer = writer(Compression::None, 1 << 20, 2);
    let place = SourceFields {
        leader_epoch: Some(3),
        timestamp_type: Some(TimestampType::CreateTime),
    };
    for offset in [10, 15, 20] {
        let record = NewRecord {
            offset,
            timestamp: T,
            key: None,
            value: None,
            headers: Headers::NONE,
        };
        writer.push_at(&record, place).unwrap();
    }
    let (bytes, length) = writer.finish(Vec::new()).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(NextBatch::Batch(header, _)) = next_batch(&bytes[at..length], 0) {
        found.push((
            header.base_offset,
            header.base_sequence,
            header.last_sequence(),
        ));
        at += header.size();
    }
    assert_eq!(found, [(10, 0, 5), (20, 6, 6)]);
    assert_eq!(writer.next_sequence(), 7);
}
