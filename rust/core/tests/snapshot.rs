//! Producer snapshots are read and refused as by Kafka. A wrongly read open transaction would move the last stable
//! offset.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{ErrorKind, ProducerState, crc32c, producer_snapshot};
use support::hex;

const ENTRY: &str =
    "0000000000000fa10003000000150000000000000029000000040000018bcfe5680000000007ffffffffffffffff";

const PRODUCER: ProducerState = ProducerState {
    producer_id: 4001,
    producer_epoch: 3,
    last_sequence: 21,
    last_offset: 41,
    offset_delta: 4,
    timestamp: 1700000000000,
    coordinator_epoch: 7,
    current_txn_first_offset: -1,
};

/// A snapshot with a right checksum.
fn snapshot(version: &str, count: &str, entries: &str) -> Vec<u8> {
    let body = hex(&format!("{count}{entries}"));
    [&hex(version)[..], &crc32c(&body).to_be_bytes(), &body].concat()
}

#[test]
fn snapshots_that_kafka_reads() {
    let written = hex(&format!("000117bbf98000000001{ENTRY}"));
    assert_eq!(producer_snapshot(&written), Ok(vec![PRODUCER]));
    assert_eq!(producer_snapshot(&hex("000148674bc700000000")), Ok(vec![]));
    let open = ENTRY.replace("ffffffffffffffff", "0000000000000026");
    assert_eq!(
        producer_snapshot(&snapshot("0001", "00000002", &format!("{ENTRY}{open}"))),
        Ok(vec![
            PRODUCER,
            ProducerState {
                current_txn_first_offset: 38,
                ..PRODUCER
            }
        ])
    );
    let trailing = snapshot("0001", "00000001", &format!("{ENTRY}0000"));
    assert_eq!(
        producer_snapshot(&trailing),
        Ok(vec![PRODUCER]),
        "bytes that the checksum covers"
    );
    assert_eq!(
        producer_snapshot(&snapshot("0001", "00000000", ENTRY)),
        Ok(vec![])
    );
}

#[test]
fn snapshots_that_kafka_throws_away() {
    let good = hex(&format!("000117bbf98000000001{ENTRY}"));
    for bad in [
        snapshot("0000", "00000001", ENTRY),
        snapshot("0002", "00000001", ENTRY),
        snapshot("0001", "00000002", ENTRY),
        snapshot("0001", "ffffffff", ENTRY),
        snapshot("0001", "7fffffff", ""),
        snapshot("0001", "", ""),
        [&good[..], &[0, 0]].concat(),
    ] {
        assert_eq!(
            producer_snapshot(&bad).unwrap_err().kind,
            ErrorKind::Corrupt
        );
    }
    for cut in 0..good.len() {
        assert_eq!(
            producer_snapshot(&good[..cut]).unwrap_err().kind,
            ErrorKind::Corrupt,
            "{cut}"
        );
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(
            producer_snapshot(&bad).unwrap_err().kind,
            ErrorKind::Corrupt,
            "{at}"
        );
    }
}
