//! zstd payloads as zstd-jni reads them.

use brokerless_core::Compression::Zstd;

use crate::encode::{joined, text, zstd, zstd_with_checksum};
use crate::support::hex;
use crate::{reads, refused};

/// A frame with one raw last block.
fn frame(header: &str, data: &[u8]) -> Vec<u8> {
    let block = (data.len() as u32) << 3 | 1;
    joined(&[
        &hex("28b52ffd"),
        &hex(header),
        &block.to_le_bytes()[..3],
        data,
    ])
}

#[test]
fn frames_are_one_stream() {
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
fn windows_over_128_mib_are_refused() {
    reads(Zstd, &frame("0088", b"abc"), b"abc", "2^27");
    refused(Zstd, &frame("0089", b"abc"), "2^27 and an eighth");
    refused(Zstd, &frame("0090", b"abc"), "2^28");
    refused(Zstd, &frame("00ff", b"abc"), "the largest");
}

#[test]
fn declared_sizes_and_checksums_are_honoured() {
    reads(Zstd, &frame("2003", b"abc"), b"abc", "content size");
    refused(Zstd, &frame("2004", b"abc"), "content size too large");
    refused(Zstd, &frame("2002", b"abc"), "content size too small");
    // Three bytes declare 2^62.
    refused(
        Zstd,
        &frame("e00000000000000040", b"abc"),
        "hostile content size",
    );
    let data = text(1000);
    let mut frame = zstd_with_checksum(&data);
    reads(Zstd, &frame, &data, "checksum");
    *frame.last_mut().unwrap() ^= 1;
    refused(Zstd, &frame, "checksum");
}

#[test]
fn dictionaries_and_old_formats_are_refused() {
    refused(Zstd, &frame("010005", b"abc"), "dictionary id");
    for magic in [
        "1eb52ffd", "22b52ffd", "23b52ffd", "24b52ffd", "25b52ffd", "26b52ffd", "27b52ffd",
    ] {
        refused(Zstd, &joined(&[&hex(magic), &zstd(b"abc")[4..]]), magic);
    }
}

#[test]
fn blocks_larger_than_the_window_or_128_kib_are_refused() {
    // One run of `size` bytes in a frame with this header: four bytes of input for each run.
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
    refused(Zstd, &frame("2803", b"abc"), "reserved bit");
    reads(Zstd, &frame("3003", b"abc"), b"abc", "unused bit");
}
