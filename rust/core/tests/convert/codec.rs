//! Conversions to another codec keep the records and change only their block.

use brokerless_core::{Codec, Compression, Conversion, Decompressor, Header, payload};

use crate::support::{batch, hex, record, row, rows};
use crate::{
    ABORT, COMMIT, EMPTY, HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, V0_LZ4, V1, V1_GZIP, V2,
    WITH_HEADERS, codec, convert, converted_of, headers, to, to_codec,
};

#[test]
fn what_is_asked_for_already_stays_byte_for_byte() {
    for entry in [
        V2,
        V1,
        V1_GZIP,
        V0_LZ4,
        WITH_HEADERS,
        COMMIT,
        EMPTY,
        HORIZON,
    ] {
        let mut entry = hex(entry);
        let header = headers(&entry)[0];
        if header.magic == 2 {
            entry[12..16].fill(0);
        }
        let same = Conversion {
            magic: Some(header.magic),
            codec: codec(header.compression().unwrap()),
            ..Conversion::default()
        };
        let (out, converted) = converted_of(same, &entry, &[], i64::MAX).unwrap();
        assert_eq!(out, entry);
        assert_eq!(converted.changed, 0);
        assert!(converted.batches > 0);
    }
}

/// A follower cannot fetch a batch without a leader epoch.
#[test]
fn a_batch_of_the_magic_that_is_asked_for_gets_a_leader_epoch() {
    let entry = hex(V2);
    assert_eq!(headers(&entry)[0].partition_leader_epoch, -1);
    for (compression, changed) in [(Compression::None, 1), (Compression::Gzip, 1)] {
        let asked = Conversion {
            magic: Some(2),
            ..to_codec(compression)
        };
        let (out, converted) = converted_of(asked, &entry, &[], i64::MAX).unwrap();
        assert_eq!(headers(&out)[0].partition_leader_epoch, 0);
        assert_eq!(converted.changed, changed);
        assert_eq!(rows(&out), rows(&entry));
    }
    let (out, _) = converted_of(to_codec(Compression::Gzip), &entry, &[], i64::MAX).unwrap();
    assert_eq!(headers(&out)[0].partition_leader_epoch, -1);
}

#[test]
fn another_codec_changes_length_codec_and_crc_alone() {
    for entry in [V2, WITH_HEADERS, TRANSACTIONAL, HORIZON, LOG_APPEND_TIME] {
        let entry = hex(entry);
        for compression in [
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            let compressed = convert(to_codec(compression), &entry);
            let (before, after) = (headers(&entry)[0], headers(&compressed)[0]);
            assert_eq!(after.compression(), Ok(compression));
            let alike = Header {
                batch_length: before.batch_length,
                crc: before.crc,
                attributes: before.attributes,
                ..after
            };
            assert_eq!(alike, before);
            assert_eq!(after.attributes & !7, before.attributes & !7);
            let mut decompressor = Decompressor::new(1 << 20);
            let records = payload(&after, &compressed, &mut decompressor).unwrap();
            assert_eq!(records, &entry[61..]);
            // And back to the first batch, byte for byte.
            assert_eq!(convert(to_codec(Compression::None), &compressed), entry);
        }
    }
}

#[test]
fn a_codec_alone_leaves_markers_and_empty_batches_as_they_are() {
    for entry in [COMMIT, ABORT, EMPTY] {
        let entry = hex(entry);
        assert_eq!(convert(to_codec(Compression::Zstd), &entry), entry);
        assert_eq!(convert(to(2), &entry), entry);
    }
    // An empty batch that claims a codec: only its header counts.
    let claiming = batch(5, 0x13, 0, 4, b"whatever");
    let expected = batch(5, 0x10, 0, 4, b"");
    assert_eq!(convert(to_codec(Compression::Gzip), &claiming), expected);
}

#[test]
fn what_has_the_codec_is_compressed_again_when_asked() {
    let content: Vec<u8> = (0..20_000u32).map(|i| ((i * i) >> 7) as u8 & 15).collect();
    let mut one = row(0, 1000, None, None);
    one.value = Some(content);
    let zstd = convert(
        to_codec(Compression::Zstd),
        &batch(0, 0, 1, 0, &record(&one, 0, 1000)),
    );
    let strong = Conversion {
        codec: Some(Codec::new(Compression::Zstd, Some(19)).unwrap()),
        ..Conversion::default()
    };
    assert_eq!(convert(strong, &zstd), zstd);
    let strong = Conversion {
        recompress: true,
        ..strong
    };
    let stronger = convert(strong, &zstd);
    assert!(stronger.len() < zstd.len());
    assert_eq!(rows(&stronger), rows(&zstd));
}
