//! Zstandard frames, decoded in one step each.
//!
//! ```text
//! frame   28 B5 2F FD | descriptor | [window] | [dictionary id] | [content size] | blocks | [checksum, 4]
//! block   3 bytes little-endian: bit 0 last, bits 1-2 type, the rest its size | data (one byte for a run)
//! skipped 5x 2A 4D 18 | size, 4 | that many bytes
//! ```
//!
//! libzstd's streaming interface would allocate the window that a frame declares (up to 128 MiB for ten bytes of input) and
//! copy every byte once more. It would also accept a payload that is cut after its last data block. Decoding whole frames
//! avoids all this. The limits that only the streaming interface checks are checked here.

use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{DCtx, get_error_name};

use super::output::OutputBuffer;
use crate::base::error::{Error, Result};

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE: u32 = 0x184d_2a50;

/// libzstd's default limit for streams, which Kafka does not change.
const MAX_WINDOW: u64 = 128 << 20;
/// The largest decoded block. A smaller window lowers it.
const MAX_BLOCK: u64 = 128 << 10;

/// Descriptor flag: no window is declared, the content is the window.
const SINGLE_SEGMENT: u8 = 0x20;
const RESERVED: u8 = 0x08;
const CHECKSUM: u8 = 0x04;

/// The expected decoded size of text, as a multiple of its compressed size.
const USUAL_RATIO: u64 = 4;

#[derive(Default)]
pub(super) struct Zstd {
    context: Option<DCtx<'static>>,
}

impl Zstd {
    /// Decodes successive frames. The last frame must be complete, and nothing may follow it. An input without frames
    /// is an empty stream.
    pub(super) fn decode(&mut self, data: &[u8], out: &mut OutputBuffer) -> Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let start = rest;
            let content_size = skip_frame(&mut rest)?;
            let size = start.len() - rest.len();
            if let (Some(content_size), Some(frame)) = (content_size, start.get(..size)) {
                out.expect(content_size.unwrap_or(size as u64 * USUAL_RATIO), size);
                self.frame(frame, out)?;
            }
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8], out: &mut OutputBuffer) -> Result<()> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(
                DCtx::try_create().ok_or_else(|| Error::unsupported("no memory for zstd"))?,
            ),
        };
        loop {
            match context.decompress(out.spare(), frame) {
                Ok(n) => {
                    out.fill(n);
                    return Ok(());
                }
                Err(code) if is_too_small(code) => out.grow()?,
                Err(code) => {
                    let name = get_error_name(code).to_lowercase();
                    return Err(Error::corrupt(format!("zstd: {name}")));
                }
            }
        }
    }
}

/// Moves `rest` past its first frame. Returns None for a skippable frame, else the declared content size, if any.
fn skip_frame(rest: &mut &[u8]) -> Result<Option<Option<u64>>> {
    let magic = little_endian(rest, 4)? as u32;
    if magic & 0xffff_fff0 == SKIPPABLE {
        let size = little_endian(rest, 4)?;
        take(rest, size)?;
        return Ok(None);
    }
    if magic != MAGIC {
        return Err(Error::corrupt(format!(
            "not a zstd frame: it starts with {:08x}",
            magic.swap_bytes()
        )));
    }
    let descriptor = little_endian(rest, 1)? as u8;
    if descriptor & RESERVED != 0 {
        return Err(Error::corrupt(format!(
            "zstd frame descriptor {descriptor:02x} has its reserved bit set"
        )));
    }
    let is_single_segment = descriptor & SINGLE_SEGMENT != 0;
    let window = if is_single_segment {
        0
    } else {
        little_endian(rest, 1)?
    };
    let dictionary_id_bytes = [0, 1, 2, 4]
        .get(usize::from(descriptor & 3))
        .copied()
        .unwrap_or(0);
    take(rest, dictionary_id_bytes)?;
    let content_size = match descriptor >> 6 {
        0 if is_single_segment => Some(little_endian(rest, 1)?),
        0 => None,
        1 => Some(little_endian(rest, 2)? + 256),
        2 => Some(little_endian(rest, 4)?),
        _ => Some(little_endian(rest, 8)?),
    };
    let window = match content_size {
        Some(size) if is_single_segment => size,
        // Five bits of exponent, then three of mantissa.
        _ => (8 + (window & 7)) << (7 + (window >> 3)),
    };
    if window > MAX_WINDOW {
        return Err(Error::corrupt(format!(
            "zstd window of {window} bytes; Kafka reads up to {MAX_WINDOW}"
        )));
    }
    skip_blocks(rest, window.min(MAX_BLOCK))?;
    take(rest, if descriptor & CHECKSUM != 0 { 4 } else { 0 })?;
    Ok(Some(content_size))
}

fn skip_blocks(rest: &mut &[u8], max_block: u64) -> Result<()> {
    loop {
        let header = little_endian(rest, 3)?;
        let size = header >> 3;
        if size > max_block {
            return Err(Error::corrupt(format!(
                "zstd block has {size} bytes, but at most {max_block} are allowed"
            )));
        }
        match header >> 1 & 3 {
            0 | 2 => take(rest, size)?,
            1 => take(rest, 1)?,
            _ => return Err(Error::corrupt("zstd block type 3")),
        };
        if header & 1 != 0 {
            return Ok(());
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], n: u64) -> Result<&'a [u8]> {
    let parts = usize::try_from(n)
        .ok()
        .and_then(|n| rest.split_at_checked(n));
    let (taken, tail) = parts.ok_or_else(|| Error::corrupt("zstd: data ends inside a frame"))?;
    *rest = tail;
    Ok(taken)
}

fn little_endian(rest: &mut &[u8], n: u64) -> Result<u64> {
    Ok(take(rest, n)?
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn is_too_small(code: usize) -> bool {
    // libzstd returns negated error codes.
    code == 0usize.wrapping_sub(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize)
}
