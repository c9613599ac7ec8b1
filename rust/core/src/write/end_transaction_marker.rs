//! The control batch that commits or aborts a producer's transaction in a partition.

use crate::base::error::Result;
use crate::format::record::Headers;
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};

/// Returns the marker that ends a producer's transaction in a partition: a batch of one control record, 78 bytes.
///
/// Uses the base offset, the leader epoch, and the producer's id and epoch of `options`. A marker has no sequence and
/// is never compressed.
pub fn end_transaction_marker(
    options: &BatchOptions,
    commit: bool,
    coordinator_epoch: i32,
    timestamp: i64,
) -> Result<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    builder.begin(BatchOptions {
        base_offset: options.base_offset,
        partition_leader_epoch: options.partition_leader_epoch,
        producer_id: options.producer_id,
        producer_epoch: options.producer_epoch,
        is_transactional: true,
        is_control: true,
        ..BatchOptions::default()
    })?;
    let [a, b, c, d] = coordinator_epoch.to_be_bytes();
    builder.append(&NewRecord {
        offset: options.base_offset,
        timestamp,
        key: Some(&[0, 0, 0, u8::from(commit)]),
        value: Some(&[0, 0, a, b, c, d]),
        headers: Headers::NONE,
    })?;
    let mut marker = Vec::new();
    builder.finish(&mut marker)?;
    Ok(marker)
}
