//! snappy payloads as snappy-java reads them.

use brokerless_core::Compression::Snappy;

use crate::encode::{joined, text, xerial};
use crate::support::hex;
use crate::{reads, refused};

#[test]
fn raw_blocks_are_read_whole() {
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
fn blocks_of_any_size_are_one_stream() {
    let data = text(100_000);
    for block in [1, 1000, 1024, 32 << 10, 100_000] {
        reads(Snappy, &xerial(&data, block), &data, "blocks");
    }
}

#[test]
fn first_header_version_is_not_checked() {
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
fn embedded_headers_join_streams() {
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
fn bad_block_lengths_are_refused() {
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
        &joined(&[&header, &hex("00000006050c"), b"abcd"]),
        "too short for its size",
    );
}

#[test]
fn declared_size_is_not_allocated() {
    // A block of seven bytes that claims 4 GiB - 1.
    refused(Snappy, &hex("ffffffff0f0061"), "raw");
    refused(
        Snappy,
        &hex("82534e4150505900000000010000000100000007ffffffff0f0061"),
        "framed",
    );
}
