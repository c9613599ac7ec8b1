//! The facts of a plain segment are collected in one pass. Any other segment is not checked. Equal batches of two files
//! are skipped.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    BatchCursor, EpochRange, OffsetGap, OffsetIndex, ProducerSequences, SegmentSummary, TimeIndex,
    UncheckedSegment, check_segment, skip_equal,
};
use support::{batch, record, row};

/// The leader epoch of the batches, and their largest timestamp.
const EPOCH: i32 = 5;
const TIME: i64 = 2000;

fn one(offset: i64) -> Vec<u8> {
    let one = row(offset, TIME, None, Some("value"));
    batch(offset, 0, 1, 0, &record(&one, offset, 1000))
}

fn segment(bytes: &[u8]) -> UncheckedSegment<'_> {
    UncheckedSegment {
        base_offset: 10,
        limit_offset: Some(20),
        size: bytes.len() as u64,
        read_length: 100,
        offset_index: None,
        time_index: None,
        is_closed: false,
        decodes: true,
        log_offset: None,
        leader_epoch: -1,
    }
}

fn check(bytes: &[u8], segment: UncheckedSegment<'_>) -> Option<SegmentSummary> {
    let mut taken = 0;
    let mut take = |batches: &[u8], position| {
        assert_eq!(position, taken);
        taken += batches.len() as u64;
    };
    let found = check_segment(
        &bytes,
        &segment,
        &mut ProducerSequences::default(),
        &mut take,
    );
    let found = found.unwrap();
    assert!(found.is_none() || taken == segment.size);
    found
}

#[test]
fn a_plain_segment_is_summed_up() {
    let bytes = [one(10), one(11), one(15)].concat();
    let position = (one(10).len() + one(11).len()) as u64;
    let gap = OffsetGap {
        position,
        start_offset: 12,
        end_offset: 15,
    };
    let epochs = vec![EpochRange {
        leader_epoch: EPOCH,
        base_offset: 10,
        last_base_offset: 15,
        last_offset: 15,
    }];
    let found = check(&bytes, segment(&bytes)).unwrap();
    assert_eq!((found.next_offset, found.leader_epoch), (16, EPOCH));
    assert_eq!((&found.epochs, &found.offset_gaps), (&epochs, &vec![gap]));
    assert!(!found.is_compacted && !found.has_producers && !found.has_transactions);
    let compacted = batch(
        10,
        0,
        1,
        4,
        &record(&row(12, TIME, None, Some("value")), 10, 1000),
    );
    assert!(check(&compacted, segment(&compacted)).unwrap().is_compacted);
    assert_eq!(check(&[], segment(&[])).unwrap().next_offset, 10);
}

#[test]
fn anything_else_is_left_alone() {
    let bytes = [one(10), one(11)].concat();
    let refuses = |bytes: &[u8], what: &str| {
        assert!(check(bytes, segment(bytes)).is_none(), "{what}");
    };
    refuses(&[one(11), one(10)].concat(), "falling offsets");
    refuses(&[one(10), one(20)].concat(), "beyond the limit");
    refuses(&one(9), "below the base offset");
    refuses(&bytes[..bytes.len() - 1], "cut");
    refuses(&[&bytes[..], &[0; 100]].concat(), "zeros");
    refuses(&batch(10, 0, 2, 1, &[one(0), one(0)].concat()), "records");
    let early = record(&row(10, 1999, None, Some("value")), 10, 1000);
    refuses(&batch(10, 0, 1, 0, &early), "the largest timestamp");
    // The low bits of the epoch and of the timestamp's base, and bits of the checksum and of a record.
    for at in [17, 34, 70] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        refuses(&changed, "a flipped bit");
    }
    let mut epoch = bytes.clone();
    epoch[15] ^= 1;
    assert!(check(&epoch, segment(&epoch)).is_none_or(|found| found.epochs.len() == 2));
    epoch[15] = 6;
    refuses(&epoch, "a falling leader epoch");
    assert!(
        check(
            &bytes,
            UncheckedSegment {
                leader_epoch: 6,
                ..segment(&bytes)
            }
        )
        .is_none()
    );
}

#[test]
fn entries_of_indexes_lead_to_batches() {
    let bytes = [one(10), one(11), one(12)].concat();
    let size = one(10).len() as i32;
    let holds = |offsets: &[(i32, i32)], times: &[(i64, i32)]| {
        let offsets: Vec<u8> = offsets
            .iter()
            .flat_map(|(offset, position)| [offset.to_be_bytes(), position.to_be_bytes()].concat())
            .collect();
        let times: Vec<u8> = times
            .iter()
            .flat_map(|(time, offset)| [&time.to_be_bytes()[..], &offset.to_be_bytes()].concat())
            .collect();
        let (offsets, times) = (
            OffsetIndex::new(&offsets, 10, false),
            TimeIndex::new(&times, 10, false),
        );
        let indexed = UncheckedSegment {
            is_closed: true,
            offset_index: Some(&offsets),
            time_index: Some(&times),
            ..segment(&bytes)
        };
        check(&bytes, indexed).is_some()
    };
    assert!(holds(&[(1, size), (2, 2 * size)], &[(TIME, 1)]));
    assert!(!holds(&[(9, 9 * size)], &[]), "behind the last batch");
    assert!(!holds(&[(9, size)], &[]), "the offset is behind it");
    assert!(!holds(&[], &[(TIME, 9)]), "the offset is behind it");
    assert!(!holds(&[], &[(TIME, 1), (TIME, 2)]), "times do not rise");
    assert!(!holds(&[(1, size + 1)], &[]));
    assert!(!holds(&[(1, 2 * size)], &[]));
    assert!(!holds(&[(2, 2 * size), (1, size)], &[]));
    assert!(!holds(&[], &[(TIME - 1, 1)]));
    assert!(!holds(&[], &[(TIME + 1, 1)]));
    assert!(!holds(&[], &[(TIME, 2), (TIME, 1)]));
}

#[test]
fn equal_batches_are_skipped_up_to_the_first_that_differs() {
    let skip = |one: &[u8], other: &[u8], start_offset| {
        let cursor = |bytes| {
            BatchCursor::new(bytes, (0, <[u8]>::len(bytes) as u64), start_offset, 100).unwrap()
        };
        let (mut one, mut other) = (cursor(one), cursor(other));
        let end = skip_equal(&mut one, &mut other).unwrap();
        (end, one.position(), other.position())
    };
    let size = one(10).len() as u64;
    let bytes = [one(10), one(11), one(12)].concat();
    assert_eq!(skip(&bytes, &bytes, 0), (Some(13), 3 * size, 3 * size));
    // What lies below the start is skipped on either side, and what one side lacks is not equal.
    assert_eq!(
        skip(&bytes, &bytes[size as usize..], 11),
        (Some(13), 3 * size, 2 * size)
    );
    assert_eq!(
        skip(&bytes, &bytes[..2 * size as usize], 0),
        (Some(12), 2 * size, 2 * size)
    );
    let other = [one(10), one(12)].concat();
    assert_eq!(skip(&bytes, &other, 0), (Some(11), size, size));
    for at in [15, 17, 70] {
        let mut changed = bytes.clone();
        changed[size as usize + at] ^= 1;
        assert_eq!(skip(&bytes, &changed, 0), (Some(11), size, size), "{at}");
        // A wrong checksum on both sides is no equality.
        if at > 15 {
            assert_eq!(skip(&changed, &changed, 0), (Some(11), size, size), "{at}");
        }
    }
}
