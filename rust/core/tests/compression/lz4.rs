//! LZ4 payloads as Kafka's own frame reader over lz4-java reads them.

use brokerless_core::Compression::Lz4;
use brokerless_core::Decompressor;

use crate::encode::{joined, lz4, lz4_frame, text};
use crate::support::hex;
use crate::{reads, refused};

#[test]
fn block_sizes_four_to_seven_are_read() {
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
fn flags_outside_kafkas_subset_are_refused() {
    for flags in [0x20, 0xa0, 0x40, 0x61, 0x62, 0xe0] {
        refused(Lz4, &lz4_frame(flags, 4, &[]), &format!("{flags:02x}"));
    }
    reads(Lz4, &lz4_frame(0x60, 4, &[]), b"", "an empty stream");
}

#[test]
fn content_size_and_checksum_are_skipped_but_must_be_there() {
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
fn block_checksums_are_verified() {
    let data = text(1000);
    let mut frame = lz4(&data, 0x70, 4);
    reads(Lz4, &frame, &data, "block checksum");
    let at = frame.len() - 5;
    frame[at] ^= 1;
    refused(Lz4, &frame, "block checksum");
}

#[test]
fn stored_blocks_and_bad_block_sizes() {
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
fn a_match_that_goes_back_by_nothing_is_zeros_and_never_what_memory_held() {
    // One literal, a match of 7 at offset 0, five literals. No compressor writes it, but the C library accepts it.
    let block = hex("13610000506263646566");
    let frame = lz4_frame(0x60, 4, &[(block.len() as u32, block)]);
    let mut decompressor = Decompressor::new(1 << 20);
    let before = lz4(&text(1000), 0x60, 4);
    decompressor.decompress(Lz4, &before, false).unwrap();
    let found = decompressor.decompress(Lz4, &frame, false);
    assert_eq!(found, Ok(&b"a\0\0\0\0\0\0\0bcdef"[..]));
}

#[test]
fn frames_after_the_first_are_ignored() {
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
fn header_checksum_is_ignored_for_magic_0_only() {
    let mut frame = lz4(b"abc", 0x60, 4);
    for value in [0x1a, 0x00, 0xff] {
        frame[6] = value;
        refused(Lz4, &frame, "header checksum");
        let mut decompressor = Decompressor::new(1 << 20);
        assert_eq!(decompressor.decompress(Lz4, &frame, true), Ok(&b"abc"[..]));
    }
}
