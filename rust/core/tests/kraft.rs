//! A KRaft snapshot equals the one that Kafka 4.1.0's `StorageTool format` wrote.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use brokerless_core::{Header, NextBatch, kraft_snapshot, next_batch};
use support::hex;

/// The time of writing, ms.
const NOW: i64 = 1_795_274_600_615;

/// The file that `kafka.tools.StorageTool format` wrote for `process.roles=broker,controller`.
const FORMATTED: &str = "0000000000000000000000470000000002525c27be002000000000000001a1feb470a7000001a1feb470a7ffffffffffffff\
    ffffffffffffff000000012a0000000800000003160000000000000000000000000000000000000001000000b90000000002\
    b5726e99000000000003000001a1feb470d8000001a1feb470d8ffffffffffffffffffffffffffff000000043a000000012e\
    010c00116d657461646174612e76657273696f6e001b00005a000002014e010c0021656c696769626c652e6c65616465722e\
    7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e76657273696f6e00010000400000\
    060134010c00147472616e73616374696f6e2e76657273696f6e0002000000000000000000050000003f00000000029df8e6\
    e4002000000000000001a1feb470d9000001a1feb470d9ffffffffffffffffffffffffffff000000011a0000000800000004\
    0600000000";

/// The header and the bytes of each batch.
fn batches(mut content: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut batches = vec![];
    while !content.is_empty() {
        let NextBatch::Batch(header, batch) = next_batch(content, 0).unwrap() else {
            panic!("cut")
        };
        header.check_crc(batch).unwrap();
        batches.push((header, batch.to_vec()));
        content = &content[batch.len()..];
    }
    batches
}

/// Removes the fields that depend on the clock, which Kafka reads for each batch.
fn without_times(batches: Vec<(Header, Vec<u8>)>) -> Vec<Vec<u8>> {
    batches
        .into_iter()
        .map(|(_, mut batch)| {
            batch[17..21].fill(0); // crc
            batch[27..43].fill(0); // base and max timestamp
            batch
        })
        .collect()
}

#[test]
fn a_snapshot_is_the_one_that_kafka_writes_but_for_the_time() {
    let records: Vec<Vec<u8>> = [
        "010c00116d657461646174612e76657273696f6e001b00",
        "010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e000100",
        "010c000e67726f75702e76657273696f6e000100",
        "010c00147472616e73616374696f6e2e76657273696f6e000200",
    ]
    .map(hex)
    .into();
    let mut out = b"before".to_vec();
    kraft_snapshot(records.iter().map(Vec::as_slice), [], NOW, &mut out).unwrap();
    let ours = batches(out.strip_prefix(b"before").unwrap());
    assert!(ours.iter().all(|(header, _)| header.max_timestamp == NOW));
    assert_eq!(without_times(ours), without_times(batches(&hex(FORMATTED))));
}

#[test]
fn no_batch_is_larger_than_the_raft_layer_reads() {
    let record = vec![7; 3 << 20];
    let mut out = vec![];
    kraft_snapshot((0..5).map(|_| record.as_slice()), [], NOW, &mut out).unwrap();
    let batches = batches(&out);
    assert!(batches.iter().all(|(_, batch)| batch.len() <= 8 << 20));
    let offsets: Vec<_> = batches
        .iter()
        .map(|(header, _)| (header.base_offset, header.last_offset()))
        .collect();
    assert_eq!(offsets, [(0, 0), (1, 2), (3, 4), (5, 5), (6, 6)]);
}

#[test]
fn a_snapshot_of_nothing_is_its_header_and_footer() {
    let mut out = vec![];
    kraft_snapshot([], [], NOW, &mut out).unwrap();
    assert!(batches(&out).iter().all(|(header, _)| header.is_control()));
    assert_eq!(batches(&out).len(), 2);
}
