//! The wire format: tags and values.

use crate::limits::{Error, MOST_DEPTH, Result};

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

    /// Reads a varint. As in Java, surplus high bits of the tenth byte are dropped.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // Most tags, lengths and enums are one byte.
        if let Some(&byte) = rest.first()
            && byte < 0x80
        {
            self.at += 1;
            return Ok(byte.into());
        }
        if let Some(&word) = rest.first_chunk() {
            let word = u64::from_le_bytes(word);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                self.at += bits as usize / 8;
                return Ok(compact(word & (u64::MAX >> (64 - bits))));
            }
        }
        self.long_varint()
    }

    /// Reads a varint of more than eight bytes, or one near the end of the body.
    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut value = 0;
        for (index, &byte) in rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(Error::new(
            "the body ends within a number, or the number has more than ten bytes",
        ))
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

/// The seven lower bits of each byte, one after the other.
#[inline]
fn compact(word: u64) -> u64 {
    let pairs = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
    let fours = (pairs & 0x3fff_0000_3fff_0000) >> 2 | pairs & 0x0000_3fff_0000_3fff;
    (fours & 0x0fff_ffff_0000_0000) >> 4 | fours & 0x0fff_ffff
}

#[cold]
fn cut(length: usize, left: usize) -> Error {
    Error::new(format!("a value has {length} bytes, but {left} are left"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    #[test]
    fn a_varint_is_the_same_however_much_follows_it_and_none_if_it_is_cut() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) | 1]);
        for value in edges.chain([u64::MAX, 0x0123_4567_89ab_cdef]) {
            let mut written = Vec::new();
            encode::varint(value, &mut written);
            for cut in 0..written.len() {
                let bytes = written.get(..cut).unwrap_or_default();
                assert!(Input::new(bytes, 0).varint().is_err(), "{value} {cut}");
            }
            for (rest, byte) in
                (0..12).flat_map(|rest| [0, 0x7f, 0x80, 0xff].map(|one| (rest, one)))
            {
                let mut bytes = written.clone();
                bytes.resize(written.len() + rest, byte);
                let mut input = Input::new(&bytes, 0);
                assert_eq!(input.varint().ok(), Some(value), "{rest} {byte}");
                assert_eq!(input.at(), written.len());
            }
        }
        // With surplus zeros, and with more than ten bytes.
        for zeros in 1..12 {
            let mut bytes = vec![0x85];
            bytes.resize(zeros, 0x80);
            bytes.push(0);
            let found = Input::new(&bytes, 0).varint().ok();
            assert_eq!(found, (bytes.len() <= 10).then_some(5), "{zeros}");
        }
    }
}
