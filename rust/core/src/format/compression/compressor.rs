//! Compressing payloads as Kafka's writers do.
//!
//! Compressed bytes are not canonical and may differ from Kafka's; framing, block sizes and flags are the same. There
//! is one deliberate difference: a zstd frame declares its content size, so that a reader can decode it in one step.

use std::fmt;

use libdeflater::CompressionLvl;
use lz4::block::CompressionMode;
use zstd_safe::{CCtx, CParameter, get_error_name};

use super::{Compression, lz4 as lz4_frame, snappy};
use crate::base::error::{Error, Result};

/// A buffer above this size is freed once a payload needs much less memory.
const KEEP: usize = 8 << 20;

/// The largest zstd window that Kafka reads. A frame that declares its size has its content as the window.
const MAX_WINDOW: usize = 128 << 20;

/// The position of the gzip header's ninth byte. libdeflate sets it to "slowest" or "fastest" by level; Java's zlib
/// leaves 0.
const GZIP_EXTRA_FLAGS_AT: usize = 8;

/// A codec and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec {
    /// The codec.
    pub compression: Compression,
    /// The level, as in Kafka's `compression.gzip.level` and its siblings; None is Kafka's default.
    pub level: Option<i32>,
}

impl Codec {
    /// No compression.
    pub const NONE: Self = Self {
        compression: Compression::None,
        level: None,
    };

    /// Creates a codec; refuses levels that Kafka refuses.
    pub fn new(compression: Compression, level: Option<i32>) -> Result<Self> {
        let codec = Self { compression, level };
        let Some(level) = level else {
            return Ok(codec);
        };
        let (is_allowed, allowed) = match compression {
            Compression::None | Compression::Snappy => (false, "none"),
            Compression::Gzip => ((1..=9).contains(&level) || level == -1, "1 to 9, or -1"),
            Compression::Lz4 => ((1..=17).contains(&level), "1 to 17"),
            Compression::Zstd => ((-131_072..=22).contains(&level), "-131072 to 22"),
        };
        if is_allowed {
            return Ok(codec);
        }
        Err(Error::invalid(format!(
            "compression level {level} for {}; allowed: {allowed}",
            compression.name()
        )))
    }

    fn level(self) -> i32 {
        let default = match self.compression {
            Compression::None | Compression::Snappy => 0,
            Compression::Gzip => GZIP_DEFAULT,
            Compression::Lz4 => lz4_frame::FAST_LEVEL,
            Compression::Zstd => 3,
        };
        match self.level {
            Some(-1) if self.compression == Compression::Gzip => default,
            level => level.unwrap_or(default),
        }
    }
}

/// The level that zlib uses for -1.
const GZIP_DEFAULT: i32 = 6;

/// Compresses payloads; contexts and buffers are kept between calls.
pub struct Compressor {
    /// The last compressed payload, then spare memory.
    buffer: Vec<u8>,
    gzip: Option<(i32, libdeflater::Compressor)>,
    snappy: snap::raw::Encoder,
    zstd: Option<CCtx<'static>>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// Allocates nothing until it is used.
    pub fn new() -> Self {
        Self {
            buffer: Vec::new(),
            gzip: None,
            snappy: snap::raw::Encoder::new(),
            zstd: None,
        }
    }

    /// Compresses `from` and appends the result to `to`.
    ///
    /// `magic` is the batch's. The LZ4 header of magic 0 gets the checksum that its readers expect (KAFKA-3160).
    pub fn compress(
        &mut self,
        codec: Codec,
        magic: i8,
        from: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<()> {
        if codec.compression == Compression::None {
            to.extend_from_slice(from);
        } else {
            to.extend_from_slice(self.compressed(codec, magic, from)?);
        }
        Ok(())
    }

    /// Compresses `from` with a codec other than none. The result is valid until the next call.
    pub(crate) fn compressed(&mut self, codec: Codec, magic: i8, from: &[u8]) -> Result<&[u8]> {
        if self.buffer.len() > KEEP && from.len() < KEEP / 4 {
            self.buffer = Vec::new();
        }
        let level = codec.level();
        let length = match codec.compression {
            Compression::None => 0,
            Compression::Gzip => self.gzip(level, from)?,
            Compression::Snappy => {
                reserve(&mut self.buffer, snappy::bound(from.len()));
                snappy::encode(&mut self.snappy, from, &mut self.buffer)?
            }
            Compression::Lz4 => {
                let mode = match level {
                    lz4_frame::FAST_LEVEL => CompressionMode::DEFAULT,
                    level => CompressionMode::HIGHCOMPRESSION(level),
                };
                reserve(&mut self.buffer, lz4_frame::bound(from.len()));
                lz4_frame::encode(mode, magic == 0, from, &mut self.buffer)?
            }
            Compression::Zstd => self.zstd(level, from)?,
        };
        Ok(self.buffer.get(..length).unwrap_or_default())
    }

    fn gzip(&mut self, level: i32, from: &[u8]) -> Result<usize> {
        let gzip = match &mut self.gzip {
            Some((made_for, gzip)) if *made_for == level => gzip,
            gzip => {
                let known = CompressionLvl::new(level)
                    .map_err(|_| Error::invalid(format!("compression level {level} for gzip")))?;
                &mut gzip.insert((level, libdeflater::Compressor::new(known))).1
            }
        };
        reserve(&mut self.buffer, gzip.gzip_compress_bound(from.len()));
        let length = gzip
            .gzip_compress(from, &mut self.buffer)
            .map_err(|e| Error::invalid(format!("gzip: {e}")))?;
        if let Some(flags) = self.buffer.get_mut(GZIP_EXTRA_FLAGS_AT) {
            *flags = 0;
        }
        Ok(length)
    }

    fn zstd(&mut self, level: i32, from: &[u8]) -> Result<usize> {
        let failed =
            |code| Error::invalid(format!("zstd: {}", get_error_name(code).to_lowercase()));
        let context = match &mut self.zstd {
            Some(context) => context,
            none => none.insert(
                CCtx::try_create().ok_or_else(|| Error::unsupported("no memory for zstd"))?,
            ),
        };
        let says_size = from.len() <= MAX_WINDOW;
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .and_then(|_| context.set_parameter(CParameter::ContentSizeFlag(says_size)))
            .map_err(failed)?;
        reserve(&mut self.buffer, zstd_safe::compress_bound(from.len()));
        context
            .compress2(self.buffer.as_mut_slice(), from)
            .map_err(failed)
    }
}

/// Grows `buffer` to `n` bytes. Memory is zeroed once.
fn reserve(buffer: &mut Vec<u8>, n: usize) {
    if buffer.len() < n {
        // Nothing must be kept: fresh zero pages are cheaper than a copy.
        *buffer = Vec::new();
        *buffer = vec![0; n.next_power_of_two()];
    }
}
