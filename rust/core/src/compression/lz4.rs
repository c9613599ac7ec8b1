//! The subset of the LZ4 frame format that Kafka reads (its `Lz4BlockInputStream`).
//!
//! ```text
//! magic 04 22 4D 18 | FLG | BD | [content size, 8] | HC
//! block: uint32 size, top bit set if stored uncompressed | data | [XXH32 of data, 4]
//! end:   00 00 00 00 | [content checksum, 4]
//! ```
//!
//! Little-endian. Blocks are independent; the content checksum must be there but is not verified;
//! whatever follows the frame is ignored. The end mark must be there: without it a cut payload would
//! look whole.

use lz4_flex::block::{DecompressError, decompress_into};
use twox_hash::XxHash32;

use super::output::Output;
use crate::error::{Error, Result};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

const VERSION_AND_INDEPENDENCE: u8 = 0xe0;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const RESERVED_OR_DICTIONARY: u8 = 0x03;

/// In a block's size: the block is stored as it is.
const UNCOMPRESSED: u32 = 1 << 31;

/// A length byte of 255 is the most that one compressed byte can stand for.
const MAX_RATIO: usize = 255;

struct Frame {
    flags: u8,
    max_block: usize,
}

pub(super) fn decode(data: &[u8], ignore_header_checksum: bool, out: &mut Output) -> Result<()> {
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
                "lz4 block of {size} bytes in a frame of {} byte blocks",
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

/// What the header says, and what follows it.
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

fn compressed(block: &[u8], max_block: usize, out: &mut Output) -> Result<()> {
    let most = max_block.min(block.len().saturating_mul(MAX_RATIO) + 64);
    let allowed = out.allowed().min(most);
    out.reserve(allowed)?;
    let room = out.spare().get_mut(..allowed).unwrap_or_default();
    match decompress_into(block, room) {
        // Kafka's reader takes an empty block for a premature end.
        Ok(0) => Err(Error::corrupt("lz4 block decodes to nothing")),
        Ok(n) => {
            out.fill(n);
            Ok(())
        }
        // The cap, not the frame's block size, was in the way.
        Err(DecompressError::OutputTooSmall { .. }) if allowed < most => out.reserve(most),
        Err(e) => Err(Error::corrupt(format!("lz4: {e}"))),
    }
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
