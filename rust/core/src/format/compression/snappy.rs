//! snappy-java's stream format ("xerial"), and the raw blocks that other clients send instead.
//!
//! ```text
//! header  82 53 4E 41 50 50 59 00, int32 version, int32 minimum compatible version
//! block   int32 length, then one raw snappy block of that length
//! ```
//!
//! Integers are big-endian; there is no checksum and no end mark. Java writes at most 32 KiB in a block.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::output::OutputBuffer;
use crate::base::error::{Error, Result};
use crate::base::primitives::Writer;

const MAGIC: &[u8] = b"\x82SNAPPY\0";
const HEADER: usize = 16;

/// Version and minimum compatible version, as Java writes them.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// The block size that Java uses.
const BLOCK: usize = 32 << 10;

/// snappy-java's own limit. Below it, the declared length is checked against the actual bytes.
const MAX_BLOCK: i32 = 512 << 20;

/// The highest ratio of a valid block: three bytes copy at most 64.
const MAX_RATIO: usize = 22;

/// The largest size that `n` bytes can compress to.
pub(super) fn bound(n: usize) -> usize {
    HEADER + n.div_ceil(BLOCK) * (4 + max_compress_len(BLOCK))
}

/// Compresses `data` to the start of `room`, which has at least its [`bound`]; returns the stream's length.
pub(super) fn encode(encoder: &mut Encoder, data: &[u8], room: &mut [u8]) -> Result<usize> {
    let no_room = || Error::invalid("snappy: no room");
    let mut writer = Writer::new(room);
    writer.bytes(MAGIC).ok_or_else(no_room)?;
    writer.array(VERSIONS).ok_or_else(no_room)?;
    let mut at = HEADER;
    for block in data.chunks(BLOCK) {
        let (length, rest) = room
            .get_mut(at..)
            .and_then(<[u8]>::split_first_chunk_mut::<4>)
            .ok_or_else(no_room)?;
        let n = encoder
            .compress(block, rest)
            .map_err(|e| Error::invalid(format!("snappy: {e}")))?;
        *length = (n as u32).to_be_bytes();
        at += length.len() + n;
    }
    Ok(at)
}

pub(super) fn decode(decoder: &mut Decoder, data: &[u8], out: &mut OutputBuffer) -> Result<()> {
    if data.len() < HEADER || !data.starts_with(MAGIC) {
        // librdkafka and Go clients have sent raw snappy for every magic.
        return block(decoder, data, out);
    }
    // The versions in the first header are ignored, as by snappy-java.
    let mut rest = data.get(HEADER..).unwrap_or_default();
    // One to three trailing bytes are too few for a length. They are ignored.
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        if MAGIC.starts_with(length) {
            rest = after_embedded_header(rest)?;
            continue;
        }
        let length = i32::from_be_bytes(*length);
        if !(1..=MAX_BLOCK).contains(&length) {
            return Err(Error::corrupt(format!("snappy block length {length}")));
        }
        let Some((compressed, tail)) = tail.split_at_checked(length as usize) else {
            return Err(Error::corrupt(format!(
                "snappy block of {length} bytes is cut: {} bytes are left",
                tail.len()
            )));
        };
        block(decoder, compressed, out)?;
        rest = tail;
    }
    Ok(())
}

/// Skips the header of a concatenated stream, which may stand in place of a block's length.
fn after_embedded_header(rest: &[u8]) -> Result<&[u8]> {
    let (header, tail) = rest
        .split_first_chunk::<HEADER>()
        .ok_or_else(|| Error::corrupt("snappy: data ends inside a stream header"))?;
    let [.., v0, v1, v2, v3, _, _, _, _] = *header;
    let version = i32::from_be_bytes([v0, v1, v2, v3]);
    if !header.starts_with(MAGIC) || version < 1 {
        return Err(Error::corrupt("snappy: damaged stream header"));
    }
    Ok(tail)
}

fn block(decoder: &mut Decoder, compressed: &[u8], out: &mut OutputBuffer) -> Result<()> {
    let failed = |e| Error::corrupt(format!("snappy: {e}"));
    let size = decompress_len(compressed).map_err(failed)?;
    if size > compressed.len().saturating_mul(MAX_RATIO) {
        return Err(Error::corrupt(format!(
            "snappy block of {} bytes declares {size} decompressed bytes, more than snappy can store in it",
            compressed.len()
        )));
    }
    out.reserve(size)?;
    let n = decoder
        .decompress(compressed, out.spare())
        .map_err(failed)?;
    out.fill(n);
    Ok(())
}
