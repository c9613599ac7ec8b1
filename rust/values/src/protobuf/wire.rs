//! The wire format: tags and values.

use crate::limits::{Error, MOST_DEPTH, Result};
use crate::varint;

/// The form of a value, with its number in a tag. With it, a value of an unknown field is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Sized = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
}

/// The bytes before a value: the number of its field, and its form. Read, but not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    pub(super) fn new(number: u32, wire: Wire) -> Self {
        Self(number << 3 | wire as u32)
    }

    /// The number of the field, and the form of the value.
    #[inline]
    pub(super) fn parts(self) -> Result<(u32, Wire)> {
        let wire = match self.0 & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Sized,
            3 => Wire::StartGroup,
            4 => Wire::EndGroup,
            5 => Wire::Fixed32,
            other => return Err(Error::new(format!("a value has the unknown form {other}"))),
        };
        match self.0 >> 3 {
            0 => Err(Error::new("the number of a field is 0")),
            number => Ok((number, wire)),
        }
    }
}

/// The bytes from a place in a body to the end of a message. Places count from the start of the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    /// The body up to the end of the message.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Reads a varint.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (value, length) = varint::read(rest).ok_or_else(Error::no_varint)?;
        self.at += length;
        Ok(value)
    }

    /// Reads `N` bytes.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    /// Reads a length, and returns that many bytes.
    #[inline(always)]
    pub(super) fn sized(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Reads a length, and returns that many bytes as an input of their own.
    #[inline]
    pub(super) fn part(&mut self) -> Result<Self> {
        let length = self.sized()?.len();
        let bytes = self.bytes.get(..self.at).unwrap_or_default();
        Ok(Self::new(bytes, self.at - length))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            return Err(cut(length, rest.len()));
        };
        self.at += length;
        Ok(taken)
    }

    /// Reads a tag.
    #[inline(always)]
    pub(super) fn tag(&mut self) -> Result<Tag> {
        let tag = u32::try_from(self.varint()?);
        tag.map(Tag)
            .map_err(|_| Error::new("the number of a field has more than 29 bits"))
    }

    /// Reads the tag of the next value; None at the end.
    #[inline(always)]
    pub(super) fn next_tag(&mut self) -> Result<Option<Tag>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.tag().map(Some)
    }

    /// Skips the value of a field. A value that ends too early is an error, even of an unknown field.
    #[inline]
    pub(super) fn skip(&mut self, number: u32, wire: Wire) -> Result<()> {
        match wire {
            Wire::Varint => self.varint().map(|_| ()),
            Wire::Fixed64 => self.take(8).map(|_| ()),
            Wire::Sized => self.sized().map(|_| ()),
            Wire::Fixed32 => self.take(4).map(|_| ()),
            Wire::StartGroup => self.skip_group(number),
            Wire::EndGroup => Err(Error::new("a group ends that has not begun")),
        }
    }

    /// Skips the rest of a group, with the groups in it.
    fn skip_group(&mut self, number: u32) -> Result<()> {
        let mut open = vec![number];
        while let Some(&last) = open.last() {
            if self.is_empty() {
                return Err(Error::new("the body ends within a group"));
            }
            match self.tag()?.parts()? {
                (number, Wire::EndGroup) if number == last => {
                    open.pop();
                }
                (_, Wire::EndGroup) => {
                    return Err(Error::new("a group ends with the number of another one"));
                }
                (number, Wire::StartGroup) => {
                    if open.len() >= MOST_DEPTH as usize {
                        return Err(Error::too_deep());
                    }
                    open.push(number);
                }
                (number, wire) => self.skip(number, wire)?,
            }
        }
        Ok(())
    }
}

#[cold]
fn cut(length: usize, left: usize) -> Error {
    Error::new(format!("a value has {length} bytes, but {left} are left"))
}
