//! Each codec accepts and refuses the same payloads as Kafka's own reader, including damaged ones. A payload that Kafka
//! refuses must not become rows, and a payload that Kafka reads must not be refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod compressor;
mod encode;
mod gzip;
mod lz4;
mod snappy;
#[path = "../support/mod.rs"]
mod support;
mod zstd;

use brokerless_core::{Compression, Decompressor, ErrorKind, Result};
use encode::{compressed, joined, text};
use support::hex;

use Compression::{Gzip, Lz4, Snappy, Zstd};

/// Two records, "hello" and "world", which the example of every codec holds.
const RECORDS: &str = "16000000010a68656c6c6f0016000a02010a776f726c6400";

/// The records section of Kafka's own batches of those two records.
const EXAMPLES: [(Compression, &str); 4] = [
    (
        Gzip,
        "1f8b08000000000000ff1363606060e4ca48cdc9c9671063e06262e42acf2fca49610000a015d17e18000000",
    ),
    (
        Snappy,
        "82534e415050590000000001000000010000001a185c16000000010a68656c6c6f0016000a02010a776f726c6400",
    ),
    (
        Lz4,
        "04224d186040821800008016000000010a68656c6c6f0016000a02010a776f726c640000000000",
    ),
    (
        Zstd,
        "28b52ffd0058c0000016000000010a68656c6c6f0016000a02010a776f726c6400010000",
    ),
];

/// The wrapper values of Kafka's v0 and v1 examples: codec, magic, payload, decoded size.
const WRAPPED: [(Compression, u8, &str, usize); 4] = [
    (
        Gzip,
        1,
        "1f8b08000000000000ff63608003e9bec7dcbb18810cc6eef34f3318fe030190c39a919a93930f550292956653bf\
         240457c60a53569e5f949302007eaf54cb4e000000",
        78,
    ),
    (
        Snappy,
        1,
        "82534e415050590000000001000000010000003f4e000019016c1b8ee30bba01000000018bcfe56800ffffffff00\
         00000568656c6c6f0d26011e101b0627d212010905273405ffffffff00000005776f726c64",
        78,
    ),
    (
        Lz4,
        1,
        "04224d186040823c00000016000100f30d1b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f26\
         00001e00501b0627d21209000127001405270050776f726c6400000000",
        78,
    ),
    (
        Lz4,
        0,
        "04224d1860401a2e00000016000100f3051387a77ab20000ffffffff0000000568656c6c6f1e00960100000013\
         8bc0cd771f0050776f726c6400000000",
        62,
    ),
];

const CODECS: [Compression; 4] = [Gzip, Snappy, Lz4, Zstd];

fn decode(codec: Compression, data: &[u8]) -> Result<Vec<u8>> {
    Decompressor::new(1 << 30)
        .decompress(codec, data, false)
        .map(<[u8]>::to_vec)
}

#[track_caller]
fn refused(codec: Compression, data: &[u8], why: &str) {
    let error = decode(codec, data).expect_err(why);
    assert_eq!(error.kind, ErrorKind::Corrupt, "{why}: {error}");
}

#[track_caller]
fn reads(codec: Compression, data: &[u8], expected: &[u8], why: &str) {
    assert!(
        decode(codec, data).as_deref() == Ok(expected),
        "{why}: {:?}",
        decode(codec, data)
    );
}

#[test]
fn kafkas_own_payloads_decode() {
    for (codec, payload) in EXAMPLES {
        reads(codec, &hex(payload), &hex(RECORDS), codec.name());
    }
    for (codec, magic, payload, size) in WRAPPED {
        let mut decompressor = Decompressor::new(1 << 20);
        let payload = hex(payload);
        let inner = decompressor
            .decompress(codec, &payload, magic == 0)
            .unwrap();
        assert_eq!(inner.len(), size);
        assert_eq!(&inner[16..17], [magic]);
        assert!(inner.ends_with(b"world"));
    }
}

#[test]
fn every_size_round_trips_through_one_reused_decompressor() {
    let mut decompressor = Decompressor::new(1 << 30);
    let data = text(9 << 20);
    for size in [
        0,
        1,
        2,
        63,
        100,
        1000,
        32767,
        32768,
        32769,
        65536,
        98304,
        200_000,
        9 << 20,
        7,
    ] {
        for codec in CODECS {
            let payload = compressed(codec, &data[..size]);
            let decoded = decompressor.decompress(codec, &payload, false).unwrap();
            assert!(decoded == &data[..size], "{} of {size} bytes", codec.name());
        }
    }
}

#[test]
fn none_is_the_payload_itself() {
    reads(Compression::None, b"abc", b"abc", "no codec");
}

#[test]
fn only_ids_zero_to_four_are_codecs() {
    for id in 0..=255 {
        assert_eq!(
            Compression::from_id(id).map(|codec| codec as u8),
            (id < 5).then_some(id)
        );
    }
}

#[test]
fn a_payload_cut_anywhere_is_refused() {
    for (codec, payload) in EXAMPLES {
        let payload = hex(payload);
        for cut in 0..payload.len() {
            match (codec, cut) {
                // Xerial has no end mark: a bare header, or one with stray bytes, is an empty stream.
                (Snappy, 16..20) | (Zstd, 0) => {
                    reads(codec, &payload[..cut], b"", "an empty stream");
                }
                _ => refused(
                    codec,
                    &payload[..cut],
                    &format!("{} cut at {cut}", codec.name()),
                ),
            }
        }
    }
}

#[test]
fn bytes_after_the_end_are_treated_as_kafka_treats_them() {
    let records = hex(RECORDS);
    for (codec, payload) in EXAMPLES {
        for garbage in [
            &b"\x55"[..],
            b"\0\0\0",
            b"\x55\xaa\x55\xaa",
            &[0x55; 40],
            &[0; 40],
        ] {
            let payload = joined(&[&hex(payload), garbage]);
            let ignored = match codec {
                Gzip | Lz4 => true,
                Snappy => garbage.len() < 4,
                _ => false,
            };
            if ignored {
                reads(codec, &payload, &records, codec.name());
            } else {
                refused(codec, &payload, codec.name());
            }
        }
    }
}

#[test]
fn a_failed_payload_leaves_nothing_behind_for_the_next() {
    let mut decompressor = Decompressor::new(1 << 20);
    for (codec, payload) in EXAMPLES {
        let payload = hex(payload);
        let mut damaged = payload.clone();
        for i in 0..payload.len() {
            damaged[i] ^= 0x10;
            let _ = decompressor.decompress(codec, &damaged, false);
            damaged[i] ^= 0x10;
            assert_eq!(
                decompressor.decompress(codec, &payload, false),
                Ok(&hex(RECORDS)[..])
            );
        }
    }
}

#[test]
fn the_cap_is_exact_and_names_its_option() {
    let data = vec![0; 300_000];
    for codec in CODECS {
        let payload = compressed(codec, &data);
        let decode = |cap| -> Result<usize> {
            Ok(Decompressor::new(cap)
                .decompress(codec, &payload, false)?
                .len())
        };
        assert_eq!(decode(300_000), Ok(300_000), "{}", codec.name());
        let error = decode(299_999).unwrap_err();
        assert_eq!(
            error.kind,
            ErrorKind::Unsupported,
            "{}: {error}",
            codec.name()
        );
        assert!(
            error.message.contains("max_batch_bytes (299999)"),
            "{error}"
        );
        assert_eq!(
            decode(0).unwrap_err().kind,
            ErrorKind::Unsupported,
            "{}",
            codec.name()
        );
    }
}

#[test]
fn the_cap_holds_for_several_gzip_members_and_zstd_frames() {
    let data = vec![7; 1000];
    for codec in [Gzip, Zstd] {
        let payload = joined(&[&compressed(codec, &data), &compressed(codec, &data)]);
        let mut decompressor = Decompressor::new(2000);
        assert_eq!(
            decompressor
                .decompress(codec, &payload, false)
                .unwrap()
                .len(),
            2000
        );
        let error = Decompressor::new(1999)
            .decompress(codec, &payload, false)
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    }
}
