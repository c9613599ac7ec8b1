//! Payloads as other writers make them, and sample text.

use brokerless_core::Compression;

use crate::support::hex;

pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Compressible text of `n` bytes, with long and short matches and some noise.
pub(crate) fn text(n: usize) -> Vec<u8> {
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

pub(crate) fn compressed(codec: Compression, data: &[u8]) -> Vec<u8> {
    match codec {
        Compression::None => data.to_vec(),
        Compression::Gzip => gzip(data),
        Compression::Snappy => xerial(data, 32 << 10),
        Compression::Lz4 => lz4(data, 0x60, 4),
        Compression::Zstd => zstd(data),
    }
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(data.len())];
    let n = compressor.gzip_compress(data, &mut out).unwrap();
    out.truncate(n);
    out
}

pub(crate) fn xerial(data: &[u8], block: usize) -> Vec<u8> {
    let mut out = hex("82534e41505059000000000100000001");
    for chunk in data.chunks(block) {
        let compressed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
        out.extend((compressed.len() as u32).to_be_bytes());
        out.extend(compressed);
    }
    out
}

pub(crate) fn lz4(data: &[u8], flags: u8, block_id: u8) -> Vec<u8> {
    let block = |chunk: &[u8]| {
        let block = lz4_flex::block::compress(chunk);
        (block.len() as u32, block)
    };
    let blocks: Vec<_> = data.chunks(1 << (8 + 2 * block_id)).map(block).collect();
    lz4_frame(flags, block_id, &blocks)
}

/// An LZ4 frame with these flags, block size id and stored blocks (size word, data).
pub(crate) fn lz4_frame(flags: u8, block_id: u8, blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
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

pub(crate) fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let n = zstd_safe::compress(&mut out[..], data, 3).unwrap();
    out.truncate(n);
    out
}

pub(crate) fn zstd_with_checksum(data: &[u8]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context
        .set_parameter(zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let n = context.compress2(&mut out[..], data).unwrap();
    out.truncate(n);
    out
}
