//! Each codec against what Kafka's own reader accepts and refuses, damage included: a payload that
//! Kafka refuses must not come back as rows, and one that it reads must not be refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use brokerless_core::{Compression, Decompressor, Kind, Result};

use Compression::{Gzip, Lz4, Snappy, Zstd};

/// Two records, "hello" and "world", as every codec's example holds them.
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

/// The wrapper values of Kafka's v0 and v1 examples: codec, magic, payload, size decoded.
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

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn decode(codec: Compression, data: &[u8]) -> Result<Vec<u8>> {
    Decompressor::new(1 << 30)
        .decompress(codec, data, false)
        .map(<[u8]>::to_vec)
}

#[track_caller]
fn refused(codec: Compression, data: &[u8], why: &str) {
    let error = decode(codec, data).expect_err(why);
    assert_eq!(error.kind, Kind::Corrupt, "{why}: {error}");
}

#[track_caller]
fn reads(codec: Compression, data: &[u8], expected: &[u8], why: &str) {
    assert!(
        decode(codec, data).as_deref() == Ok(expected),
        "{why}: {:?}",
        decode(codec, data)
    );
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Text that compresses, with long and short matches and some noise: `n` bytes.
fn text(n: usize) -> Vec<u8> {
    let mut seed = 1u32;
    let byte = |i: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if i % 100 < 60 {
            (i % 100) as u8
        } else {
            (seed >> 28) as u8 + b'a'
        }
    };
    (0..n).map(byte).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(data.len())];
    let n = compressor.gzip_compress(data, &mut out).unwrap();
    out.truncate(n);
    out
}

fn xerial(data: &[u8], block: usize) -> Vec<u8> {
    let mut out = hex("82534e41505059000000000100000001");
    for chunk in data.chunks(block) {
        let compressed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
        out.extend((compressed.len() as u32).to_be_bytes());
        out.extend(compressed);
    }
    out
}

/// An LZ4 frame with the given flags, block size id and blocks as stored (size word, data).
fn lz4_frame(flags: u8, block_id: u8, blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut described = vec![flags, block_id << 4];
    if flags & 8 != 0 {
        described.extend(u64::MAX.to_le_bytes());
    }
    let checksum = (twox_hash::XxHash32::oneshot(0, &described) >> 8) as u8;
    let mut out = hex("04224d18");
    out.extend(described);
    out.push(checksum);
    for (size, block) in blocks {
        out.extend(size.to_le_bytes());
        out.extend(block);
        if flags & 16 != 0 {
            out.extend(twox_hash::XxHash32::oneshot(0, block).to_le_bytes());
        }
    }
    out.extend([0; 4]);
    if flags & 4 != 0 {
        out.extend([0xee; 4]);
    }
    out
}

fn lz4(data: &[u8], flags: u8, block_id: u8) -> Vec<u8> {
    let block = |chunk: &[u8]| {
        let block = lz4_flex::block::compress(chunk);
        (block.len() as u32, block)
    };
    let blocks: Vec<_> = data.chunks(1 << (8 + 2 * block_id)).map(block).collect();
    lz4_frame(flags, block_id, &blocks)
}

fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let n = zstd_safe::compress(&mut out[..], data, 3).unwrap();
    out.truncate(n);
    out
}

fn zstd_with_checksum(data: &[u8]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context
        .set_parameter(zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let n = context.compress2(&mut out[..], data).unwrap();
    out.truncate(n);
    out
}

fn compressed(codec: Compression, data: &[u8]) -> Vec<u8> {
    match codec {
        Compression::None => data.to_vec(),
        Gzip => gzip(data),
        Snappy => xerial(data, 32 << 10),
        Lz4 => lz4(data, 0x60, 4),
        Zstd => zstd(data),
    }
}

// All codecs

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
        assert_eq!(error.kind, Kind::Unsupported, "{}: {error}", codec.name());
        assert!(
            error.message.contains("max_batch_bytes (299999)"),
            "{error}"
        );
        assert_eq!(
            decode(0).unwrap_err().kind,
            Kind::Unsupported,
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
        assert_eq!(error.kind, Kind::Unsupported, "{error}");
    }
}

// gzip

/// A gzip member with the given flags and optional fields.
fn member(flags: u8, fields: &[u8], data: &[u8]) -> Vec<u8> {
    let plain = gzip(data);
    joined(&[&[0x1f, 0x8b, 8, flags], &plain[4..10], fields, &plain[10..]])
}

#[test]
fn gzip_optional_header_fields_are_skipped() {
    let data = text(5000);
    reads(Gzip, &member(0x08, b"name\0", &data), &data, "FNAME");
    reads(Gzip, &member(0x10, b"comment\0", &data), &data, "FCOMMENT");
    reads(Gzip, &member(0x04, b"\x03\0abc", &data), &data, "FEXTRA");
    reads(
        Gzip,
        &member(0x1c, b"\x03\0abcname\0comment\0", &data),
        &data,
        "all three",
    );
    refused(Gzip, &member(0x02, b"\0\0", &data), "wrong FHCRC");
    let crc = libdeflater::crc32(&member(0x02, b"", &data)[..10]) as u16;
    reads(
        Gzip,
        &member(0x02, &crc.to_le_bytes(), &data),
        &data,
        "FHCRC",
    );
}

#[test]
fn gzip_members_are_one_stream() {
    let (a, b, empty) = (text(40_000), text(300), vec![]);
    for parts in [
        [&a, &b, &a],
        [&a, &a, &a],
        [&empty, &a, &b],
        [&a, &empty, &empty],
        [&b, &empty, &a],
    ] {
        let payload: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).collect();
        let data: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        reads(Gzip, &payload, &data, "members");
        reads(
            Gzip,
            &joined(&[&payload, b"garbage"]),
            &data,
            "members and garbage",
        );
    }
    let named = joined(&[&gzip(&a), &member(8, b"x\0", &b)]);
    reads(
        Gzip,
        &named,
        &joined(&[&a, &b]),
        "second member with a name",
    );
}

#[test]
fn gzip_cut_next_header_is_garbage_but_a_cut_next_member_is_damage() {
    let data = text(2000);
    let (first, second) = (gzip(&data), gzip(&data));
    for cut in 0..10 {
        reads(
            Gzip,
            &joined(&[&first, &second[..cut]]),
            &data,
            "cut header",
        );
    }
    for cut in 19..second.len() {
        refused(Gzip, &joined(&[&first, &second[..cut]]), "cut member");
    }
    let mut wrong = second.clone();
    *wrong.last_mut().unwrap() ^= 1;
    refused(Gzip, &joined(&[&first, &wrong]), "second member's size");
}

#[test]
fn gzip_a_second_members_magic_inside_the_first_is_no_second_member() {
    // A stored deflate block shows the data as it is, here with a size and a magic in the middle.
    let mut data = vec![9u8; 100];
    data[40..44].copy_from_slice(&100u32.to_le_bytes());
    data[44..47].copy_from_slice(&[0x1f, 0x8b, 8]);
    let mut payload = hex("1f8b08000000000000ff 01 6400 9bff");
    payload.extend(&data);
    payload.extend(libdeflater::crc32(&data).to_le_bytes());
    payload.extend(100u32.to_le_bytes());
    reads(Gzip, &payload, &data, "magic in the data");
}

#[test]
fn gzip_wrong_checksums_and_other_formats_are_refused() {
    let data = text(1000);
    let good = gzip(&data);
    for at in 1..=8 {
        let mut bad = good.clone();
        let n = bad.len();
        bad[n - at] ^= 0x40;
        refused(Gzip, &bad, "trailer");
    }
    refused(Gzip, b"", "nothing");
    refused(Gzip, &hex("789c030000000001"), "zlib");
    refused(Gzip, &good[10..], "raw deflate");
    refused(
        Gzip,
        &joined(&[&[0x1f, 0x8b, 7], &good[3..]]),
        "unknown method",
    );
}

// snappy

#[test]
fn snappy_raw_blocks_are_read_whole() {
    for size in [1, 10, 70_000] {
        let data = text(size);
        let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
        reads(Snappy, &raw, &data, "raw");
        refused(Snappy, &joined(&[&raw, b"\0"]), "trailing byte");
        refused(Snappy, &joined(&[&raw, &raw]), "two raw blocks");
    }
    reads(Snappy, b"\0", b"", "raw block of nothing");
}

#[test]
fn snappy_blocks_of_any_size_are_one_stream() {
    let data = text(100_000);
    for block in [1, 1000, 1024, 32 << 10, 100_000] {
        reads(Snappy, &xerial(&data, block), &data, "blocks");
    }
}

#[test]
fn snappy_first_header_version_is_not_checked() {
    let data = text(100);
    for versions in [
        "0000000000000000",
        "0000000200000002",
        "0100000001000000",
        "ffffffffffffffff",
    ] {
        let mut payload = xerial(&data, 1000);
        payload[8..16].copy_from_slice(&hex(versions));
        reads(Snappy, &payload, &data, versions);
    }
}

#[test]
fn snappy_embedded_headers_join_streams() {
    let (a, b) = (text(1000), text(77));
    let (first, second) = (xerial(&a, 100), xerial(&b, 100));
    reads(
        Snappy,
        &joined(&[&first, &second]),
        &joined(&[&a, &b]),
        "two streams",
    );
    reads(
        Snappy,
        &joined(&[&first, &second[..16]]),
        &a,
        "lone header at the end",
    );
    reads(
        Snappy,
        &joined(&[&second[..16], &first]),
        &a,
        "lone header first",
    );
    for cut in 4..16 {
        refused(Snappy, &joined(&[&first, &second[..cut]]), "cut header");
    }
    let mut old = second.clone();
    old[11] = 0;
    refused(Snappy, &joined(&[&first, &old]), "version 0");
    let mut half = second;
    half[6] = b'X';
    refused(Snappy, &joined(&[&first, &half]), "half a magic");
}

#[test]
fn snappy_bad_block_lengths_are_refused() {
    let header = hex("82534e41505059000000000100000001");
    for length in [
        "00000000", "ffffffff", "80000000", "20000001", "7fffffff", "00000005",
    ] {
        refused(Snappy, &joined(&[&header, &hex(length), b"\0\0"]), length);
    }
    reads(
        Snappy,
        &joined(&[&header, &hex("0000000100")]),
        b"",
        "block of nothing",
    );
    refused(Snappy, b"", "nothing");
    refused(Snappy, &hex("ff060000734e61507059"), "standard framing");
    refused(
        Snappy,
        &joined(&[&header, &hex("00000006 05 0c"), b"abcd"]),
        "too short for its size",
    );
}

#[test]
fn snappy_declared_size_is_not_allocated() {
    // A block of seven bytes that claims to hold 4 GiB - 1.
    refused(Snappy, &hex("ffffffff0f0061"), "raw");
    refused(
        Snappy,
        &hex("82534e4150505900000000010000000100000007ffffffff0f0061"),
        "framed",
    );
}

// lz4

#[test]
fn lz4_block_sizes_four_to_seven_are_read() {
    let data = text(5 << 20);
    for id in 4..=7 {
        reads(Lz4, &lz4(&data, 0x60, id), &data, "block size");
    }
    for id in 0..4 {
        refused(Lz4, &lz4_frame(0x60, id, &[]), "block size id");
    }
    for descriptor in [0x41, 0x48, 0xc0] {
        let mut frame = lz4_frame(0x60, 4, &[]);
        frame[5] = descriptor;
        frame[6] = (twox_hash::XxHash32::oneshot(0, &frame[4..6]) >> 8) as u8;
        refused(Lz4, &frame, "reserved bits");
    }
}

#[test]
fn lz4_flags_outside_kafkas_subset_are_refused() {
    for flags in [0x20, 0xa0, 0x40, 0x61, 0x62, 0xe0] {
        refused(Lz4, &lz4_frame(flags, 4, &[]), &format!("{flags:02x}"));
    }
    reads(Lz4, &lz4_frame(0x60, 4, &[]), b"", "an empty stream");
}

#[test]
fn lz4_content_size_and_checksum_are_skipped_but_must_be_there() {
    let data = text(1000);
    for flags in [0x68, 0x64, 0x6c] {
        reads(Lz4, &lz4(&data, flags, 4), &data, "unverified");
    }
    let frame = lz4(&data, 0x64, 4);
    for cut in 1..=4 {
        refused(Lz4, &frame[..frame.len() - cut], "content checksum");
    }
}

#[test]
fn lz4_block_checksums_are_verified() {
    let data = text(1000);
    let mut frame = lz4(&data, 0x70, 4);
    reads(Lz4, &frame, &data, "block checksum");
    let at = frame.len() - 5;
    frame[at] ^= 1;
    refused(Lz4, &frame, "block checksum");
}

#[test]
fn lz4_stored_blocks_and_bad_block_sizes() {
    let stored = |size: u32, data: &[u8]| lz4_frame(0x60, 4, &[(size, data.to_vec())]);
    reads(Lz4, &stored(0x8000_0003, b"abc"), b"abc", "stored");
    reads(
        Lz4,
        &stored(0x8001_0000, &[7; 65536]),
        &[7; 65536],
        "largest stored block",
    );
    refused(
        Lz4,
        &stored(0x8001_0001, &[7; 65537]),
        "stored block over the maximum",
    );
    refused(
        Lz4,
        &stored(0x0001_0001, &[7; 65537]),
        "block over the maximum",
    );
    reads(
        Lz4,
        &stored(0x8000_0000, b""),
        b"",
        "0x80000000 is an end mark",
    );
    refused(Lz4, &stored(1, b"\0"), "a block that decodes to nothing");
    // 70,000 zeros in a frame of 64 KiB blocks.
    let block = lz4_flex::block::compress(&[0; 70_000]);
    refused(
        Lz4,
        &stored(block.len() as u32, &block),
        "block that decodes past the maximum",
    );
}

#[test]
fn lz4_frames_after_the_first_are_ignored() {
    let (a, b) = (text(1000), text(10));
    reads(
        Lz4,
        &joined(&[&lz4(&a, 0x60, 4), &lz4(&b, 0x60, 4)]),
        &a,
        "second frame",
    );
    refused(
        Lz4,
        &joined(&[&hex("502a4d1800000000"), &lz4(&a, 0x60, 4)]),
        "skippable frame",
    );
    refused(Lz4, &hex("02214c180000000000"), "legacy frame");
    refused(Lz4, &lz4_flex::block::compress(&a), "bare block");
    refused(Lz4, &hex("0422"), "two bytes");
}

#[test]
fn lz4_header_checksum_is_ignored_for_magic_0_only() {
    let mut frame = lz4(b"abc", 0x60, 4);
    for value in [0x1a, 0x00, 0xff] {
        frame[6] = value;
        refused(Lz4, &frame, "header checksum");
        let mut decompressor = Decompressor::new(1 << 20);
        assert_eq!(decompressor.decompress(Lz4, &frame, true), Ok(&b"abc"[..]));
    }
}

// zstd

/// A frame with one raw last block.
fn zstd_frame(header: &str, data: &[u8]) -> Vec<u8> {
    let block = (data.len() as u32) << 3 | 1;
    joined(&[
        &hex("28b52ffd"),
        &hex(header),
        &block.to_le_bytes()[..3],
        data,
    ])
}

#[test]
fn zstd_frames_are_one_stream() {
    let (a, b) = (text(200_000), text(10));
    let (skippable, empty) = (hex("5a2a4d1803000000aabbcc"), hex("28b52ffd2000010000"));
    let two = joined(&[&zstd(&a), &zstd(&b)]);
    reads(Zstd, &two, &joined(&[&a, &b]), "two frames");
    reads(
        Zstd,
        &joined(&[&skippable, &zstd(&a), &skippable]),
        &a,
        "skippable",
    );
    reads(
        Zstd,
        &joined(&[&empty, &zstd(&a), &empty]),
        &a,
        "empty frames",
    );
    reads(Zstd, &skippable, b"", "only a skippable frame");
    reads(Zstd, &empty, b"", "Kafka's empty stream");
    reads(Zstd, b"", b"", "nothing");
    for cut in 1..skippable.len() {
        refused(
            Zstd,
            &joined(&[&zstd(&a), &skippable[..cut]]),
            "cut skippable frame",
        );
    }
    for cut in 1..zstd(&b).len() {
        refused(Zstd, &two[..two.len() - cut], "cut last frame");
    }
}

#[test]
fn zstd_windows_over_128_mib_are_refused() {
    reads(Zstd, &zstd_frame("0088", b"abc"), b"abc", "2^27");
    refused(Zstd, &zstd_frame("0089", b"abc"), "2^27 and an eighth");
    refused(Zstd, &zstd_frame("0090", b"abc"), "2^28");
    refused(Zstd, &zstd_frame("00ff", b"abc"), "the largest");
}

#[test]
fn zstd_declared_sizes_and_checksums_are_honoured() {
    reads(Zstd, &zstd_frame("2003", b"abc"), b"abc", "content size");
    refused(Zstd, &zstd_frame("2004", b"abc"), "content size too large");
    refused(Zstd, &zstd_frame("2002", b"abc"), "content size too small");
    // 2^62 bytes declared for three.
    refused(
        Zstd,
        &zstd_frame("e00000000000000040", b"abc"),
        "hostile content size",
    );
    let data = text(1000);
    let mut frame = zstd_with_checksum(&data);
    reads(Zstd, &frame, &data, "checksum");
    *frame.last_mut().unwrap() ^= 1;
    refused(Zstd, &frame, "checksum");
}

#[test]
fn zstd_dictionaries_and_old_formats_are_refused() {
    refused(Zstd, &zstd_frame("010005", b"abc"), "dictionary id");
    for magic in [
        "1eb52ffd", "22b52ffd", "23b52ffd", "24b52ffd", "25b52ffd", "26b52ffd", "27b52ffd",
    ] {
        refused(Zstd, &joined(&[&hex(magic), &zstd(b"abc")[4..]]), magic);
    }
}

#[test]
fn zstd_blocks_larger_than_the_window_or_128_kib_are_refused() {
    // One run of `size` bytes in a frame with this header; four bytes of input for each.
    let run = |header: &str, size: u32| {
        let block = size << 3 | 1 << 1 | 1;
        joined(&[
            &hex("28b52ffd"),
            &hex(header),
            &block.to_le_bytes()[..3],
            b"z",
        ])
    };
    reads(
        Zstd,
        &run("0058", 128 << 10),
        &[b'z'; 128 << 10],
        "128 KiB in a window of 2 MiB",
    );
    refused(Zstd, &run("0058", (128 << 10) + 1), "more than 128 KiB");
    reads(
        Zstd,
        &run("0000", 1024),
        &[b'z'; 1024],
        "the smallest window",
    );
    refused(Zstd, &run("0000", 1025), "more than the window");
    refused(Zstd, &run("0058", (1 << 21) - 1), "the largest");
    refused(
        Zstd,
        &joined(&[&hex("28b52ffd0058"), &[7, 0, 0], b"z"]),
        "block type 3",
    );
    refused(Zstd, &zstd_frame("2803", b"abc"), "reserved bit");
    reads(Zstd, &zstd_frame("3003", b"abc"), b"abc", "unused bit");
}
