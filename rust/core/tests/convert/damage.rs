//! Conversions find damage before they convert it.

use brokerless_core::{Compression, Conversion, Converter, ErrorKind, Rewriter, SegmentOutput};

use crate::batch_size::{joined, of_producer};
use crate::support::hex;
use crate::{V1, V1_GZIP, V2, converted_of, to, to_codec};

#[test]
fn a_wrong_checksum_is_met_before_anything_is_made_of_it() {
    for (entry, conversion) in [
        (V2, to(1)),
        (V1, to(2)),
        (V2, to_codec(Compression::Gzip)),
        (V2, to(2)),
    ] {
        let mut entry = hex(entry);
        *entry.last_mut().unwrap() ^= 1;
        let error = converted_of(conversion, &entry, &[], i64::MAX).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.message.contains("crc mismatch"), "{error}");
    }
}

#[test]
fn broken_records_do_not_get_a_new_checksum() {
    let cut = |entry: Vec<u8>| {
        let mut entry = entry[..entry.len() - 1].to_vec();
        let length = entry.len() as i32 - 12;
        entry[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = brokerless_core::crc32c(&entry[21..]);
        entry[17..21].copy_from_slice(&crc.to_be_bytes());
        entry
    };
    let broken = cut(of_producer(0, 0, 3, 0));
    for conversion in [to_codec(Compression::Lz4), joined(1000)] {
        let error = converted_of(conversion, &broken, &[], i64::MAX).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.message.contains("record 2 of 3"), "{error}");
    }
}

#[test]
fn offsets_that_do_not_rise_are_damage() {
    let log = [hex(V2), hex(V2)].concat();
    let mut converter =
        Converter::new(to_codec(Compression::Gzip), &[], 0, i64::MAX, 1 << 20).unwrap();
    let mut output = SegmentOutput::new(0, 0, 1 << 20);
    let error = Rewriter::new(1 << 20)
        .feed(&mut converter, &log, 0, &mut output)
        .unwrap_err();
    assert_eq!(
        (error.kind, error.base_offset),
        (ErrorKind::Corrupt, Some(0))
    );
    assert_eq!(error.position, hex(V2).len() as u64);
}

#[test]
fn a_damaged_offset_does_not_pass_for_one_that_is_to_be_left_out() {
    let dropping = Conversion {
        drop_producers: true,
        ..to(1)
    };
    // A log of three batches that ends at 6. The second one has moved: no checksum covers its offset.
    let refused = |moved: i64| {
        let log: Vec<u8> = [0, moved, 4]
            .into_iter()
            .flat_map(|offset: i64| {
                let mut entry = hex(V2);
                entry[..8].copy_from_slice(&offset.to_be_bytes());
                entry
            })
            .collect();
        let mut converter = Converter::new(dropping, &[], 6, 6, 1 << 20).unwrap();
        let mut output = SegmentOutput::new(0, 0, 1 << 20);
        let error = Rewriter::new(1 << 20)
            .feed(&mut converter, &log, 0, &mut output)
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        (error.position / hex(V2).len() as u64, error.message)
    };
    let beyond = |offset| format!("offset {offset} is not below 6, where the log ends");
    let below =
        |offset, next| format!("offset {offset} is below {next}, where the segment continues");
    assert_eq!(refused(1 << 40), (1, beyond((1 << 40) + 1)));
    assert_eq!(refused(5), (1, beyond(6)));
    assert_eq!(refused(i64::MAX), (1, beyond(i64::MAX)));
    let overlapping =
        ". If a check calls the batch offset-overlap, `repair` rebuilds it".to_owned();
    assert_eq!(refused(1), (1, below(1, 2) + &overlapping));
    assert_eq!(refused(i64::MIN), (1, below(i64::MIN, 2)));
    assert_eq!(refused(3), (2, below(4, 5) + &overlapping));
}

#[test]
fn a_wrapper_that_was_moved_in_among_the_messages_before_is_damage() {
    let log = |offset: i64| {
        let mut moved = hex(V1_GZIP);
        moved[..8].copy_from_slice(&offset.to_be_bytes());
        [hex(V1_GZIP), moved].concat()
    };
    let lz4 = to_codec(Compression::Lz4);
    for conversion in [
        lz4,
        to(1),
        to(0),
        Conversion {
            drop_producers: true,
            ..lz4
        },
    ] {
        let error = converted_of(conversion, &log(2), &[], i64::MAX).unwrap_err();
        assert_eq!(
            (error.kind, error.position),
            (ErrorKind::Corrupt, hex(V1_GZIP).len() as u64)
        );
        assert!(error.message.contains("offset 1 is below 2"), "{error}");
        converted_of(conversion, &log(3), &[], i64::MAX).unwrap();
    }
}
