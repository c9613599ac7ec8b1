//! Memory is not allocated for declared sizes: a batch of a hundred bytes must not take a gigabyte because it declares
//! one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use brokerless_core::{Compression, Decompressor, crc32c, producer_snapshot};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory for contexts, a first buffer, and little else.
const LITTLE: usize = 1 << 20;

fn peak(run: impl FnOnce()) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    run();
    MEMORY.peak_usage() - before
}

// There is only one test, because the allocator counts for the whole process.
#[test]
fn declared_sizes_are_not_allocated() {
    let gzip = |size: u32| {
        // A stored block of three bytes, a right checksum, and this size.
        let mut member = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x03\0\xfc\xffabc".to_vec();
        member.extend(libdeflater::crc32(b"abc").to_le_bytes());
        member.extend(size.to_le_bytes());
        member
    };
    let hostile: [(Compression, Vec<u8>); 5] = [
        (Compression::Gzip, gzip(u32::MAX)),
        (Compression::Snappy, b"\xff\xff\xff\x7f\x08abc".to_vec()),
        (
            Compression::Lz4,
            b"\x04\x22\x4d\x18\x68\x70\xff\xff\xff\x3f\0\0\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec(),
        ),
        // A content size of 1 GiB; a window of 128 MiB.
        (
            Compression::Zstd,
            b"\x28\xb5\x2f\xfd\x80\x58\0\0\0\x40\x19\0\0abc".to_vec(),
        ),
        (
            Compression::Zstd,
            b"\x28\xb5\x2f\xfd\x00\x88\x19\0\0abc".to_vec(),
        ),
    ];
    for (codec, payload) in hostile {
        let mut decompressor = Decompressor::new(1 << 30);
        let peak = peak(|| {
            drop(
                decompressor
                    .decompress(codec, &payload, true)
                    .map(<[u8]>::len),
            )
        });
        assert!(peak < LITTLE, "{}: {peak}", codec.name());
    }

    let body = i32::MAX.to_be_bytes();
    let snapshot = [&[0, 1][..], &crc32c(&body).to_be_bytes(), &body].concat();
    let peak_of_snapshot = peak(|| drop(producer_snapshot(&snapshot)));
    assert!(peak_of_snapshot < LITTLE, "{peak_of_snapshot}");

    // A large buffer is freed once it is not needed any more.
    let mut decompressor = Decompressor::new(1 << 30);
    let block = lz4_flex::block::compress(&[0; 4 << 20]);
    let mut frame = b"\x04\x22\x4d\x18\x60\x70\x73".to_vec();
    for _ in 0..8 {
        frame.extend((block.len() as u32).to_le_bytes());
        frame.extend(&block);
    }
    frame.extend([0; 4]);
    let before = MEMORY.current_usage();
    assert_eq!(
        decompressor
            .decompress(Compression::Lz4, &frame, true)
            .unwrap()
            .len(),
        32 << 20
    );
    assert!(MEMORY.current_usage() - before >= 32 << 20);
    decompressor
        .decompress(Compression::Gzip, &gzip(3), false)
        .unwrap();
    decompressor
        .decompress(Compression::Gzip, &gzip(3), false)
        .unwrap();
    assert!(MEMORY.current_usage() - before < LITTLE);
}
