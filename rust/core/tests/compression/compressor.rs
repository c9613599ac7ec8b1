//! Compressed payloads have Kafka's framing and decode to the original bytes.

use brokerless_core::{Codec, Compression, Compressor, Decompressor};

use crate::encode::text;
use crate::support::hex;

fn codec(compression: Compression, level: Option<i32>) -> Codec {
    Codec::new(compression, level).unwrap()
}

/// Incompressible bytes.
fn noise(n: usize) -> Vec<u8> {
    let mut seed = 1u64;
    let next = |_| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..n).map(next).collect()
}

fn compressed(codec: Codec, magic: i8, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new()
        .compress(codec, magic, data, &mut out)
        .unwrap();
    out
}

#[test]
fn every_codec_and_size_comes_back() {
    let mut compressor = Compressor::new();
    let mut decompressor = Decompressor::new(1 << 24);
    for size in [
        0, 1, 5, 1000, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 300_000, 9_000_000, 10,
    ] {
        for data in [text(size), noise(size), vec![0; size]] {
            for id in 0..5 {
                let codec = codec(Compression::from_id(id).unwrap(), None);
                for magic in [0, 2] {
                    let mut out = b"before".to_vec();
                    compressor.compress(codec, magic, &data, &mut out).unwrap();
                    assert_eq!(&out[..6], b"before");
                    let back = decompressor
                        .decompress(codec.compression, &out[6..], magic == 0)
                        .unwrap();
                    assert!(back == data, "{codec:?}, {size} bytes");
                }
            }
        }
    }
}

#[test]
fn framing_is_kafkas() {
    let plain = |compression| compressed(codec(compression, None), 2, &[]);
    assert_eq!(
        plain(Compression::Snappy),
        hex("82534e41505059000000000100000001")
    );
    assert_eq!(plain(Compression::Lz4), hex("04224d1860408200000000"));
    assert_eq!(
        compressed(codec(Compression::Lz4, None), 0, &[]),
        hex("04224d1860401a00000000"),
        "magic 0 has the checksum that its readers expect"
    );
    for level in [1, 6, 9] {
        let gzip = compressed(codec(Compression::Gzip, Some(level)), 2, b"abc");
        assert_eq!(gzip[..10], hex("1f8b08000000000000ff"), "level {level}");
    }
    let frame = compressed(codec(Compression::Zstd, None), 2, &text(1000));
    assert_eq!(frame[..4], hex("28b52ffd"));
    let (checksum, dictionary) = (frame[4] & 0x04, frame[4] & 0x03);
    assert_eq!((checksum, dictionary), (0, 0));
}

#[test]
fn blocks_are_as_large_as_kafkas_and_stored_where_that_is_smaller() {
    let data = [noise(65_536), text(65_536), noise(10)].concat();
    let frame = compressed(codec(Compression::Lz4, None), 2, &data);
    let mut blocks = Vec::new();
    let mut at = 7;
    loop {
        let word = u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
        if word == 0 {
            break;
        }
        blocks.push((word >> 31 == 1, word & 0x7fff_ffff));
        at += 4 + (word & 0x7fff_ffff) as usize;
    }
    assert_eq!(at + 4, frame.len());
    assert_eq!((blocks[0], blocks[2]), ((true, 65_536), (true, 10)));
    assert!(!blocks[1].0 && blocks[1].1 < 65_536);

    let stream = compressed(codec(Compression::Snappy, None), 2, &data);
    let (mut at, mut sizes) = (16, Vec::new());
    while at < stream.len() {
        let length = u32::from_be_bytes(stream[at..at + 4].try_into().unwrap()) as usize;
        sizes.push(snap::raw::decompress_len(&stream[at + 4..][..length]).unwrap());
        at += 4 + length;
    }
    assert_eq!(sizes, [32_768, 32_768, 32_768, 32_768, 10]);
}

/// As in `record-format`: the default 9 selects the fast compressor, which compresses less than every level of LZ4-HC.
#[test]
fn lz4_level_9_is_the_fast_one() {
    let data = text(200_000);
    let size = |level| compressed(codec(Compression::Lz4, level), 2, &data).len();
    assert_eq!(size(None), size(Some(9)));
    for level in (1..9).chain(10..=17) {
        assert!(size(Some(level)) < size(Some(9)), "level {level}");
    }
}
