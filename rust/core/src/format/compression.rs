//! Kafka's four codecs, decoded as Kafka's own readers decode them.
//!
//! One `Decompressor` or `Compressor` serves many batches. It keeps contexts and buffers, because fresh ones cost more
//! than decoding a batch of 16 KB. Declared sizes are only hints: the output buffer grows with the bytes that are
//! decoded, and never beyond the caller's cap.

mod compressor;
mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

use std::fmt;

use crate::base::error::{Fault, Result};
use output::OutputBuffer;

pub use compressor::{Codec, Compressor};

/// The default cap on the decompressed size of one batch, 256 MiB. Kafka has no cap, and hostile bytes may declare any
/// size.
pub const DEFAULT_MAX_BATCH_BYTES: usize = 256 << 20;

/// A codec; its id is in the low three bits of a batch's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Uncompressed records.
    None = 0,
    /// RFC 1952 members.
    Gzip = 1,
    /// Blocks in snappy-java's stream format ("xerial"), or one raw block.
    Snappy = 2,
    /// One LZ4 frame of independent blocks.
    Lz4 = 3,
    /// Zstandard frames; magic 2 only (KIP-110).
    Zstd = 4,
}

impl Compression {
    /// All codecs in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Returns the codec of an id. The attributes can also hold the ids 5 to 7, which are not codecs.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Returns the codec with Kafka's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Decodes payloads into one reused buffer.
pub struct Decompressor {
    output: OutputBuffer,
    gzip: gzip::Gzip,
    snappy: snap::raw::Decoder,
    zstd: zstd::Zstd,
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    /// Refuses payloads that decode to more than `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            output: OutputBuffer::new(max_bytes),
            gzip: gzip::Gzip::default(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd::Zstd::default(),
        }
    }

    /// Decodes a payload. The result is valid until the next call.
    ///
    /// `ignore_lz4_header_checksum` is for magic 0, whose writers computed that checksum over the wrong bytes
    /// (KAFKA-3160).
    pub fn decompress<'a>(
        &'a mut self,
        codec: Compression,
        data: &'a [u8],
        ignore_lz4_header_checksum: bool,
    ) -> Result<&'a [u8]> {
        self.output.clear();
        let output = &mut self.output;
        let decoded = match codec {
            Compression::None => return Ok(data),
            Compression::Gzip => self.gzip.decode(data, output),
            Compression::Snappy => snappy::decode(&mut self.snappy, data, output),
            Compression::Lz4 => lz4::decode(data, ignore_lz4_header_checksum, output),
            Compression::Zstd => self.zstd.decode(data, output),
        };
        decoded.map_err(|error| error.of(Fault::Payload))?;
        Ok(self.output.filled())
    }

    /// The whole buffer. The last decoded payload is at its start.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.output.all()
    }
}
