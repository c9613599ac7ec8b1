//! gzip payloads as `java.util.zip.GZIPInputStream` reads them.

use brokerless_core::Compression::Gzip;

use crate::encode::{gzip, joined, text};
use crate::support::hex;
use crate::{reads, refused};

/// A gzip member with the given flags and optional fields.
fn member(flags: u8, fields: &[u8], data: &[u8]) -> Vec<u8> {
    let plain = gzip(data);
    joined(&[&[0x1f, 0x8b, 8, flags], &plain[4..10], fields, &plain[10..]])
}

#[test]
fn optional_header_fields_are_skipped() {
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
fn members_are_one_stream() {
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
fn cut_next_header_is_garbage_but_a_cut_next_member_is_damage() {
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
fn a_second_members_magic_inside_the_first_is_no_second_member() {
    // A stored deflate block contains the data as it is, here with a size and a magic in the middle.
    let mut data = vec![9u8; 100];
    data[40..44].copy_from_slice(&100u32.to_le_bytes());
    data[44..47].copy_from_slice(&[0x1f, 0x8b, 8]);
    let mut payload = hex("1f8b08000000000000ff0164009bff");
    payload.extend(&data);
    payload.extend(libdeflater::crc32(&data).to_le_bytes());
    payload.extend(100u32.to_le_bytes());
    reads(Gzip, &payload, &data, "magic in the data");
}

#[test]
fn wrong_checksums_and_other_formats_are_refused() {
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
