//! Payloads compressed as Kafka's writers compress them.
//!
//! Compressed bytes are not canonical, so these need not be Kafka's byte for byte; framing, block sizes and flags
//! are. One thing is done otherwise on purpose: a zstd frame says how long its content is, because the size is known
//! before it starts, and a reader can then decode it in one step.

use std::fmt;

use libdeflater::CompressionLvl;
use lz4::block::CompressionMode;
use zstd_safe::{CCtx, CParameter, get_error_name};

use super::{Compression, lz4 as lz4_frame, snappy};
use crate::base::error::{Error, Result};

/// A buffer kept longer than this is given back once it is not needed any more.
const KEEP: usize = 8 << 20;

/// Kafka reads zstd windows up to this; a frame that says how long it is has its content as the window.
const MAX_WINDOW: usize = 128 << 20;

/// libdeflate leaves "slowest" or "fastest" in the gzip header's ninth byte by level; zlib in Java leaves 0.
const GZIP_EXTRA_FLAGS_AT: usize = 8;

/// A codec and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec {
    /// The codec.
    pub compression: Compression,
    /// As in Kafka's `compression.gzip.level` and its like; None: Kafka's default.
    pub level: Option<i32>,
}

impl Codec {
    /// Records as they are.
    pub const NONE: Self = Self {
        compression: Compression::None,
        level: None,
    };

    /// Refuses levels that Kafka refuses.
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

/// What zlib takes -1 for.
const GZIP_DEFAULT: i32 = 6;

/// Compresses payloads one after another; contexts and buffers are kept between calls.
pub struct Compressor {
    /// What the last payload became, then room.
    room: Vec<u8>,
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
    /// Holds nothing until it is used.
    pub fn new() -> Self {
        Self {
            room: Vec::new(),
            gzip: None,
            snappy: snap::raw::Encoder::new(),
            zstd: None,
        }
    }

    /// Appends to `to` what `from` becomes.
    ///
    /// `magic` is the batch's: the LZ4 header of magic 0 has the checksum that its readers expect (KAFKA-3160).
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

    /// What `from` becomes, valid until the next call. The codec is not none.
    pub(crate) fn compressed(&mut self, codec: Codec, magic: i8, from: &[u8]) -> Result<&[u8]> {
        if self.room.len() > KEEP && from.len() < KEEP / 4 {
            self.room = Vec::new();
        }
        let level = codec.level();
        let length = match codec.compression {
            Compression::None => 0,
            Compression::Gzip => self.gzip(level, from)?,
            Compression::Snappy => {
                reserve(&mut self.room, snappy::bound(from.len()));
                snappy::encode(&mut self.snappy, from, &mut self.room)?
            }
            Compression::Lz4 => {
                let mode = match level {
                    lz4_frame::FAST_LEVEL => CompressionMode::DEFAULT,
                    level => CompressionMode::HIGHCOMPRESSION(level),
                };
                reserve(&mut self.room, lz4_frame::bound(from.len()));
                lz4_frame::encode(mode, magic == 0, from, &mut self.room)?
            }
            Compression::Zstd => self.zstd(level, from)?,
        };
        Ok(self.room.get(..length).unwrap_or_default())
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
        reserve(&mut self.room, gzip.gzip_compress_bound(from.len()));
        let length = gzip
            .gzip_compress(from, &mut self.room)
            .map_err(|e| Error::invalid(format!("gzip: {e}")))?;
        if let Some(flags) = self.room.get_mut(GZIP_EXTRA_FLAGS_AT) {
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
        reserve(&mut self.room, zstd_safe::compress_bound(from.len()));
        context
            .compress2(self.room.as_mut_slice(), from)
            .map_err(failed)
    }
}

/// Room for `n` bytes, zeroed once.
fn reserve(room: &mut Vec<u8>, n: usize) {
    if room.len() < n {
        // Nothing to keep: fresh zero pages are cheaper than a copy.
        *room = Vec::new();
        *room = vec![0; n.next_power_of_two()];
    }
}
