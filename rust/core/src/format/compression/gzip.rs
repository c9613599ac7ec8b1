//! gzip as `java.util.zip.GZIPInputStream` reads it: successive members form one stream. If the bytes after a member
//! are not a member header, they are ignored.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::DecompressionError;
use memchr::memmem;

use super::output::OutputBuffer;
use crate::base::error::{Error, Result};

/// The two magic bytes and the only compression method.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// A header without optional fields, an empty deflate block, CRC32 and ISIZE.
const MIN_MEMBER: usize = 20;

const FHCRC: u8 = 0x02;
const FEXTRA: u8 = 0x04;
const FNAME: u8 = 0x08;
const FCOMMENT: u8 = 0x10;

/// Two decoders. libdeflate is 1.5 times as fast, but it stops after the first member without reporting where that
/// ends. The streaming decoder handles all payloads that are not a single plain member.
#[derive(Default)]
pub(super) struct Gzip {
    fast: Option<libdeflater::Decompressor>,
    streaming: Option<Decompress>,
}

impl Gzip {
    pub(super) fn decode(&mut self, data: &[u8], out: &mut OutputBuffer) -> Result<()> {
        if self.single_member(data, out)? {
            return Ok(());
        }
        out.clear();
        self.members(data, out)
    }

    /// Decodes a payload of one plain member, as Kafka writes it. Returns false if the payload has another form, or
    /// damage that the other decoder must report.
    fn single_member(&mut self, data: &[u8], out: &mut OutputBuffer) -> Result<bool> {
        let (Some([0x1f, 0x8b, 8, 0]), Some(&isize)) = (data.first_chunk(), data.last_chunk())
        else {
            return Ok(false);
        };
        out.expect(u64::from(u32::from_le_bytes(isize)).max(1), data.len());
        let decoder = self.fast.get_or_insert_default();
        let size = loop {
            match decoder.gzip_decompress(data, out.spare()) {
                Ok(n) => break n,
                Err(DecompressionError::InsufficientSpace) => out.grow()?,
                Err(DecompressionError::BadData) => return Ok(false),
            }
        };
        out.fill(size);
        Ok(!has_second_member(data, size))
    }

    /// Decodes all members.
    fn members(&mut self, data: &[u8], out: &mut OutputBuffer) -> Result<()> {
        let mut rest = after_header(data)?;
        loop {
            rest = self.deflated(rest, out)?;
            // An incomplete or foreign header after a member is trailing garbage, not damage.
            match after_header(rest) {
                Ok(next) if rest.len() >= MIN_MEMBER - 1 => rest = next,
                _ => return Ok(()),
            }
        }
    }

    /// Decodes one member's deflate stream, verifies its trailer, and returns the bytes after it.
    fn deflated<'a>(&mut self, mut data: &'a [u8], out: &mut OutputBuffer) -> Result<&'a [u8]> {
        let decoder = self.streaming.get_or_insert_with(|| Decompress::new(false));
        decoder.reset(false);
        loop {
            // At the cap the stream may still end. One more byte shows it.
            let within_cap = out.reserve(1);
            let mut beyond = [0];
            let room = if within_cap.is_ok() {
                out.spare()
            } else {
                &mut beyond[..]
            };
            let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
            let status = decoder
                .decompress(data, room, FlushDecompress::None)
                .map_err(|e| Error::corrupt(format!("gzip: {e}")))?;
            let consumed = (decoder.total_in() - before_in) as usize;
            let produced = (decoder.total_out() - before_out) as usize;
            if produced > 0 {
                within_cap?;
                out.fill(produced);
            }
            data = data.get(consumed..).unwrap_or_default();
            if status == Status::StreamEnd {
                break;
            }
            if consumed == 0 && produced == 0 {
                return Err(Error::corrupt("gzip: data ends inside a member"));
            }
        }
        let size = decoder.total_out();
        let computed = libdeflater::crc32(out.last(size as usize));
        let (trailer, rest) = data
            .split_first_chunk::<8>()
            .ok_or_else(|| Error::corrupt("gzip: data ends inside a member's trailer"))?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = *trailer;
        let stored = u32::from_le_bytes([c0, c1, c2, c3]);
        if stored != computed {
            return Err(Error::corrupt(format!(
                "gzip crc mismatch: stored {stored:08x}, computed {computed:08x}"
            )));
        }
        let stored = u32::from_le_bytes([s0, s1, s2, s3]);
        if stored != size as u32 {
            return Err(Error::corrupt(format!(
                "gzip size mismatch: stored {stored}, decoded {size}"
            )));
        }
        Ok(rest)
    }
}

/// Returns true if another member may follow the first one, which decoded to `size` bytes: a header's magic directly
/// after a matching trailer. False positives only cost time, as the slower decoder then decides.
fn has_second_member(data: &[u8], size: usize) -> bool {
    let isize = (size as u32).to_le_bytes();
    let Some((_, later)) = data.split_at_checked(MIN_MEMBER - isize.len()) else {
        return false;
    };
    memmem::find_iter(later.get(isize.len()..).unwrap_or_default(), &MAGIC).any(|at| {
        later
            .get(at..)
            .is_some_and(|before| before.starts_with(&isize))
    })
}

/// Returns the bytes after a member's header.
fn after_header(data: &[u8]) -> Result<&[u8]> {
    let cut = || Error::corrupt("gzip: data ends inside a member's header");
    let (fixed, mut rest) = data.split_first_chunk::<10>().ok_or_else(cut)?;
    if !fixed.starts_with(&MAGIC) {
        return Err(Error::corrupt("gzip: no member header"));
    }
    let flags = fixed[3];
    if flags & FEXTRA != 0 {
        let (length, tail) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        rest = tail
            .get(usize::from(u16::from_le_bytes(*length))..)
            .ok_or_else(cut)?;
    }
    for text in [FNAME, FCOMMENT] {
        if flags & text != 0 {
            let zero = memchr::memchr(0, rest).ok_or_else(cut)?;
            rest = rest.get(zero + 1..).ok_or_else(cut)?;
        }
    }
    if flags & FHCRC != 0 {
        let header = data.get(..data.len() - rest.len()).ok_or_else(cut)?;
        let (stored, tail) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        if u32::from(u16::from_le_bytes(*stored)) != libdeflater::crc32(header) & 0xffff {
            return Err(Error::corrupt("gzip: header crc mismatch"));
        }
        rest = tail;
    }
    Ok(rest)
}
