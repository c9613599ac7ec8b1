//! Bounds-checked reading and writing of big-endian integers and zigzag varints.
//!
//! As in Kafka's `ByteUtils`, over-long varints are accepted, and surplus high bits of the last byte are dropped. The
//! only error is a continuation bit in the last possible byte: the fifth byte of 32 bits, or the tenth of 64 bits.

use crate::base::error::{Error, Result};

/// The bytes that remain to be read. Each read consumes bytes from the front, or fails and consumes none.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that remain.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The number of bytes that remain.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(Self::short(n, self.rest.len())),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(Self::short(N, self.rest.len())),
        }
    }

    #[cold]
    fn short(wanted: usize, left: usize) -> Error {
        Error::corrupt(format!("{wanted} bytes needed, {left} left"))
    }

    /// Reads a signed byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// Reads a big-endian int16.
    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Reads a big-endian int32.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads a big-endian uint32.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a big-endian int64.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads an unsigned varint of at most five bytes.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32> {
        // Surplus bits of the fifth byte are lost in the u32, as in Kafka.
        self.base128(5).map(|v| v as u32)
    }

    /// Reads a zigzag int32.
    #[inline]
    pub fn varint(&mut self) -> Result<i32> {
        let v = self.unsigned_varint()?;
        Ok((v >> 1) as i32 ^ -((v & 1) as i32))
    }

    /// Reads a zigzag int64 (Kafka's varlong).
    #[inline]
    pub fn varlong(&mut self) -> Result<i64> {
        let v = self.base128(10)?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    #[inline]
    fn base128(&mut self, max_bytes: usize) -> Result<u64> {
        // Nearly every varint in a log is one byte: lengths below 64, and the deltas of a batch.
        if let Some((&first, tail)) = self.rest.split_first()
            && first < 0x80
        {
            self.rest = tail;
            return Ok(u64::from(first));
        }
        self.long_base128(max_bytes)
    }

    fn long_base128(&mut self, max_bytes: usize) -> Result<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(max_bytes).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.rest.len() < max_bytes {
            Error::corrupt("data ends inside a varint")
        } else {
            Error::corrupt(format!("varint longer than {max_bytes} bytes"))
        })
    }
}

/// The space that remains to be written. Each write fills the front, or returns None and writes nothing.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Starts at the first byte of `room`.
    #[inline]
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { rest: room }
    }

    /// The number of bytes that remain.
    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Writes an integer's bytes, as from `to_be_bytes`.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        let (head, tail) = std::mem::take(&mut self.rest).split_first_chunk_mut::<N>()?;
        *head = bytes;
        self.rest = tail;
        Some(())
    }

    /// Writes all of `bytes`.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let (head, tail) = std::mem::take(&mut self.rest).split_at_mut_checked(bytes.len())?;
        copy(head, bytes);
        self.rest = tail;
        Some(())
    }

    /// Writes a zigzag int32.
    #[inline]
    pub(crate) fn varint(&mut self, value: i32) -> Option<()> {
        self.base128(u64::from(zigzag32(value)))
    }

    /// Writes a zigzag int64 (Kafka's varlong).
    #[inline]
    pub(crate) fn varlong(&mut self, value: i64) -> Option<()> {
        self.base128(zigzag64(value))
    }

    #[inline]
    fn base128(&mut self, value: u64) -> Option<()> {
        if value < 1 << 7 {
            self.array([value as u8])
        } else if value < 1 << 14 {
            self.array([value as u8 | 0x80, (value >> 7) as u8])
        } else {
            self.long_base128(value)
        }
    }

    fn long_base128(&mut self, mut value: u64) -> Option<()> {
        while value >= 1 << 7 {
            self.array([value as u8 | 0x80])?;
            value >>= 7;
        }
        self.array([value as u8])
    }
}

/// Copies a slice to another of the same length. For some tens of bytes, inline moves are cheaper than a call.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    /// Above this length, a call is cheaper than inline moves.
    const IN_PLACE: usize = 256;
    const BLOCK: usize = 32;
    if from.len() > IN_PLACE || !ends::<BLOCK>(to, from) {
        if from.len() > IN_PLACE {
            to.copy_from_slice(from);
        } else if !ends::<16>(to, from) && !ends::<8>(to, from) && !ends::<4>(to, from) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        return;
    }
    for (to, from) in to
        .as_chunks_mut::<BLOCK>()
        .0
        .iter_mut()
        .zip(from.as_chunks::<BLOCK>().0)
    {
        *to = *from;
    }
}

/// Copies the first and the last `N` bytes, which may overlap. False if there are fewer than `N`.
#[inline]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else {
        return false;
    };
    if let Some(to) = to.first_chunk_mut::<N>() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut::<N>() {
        *to = *last;
    }
    true
}

/// Appends an unsigned varint.
pub(crate) fn push_unsigned_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 1 << 7 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn zigzag32(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

#[inline]
pub(crate) fn zigzag64(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The size of a zigzag int32 in bytes.
#[inline]
pub(crate) fn varint_size(value: i32) -> usize {
    base128_size(u64::from(zigzag32(value)))
}

/// The size of a zigzag int64 in bytes.
#[inline]
pub(crate) fn varlong_size(value: i64) -> usize {
    base128_size(zigzag64(value))
}

/// Divides the number of bits by seven, rounded up, without a division: exact for 1 to 64 bits.
#[inline]
fn base128_size(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}
