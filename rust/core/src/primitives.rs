//! Big-endian integers and zigzag varints, read from a slice that is never overrun.
//!
//! Kafka's `ByteUtils`: over-long varints are accepted and surplus high bits of the last byte are
//! dropped; only a continuation bit in the fifth (tenth) byte is an error.

use crate::error::{Error, Result};

/// Bytes not yet read. Each read takes from the front or fails without taking anything.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their first byte.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How much has not been read.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
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
        Error::corrupt(format!("{wanted} bytes wanted, {left} left"))
    }

    /// A signed byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// A big-endian int16.
    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// A big-endian int32.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A big-endian uint32.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A big-endian int64.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// An unsigned varint of at most five bytes.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32> {
        // The fifth byte's surplus bits fall out of the u32, as in Kafka.
        self.base128(5).map(|v| v as u32)
    }

    /// A zigzag int32.
    #[inline]
    pub fn varint(&mut self) -> Result<i32> {
        let v = self.unsigned_varint()?;
        Ok((v >> 1) as i32 ^ -((v & 1) as i32))
    }

    /// A zigzag int64 (Kafka's varlong).
    #[inline]
    pub fn varlong(&mut self) -> Result<i64> {
        let v = self.base128(10)?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    #[inline]
    fn base128(&mut self, max_bytes: usize) -> Result<u64> {
        // Nearly every varint in a log is one byte: lengths below 64, deltas of a batch.
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
