//! Zstandard frames, decoded in one step each.
//!
//! The streaming interface would allocate the window that a frame declares (up to 128 MiB for ten
//! bytes of input), copy every byte once more, and report a plain end of input for a payload cut after
//! its last data block. Decoding whole frames does none of this.

use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{DCtx, find_frame_compressed_size, get_error_name, get_frame_content_size};

use super::output::Output;
use crate::error::{Error, Result};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// libzstd's default for streams, which Kafka does not change.
const MAX_WINDOW: u64 = 128 << 20;

/// In the frame header's descriptor: no window is declared, the content is the window.
const SINGLE_SEGMENT: u8 = 0x20;

#[derive(Default)]
pub(super) struct Zstd {
    context: Option<DCtx<'static>>,
}

impl Zstd {
    /// Frames one after another; nothing may follow the last one, and it must have ended. No frame at
    /// all is an empty stream.
    pub(super) fn decode(&mut self, mut data: &[u8], out: &mut Output) -> Result<()> {
        while !data.is_empty() {
            let size = find_frame_compressed_size(data).map_err(failed)?;
            let (frame, rest) = data
                .split_at_checked(size)
                .ok_or_else(|| Error::corrupt("zstd: cut frame"))?;
            if frame.starts_with(&MAGIC) {
                check_window(frame)?;
                self.frame(frame, out)?;
            }
            data = rest;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8], out: &mut Output) -> Result<()> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(
                DCtx::try_create().ok_or_else(|| Error::unsupported("no memory for zstd"))?,
            ),
        };
        // Kafka's writer never declares a size; compressed text is mostly below a quarter.
        let declared = get_frame_content_size(frame).ok().flatten();
        out.expect(declared.unwrap_or(frame.len() as u64 * 4), frame.len());
        loop {
            match context.decompress(out.spare(), frame) {
                Ok(n) => {
                    out.fill(n);
                    return Ok(());
                }
                Err(code) if is_too_small(code) => out.grow()?,
                Err(code) => return Err(failed(code)),
            }
        }
    }
}

/// Refuses what Kafka refuses: its reader would have to hold the whole window.
fn check_window(frame: &[u8]) -> Result<()> {
    let exponent_and_mantissa = match frame.get(MAGIC.len()..) {
        Some([descriptor, window, ..]) if descriptor & SINGLE_SEGMENT == 0 => *window,
        _ => return Ok(()),
    };
    let eighth = 1u64 << (7 + (exponent_and_mantissa >> 3));
    let window = eighth * u64::from(8 + (exponent_and_mantissa & 7));
    if window > MAX_WINDOW {
        return Err(Error::corrupt(format!(
            "zstd window of {window} bytes; Kafka reads up to {MAX_WINDOW}"
        )));
    }
    Ok(())
}

fn is_too_small(code: usize) -> bool {
    // libzstd returns error codes negated.
    code == 0usize.wrapping_sub(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize)
}

#[cold]
fn failed(code: usize) -> Error {
    Error::corrupt(format!("zstd: {}", get_error_name(code).to_lowercase()))
}
