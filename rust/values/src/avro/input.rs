//! The rest of a body in Avro's binary encoding.

use crate::limits::{Error, Limits, Result};
use crate::varint;

/// The bytes of a body that are not yet read.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub(super) rest: &'a [u8],
    pub(super) limits: Limits,
}

impl<'a> Input<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            rest: body,
            limits: Limits::new(),
        }
    }

    /// The number of items in the next block of an array or map; 0 at its end, and 0 is never a block. A block with a
    /// negative count also has its size, which is for readers that skip it.
    pub(super) fn block(&mut self) -> Result<u64> {
        let count = self.long()?;
        if count < 0 {
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    /// Calls `item` for each item of an array or map.
    pub(super) fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let before = self.rest.len();
                item(self)?;
                self.count_item(before)?;
            }
        }
    }

    /// Counts an item that took no bytes. `before` is the number of bytes that were left before it.
    #[inline]
    pub(super) fn count_item(&mut self, before: usize) -> Result<()> {
        if self.rest.len() == before {
            self.limits.take_empty()?;
        }
        Ok(())
    }

    pub(super) fn boolean(&mut self) -> Result<bool> {
        match self.bytes(1, "boolean")? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::new("a boolean is neither 0 nor 1")),
        }
    }

    #[inline(always)]
    pub(super) fn int(&mut self) -> Result<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Error::new("an int has more than 32 bits"))
    }

    #[inline(always)]
    pub(super) fn long(&mut self) -> Result<i64> {
        let (value, length) = varint::read(self.rest).ok_or_else(Error::no_varint)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The position of an enum's symbol.
    pub(super) fn symbol(&mut self, count: usize) -> Result<usize> {
        let index = self.int()?;
        let at = usize::try_from(index).ok().filter(|&at| at < count);
        at.ok_or_else(|| Error::new(format!("{index} is no symbol of an enum of {count}")))
    }

    /// The position of a union's branch.
    #[inline(always)]
    pub(super) fn branch(&mut self, count: usize) -> Result<usize> {
        let index = self.long()?;
        let at = usize::try_from(index).ok().filter(|&at| at < count);
        at.ok_or_else(|| Error::new(format!("{index} is no branch of a union of {count}")))
    }

    pub(super) fn string(&mut self) -> Result<&'a str> {
        let bytes = self.sized("string")?;
        std::str::from_utf8(bytes).map_err(|_| Error::not_utf8())
    }

    /// Bytes after their length.
    #[inline(always)]
    pub(super) fn sized(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| negative(what))?;
        self.bytes(length, what)
    }

    #[inline(always)]
    pub(super) fn bytes(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(cut(what, length, self.rest.len()));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.bytes(N, what)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    /// Calls `read` one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.limits.depth == 0 {
            return Err(Error::too_deep());
        }
        self.limits.depth -= 1;
        let result = read(self);
        self.limits.depth += 1;
        result
    }
}

#[cold]
fn negative(what: &str) -> Error {
    Error::new(format!("the length of a {what} is negative"))
}

#[cold]
fn cut(what: &str, length: usize, left: usize) -> Error {
    Error::new(format!("a {what} has {length} bytes, but {left} are left"))
}
