//! The subset of the LZ4 frame format that Kafka reads (its `Lz4BlockInputStream`) and the one form that it writes.
//!
//! ```text
//! magic 04 22 4D 18 | FLG | BD | [content size, 8] | HC
//! block: uint32 size, top bit set if stored uncompressed | data | [XXH32 of data, 4]
//! end:   00 00 00 00 | [content checksum, 4]
//! ```
//!
//! All integers are little-endian, and blocks are independent. The content checksum must be present but is not verified.
//! Bytes after the frame are ignored. The end mark is required: without it, a cut payload would look whole.

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};
use twox_hash::XxHash32;

use super::output::OutputBuffer;
use crate::base::error::{Error, Result};
use crate::base::primitives::Writer;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

const VERSION_AND_INDEPENDENCE: u8 = 0xe0;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const RESERVED_OR_DICTIONARY: u8 = 0x03;

/// In a block's size: the block is stored uncompressed.
const UNCOMPRESSED: u32 = 1 << 31;

/// The maximum number of bytes that one compressed byte can represent: a length byte of 255.
const MAX_RATIO: usize = 255;

/// The flags that Kafka writes: version 1, independent blocks of 64 KiB, nothing else.
const WRITTEN_FLAGS: [u8; 2] = [0x60, 0x40];
const BLOCK: usize = 64 << 10;
/// The frame's header as written: magic, flags, checksum.
const HEADER: usize = 7;

/// Kafka's default level. It is no LZ4-HC level; Kafka uses the fast compressor for it.
pub(super) const FAST_LEVEL: i32 = 9;

/// The largest size that `n` bytes can compress to, and the intermediate space of one block.
pub(super) fn bound(n: usize) -> usize {
    HEADER + n.div_ceil(BLOCK) * (4 + compress_bound(BLOCK).unwrap_or(2 * BLOCK)) + 4
}

/// Compresses `data` to the start of `room`, which has at least its [`bound`]; returns the frame's length.
///
/// `sums_magic`: the header checksum includes the magic number. That is wrong, but readers of message magic 0 expect it
/// (KAFKA-3160).
pub(super) fn encode(
    mode: CompressionMode,
    sums_magic: bool,
    data: &[u8],
    room: &mut [u8],
) -> Result<usize> {
    let no_room = || Error::invalid("lz4: no room");
    let described = [MAGIC.as_slice(), &WRITTEN_FLAGS].concat();
    let summed = if sums_magic {
        described.as_slice()
    } else {
        &WRITTEN_FLAGS
    };
    let mut writer = Writer::new(room);
    writer.bytes(&described).ok_or_else(no_room)?;
    writer
        .array([(XxHash32::oneshot(0, summed) >> 8) as u8])
        .ok_or_else(no_room)?;
    let mut at = HEADER;
    for block in data.chunks(BLOCK) {
        let (word, rest) = room
            .get_mut(at..)
            .and_then(<[u8]>::split_first_chunk_mut::<4>)
            .ok_or_else(no_room)?;
        let mut n = compress_to_buffer(block, Some(mode), false, rest)
            .map_err(|e| Error::invalid(format!("lz4: {e}")))?;
        let mut flag = 0;
        if n >= block.len() {
            (n, flag) = (block.len(), UNCOMPRESSED);
            rest.get_mut(..n)
                .ok_or_else(no_room)?
                .copy_from_slice(block);
        }
        *word = (n as u32 | flag).to_le_bytes();
        at += word.len() + n;
    }
    let end_mark = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
    *end_mark.ok_or_else(no_room)? = [0; 4];
    Ok(at + 4)
}

struct Frame {
    flags: u8,
    max_block: usize,
}

pub(super) fn decode(
    data: &[u8],
    ignore_header_checksum: bool,
    out: &mut OutputBuffer,
) -> Result<()> {
    let (frame, mut rest) = header(data, ignore_header_checksum)?;
    loop {
        let size = take_u32(&mut rest, "an end mark")?;
        let stored = size & UNCOMPRESSED != 0;
        let size = (size & !UNCOMPRESSED) as usize;
        if size == 0 {
            break;
        }
        if size > frame.max_block {
            return Err(Error::corrupt(format!(
                "lz4 block has {size} bytes, but its frame allows at most {}",
                frame.max_block
            )));
        }
        let (block, tail) = rest.split_at_checked(size).ok_or_else(|| cut("a block"))?;
        rest = tail;
        if frame.flags & BLOCK_CHECKSUM != 0 {
            let stored = take_u32(&mut rest, "a block checksum")?;
            let computed = XxHash32::oneshot(0, block);
            if stored != computed {
                return Err(Error::corrupt(format!(
                    "lz4 block checksum mismatch: stored {stored:08x}, computed {computed:08x}"
                )));
            }
        }
        if stored {
            out.reserve(size)?;
            if let Some(room) = out.spare().get_mut(..size) {
                room.copy_from_slice(block);
            }
            out.fill(size);
        } else {
            compressed(block, frame.max_block, out)?;
        }
    }
    if frame.flags & CONTENT_CHECKSUM != 0 {
        take_u32(&mut rest, "the content checksum")?;
    }
    Ok(())
}

/// Parses the header; returns it and the bytes after it.
fn header(data: &[u8], ignore_checksum: bool) -> Result<(Frame, &[u8])> {
    let (fixed, _) = data
        .split_first_chunk::<6>()
        .ok_or_else(|| cut("the frame header"))?;
    let [magic @ .., flags, bd] = *fixed;
    if magic != MAGIC {
        return Err(Error::corrupt("not an lz4 frame"));
    }
    if flags & VERSION_AND_INDEPENDENCE != 0x60 || flags & RESERVED_OR_DICTIONARY != 0 {
        return Err(Error::corrupt(format!("lz4 frame flags {flags:02x}")));
    }
    let max_block = match bd {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return Err(Error::corrupt(format!("lz4 block descriptor {bd:02x}"))),
    };
    let end = if flags & CONTENT_SIZE != 0 { 14 } else { 6 };
    let (described, rest) = data
        .split_at_checked(end)
        .ok_or_else(|| cut("the frame header"))?;
    let (&stored, rest) = rest.split_first().ok_or_else(|| cut("the frame header"))?;
    let computed =
        (XxHash32::oneshot(0, described.get(MAGIC.len()..).unwrap_or_default()) >> 8) as u8;
    if stored != computed && !ignore_checksum {
        return Err(Error::corrupt(format!(
            "lz4 header checksum mismatch: stored {stored:02x}, computed {computed:02x}"
        )));
    }
    Ok((Frame { flags, max_block }, rest))
}

fn compressed(block: &[u8], max_block: usize, out: &mut OutputBuffer) -> Result<()> {
    let most = max_block.min(block.len().saturating_mul(MAX_RATIO) + 64);
    let allowed = out.allowed().min(most);
    out.reserve(allowed)?;
    let mut decoded = decode_block(block, out.spare().get_mut(..allowed).unwrap_or_default());
    if decoded.is_err() && allowed < most {
        // Either the cap is reached, or the cap is exact and LZ4 needs spare bytes after a match. Kafka's buffer holds
        // any block.
        let mut whole = vec![0; most];
        decoded = decode_block(block, &mut whole);
        if let Ok(n) = decoded {
            out.reserve(n)?;
            if let (Some(room), Some(whole)) = (out.spare().get_mut(..n), whole.get(..n)) {
                room.copy_from_slice(whole);
            }
        }
    }
    match decoded? {
        // Kafka's reader takes an empty block for a premature end.
        0 => Err(Error::corrupt("lz4 block decodes to nothing")),
        n => {
            out.fill(n);
            Ok(())
        }
    }
}

/// Decodes a block with the C library, which Kafka's lz4-java calls too.
fn decode_block(block: &[u8], room: &mut [u8]) -> Result<usize> {
    let size = i32::try_from(room.len()).unwrap_or(i32::MAX);
    decompress_to_buffer(block, Some(size), room)
        .map_err(|_| Error::corrupt("lz4 block cannot be decompressed"))
}

fn take_u32(rest: &mut &[u8], what: &str) -> Result<u32> {
    let (bytes, tail) = rest.split_first_chunk::<4>().ok_or_else(|| cut(what))?;
    *rest = tail;
    Ok(u32::from_le_bytes(*bytes))
}

#[cold]
fn cut(what: &str) -> Error {
    Error::corrupt(format!("lz4: data ends where {what} is expected"))
}
