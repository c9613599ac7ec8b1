//! Rows in the memory format of Spark's tasks (`org.apache.spark.sql.catalyst.expressions.UnsafeRow`). The size in
//! bytes precedes each row, in the byte order of the machine.
//!
//! A row has three parts: a bit for each field, set if it is null, in whole words; a word for each field; and the bytes
//! to which these words point. A number is stored in its word. For bytes, an array or a row, the upper half of the word
//! is the offset, and the lower half the size.

use brokerless_core::{Error, Result};

const WORD: usize = 8;

/// The rows in a block of memory.
pub(crate) struct UnsafeRows<'a> {
    rest: &'a [u8],
    fields: usize,
}

impl<'a> UnsafeRows<'a> {
    /// The rows in `block`, which have this many fields.
    pub(crate) fn new(block: &'a [u8], fields: usize) -> Self {
        Self {
            rest: block,
            fields,
        }
    }
}

impl<'a> Iterator for UnsafeRows<'a> {
    type Item = Result<UnsafeRow<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let block = std::mem::take(&mut self.rest);
        let sized = || {
            let size = usize::try_from(word(block, 0)?).ok()?;
            let onwards = block.get(WORD..)?;
            Some((onwards, size, onwards.get(size..)?))
        };
        Some(match sized() {
            Some((onwards, size, rest)) => {
                self.rest = rest;
                Ok(UnsafeRow::new(onwards, size, self.fields))
            }
            None => Err(damaged()),
        })
    }
}

/// A row, or a struct in one.
#[derive(Clone, Copy)]
pub(crate) struct UnsafeRow<'a> {
    bytes: &'a [u8],
    /// The row and the bytes after it.
    onwards: &'a [u8],
    /// The start of the words of the fields.
    start: usize,
}

impl<'a> UnsafeRow<'a> {
    /// The row of `size` bytes at the start of `onwards`.
    fn new(onwards: &'a [u8], size: usize, fields: usize) -> Self {
        Self {
            bytes: onwards.get(..size).unwrap_or_default(),
            onwards,
            start: bits_size(fields),
        }
    }

    /// The size of the row in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// A whole number of 64 bits; None if it is null.
    #[inline]
    pub(crate) fn long(&self, field: usize) -> Result<Option<i64>> {
        self.field(field)
    }

    /// A whole number of 32 bits; None if it is null.
    #[inline]
    pub(crate) fn int(&self, field: usize) -> Result<Option<i32>> {
        // Spark stores it in the first half of the word.
        let halves = self.field(field)?.map(i64::to_ne_bytes);
        Ok(halves.map(|[a, b, c, d, ..]| i32::from_ne_bytes([a, b, c, d])))
    }

    /// A string or binary; None if it is null.
    #[inline]
    pub(crate) fn bytes(&self, field: usize) -> Result<Option<&'a [u8]>> {
        self.field(field)?
            .map(|place| placed(self.bytes, place))
            .transpose()
    }

    /// Returns the bytes from the start of a string or binary on, including bytes after the row, and its length; None
    /// if it is null.
    #[inline]
    pub(crate) fn bytes_onwards(&self, field: usize) -> Result<Option<(&'a [u8], usize)>> {
        let Some(place) = self.field(field)? else {
            return Ok(None);
        };
        let length = placed(self.bytes, place)?.len();
        let (offset, _) = halves(place);
        let onwards = self.onwards.get(offset..).ok_or_else(damaged)?;
        Ok(Some((onwards, length)))
    }

    /// An array of structs with this number of fields; None if it is null.
    pub(crate) fn structs(&self, field: usize, fields: usize) -> Result<Option<Structs<'a>>> {
        let Some(bytes) = self.bytes(field)? else {
            return Ok(None);
        };
        let length = word(bytes, 0).and_then(|length| usize::try_from(length).ok());
        Ok(Some(Structs {
            bytes,
            length: length.ok_or_else(damaged)?,
            next: 0,
            left: bytes.len(),
            fields,
        }))
    }

    #[inline]
    fn field(&self, field: usize) -> Result<Option<i64>> {
        let position = field
            .checked_mul(WORD)
            .and_then(|at| at.checked_add(self.start));
        match (
            is_null(self.bytes, field),
            position.and_then(|position| word(self.bytes, position)),
        ) {
            (Some(true), Some(_)) => Ok(None),
            (Some(false), Some(word)) => Ok(Some(word)),
            _ => Err(damaged()),
        }
    }
}

/// The structs of an array (`UnsafeArrayData`): their number; a bit for each that is null; a word for each; their bytes.
pub(crate) struct Structs<'a> {
    bytes: &'a [u8],
    length: usize,
    next: usize,
    /// The number of bytes that remain for structs. No struct lies in another, so all structs together take at most the
    /// bytes of the array.
    left: usize,
    fields: usize,
}

impl<'a> Iterator for Structs<'a> {
    /// None if the struct is null.
    type Item = Result<Option<UnsafeRow<'a>>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.length {
            return None;
        }
        let element = self.next;
        self.next += 1;
        let position = WORD + bits_size(self.length) + element.saturating_mul(WORD);
        let found = self
            .bytes
            .get(WORD..)
            .and_then(|bits| is_null(bits, element))
            .zip(word(self.bytes, position));
        let mut of_place = |place| {
            let bytes = placed(self.bytes, place)?;
            self.left = self.left.checked_sub(bytes.len()).ok_or_else(damaged)?;
            Ok(Some(UnsafeRow::new(bytes, bytes.len(), self.fields)))
        };
        let result = match found {
            None => Err(damaged()),
            Some((true, _)) => Ok(None),
            Some((false, place)) => of_place(place),
        };
        if result.is_err() {
            self.next = self.length;
        }
        Some(result)
    }
}

/// The size of a bit for each of `fields`, in whole words.
fn bits_size(fields: usize) -> usize {
    fields.div_ceil(64) * WORD
}

#[inline]
fn word(bytes: &[u8], position: usize) -> Option<i64> {
    let word = bytes.get(position..)?.first_chunk()?;
    Some(i64::from_ne_bytes(*word))
}

#[inline]
fn is_null(bits: &[u8], field: usize) -> Option<bool> {
    let bits = word(bits, field / 64 * WORD)?;
    Some(bits >> (field % 64) & 1 == 1)
}

/// The offset and the size in the word of a field.
#[inline]
fn halves(place: i64) -> (usize, usize) {
    ((place >> 32) as u32 as usize, place as u32 as usize)
}

#[inline]
fn placed(bytes: &[u8], place: i64) -> Result<&[u8]> {
    let (offset, size) = halves(place);
    let placed = bytes.get(offset..).and_then(|bytes| bytes.get(..size));
    placed.ok_or_else(damaged)
}

#[cold]
fn damaged() -> Error {
    Error::invalid("a row of Spark is damaged: a field lies outside of it")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    /// Two fields: a null, and an array of one struct of a string and a null.
    fn row() -> Vec<u8> {
        let word = |value: u64| value.to_ne_bytes();
        let of_struct = [word(0b10), word(24 << 32 | 3), word(0), *b"key\0\0\0\0\0"].concat();
        let size = of_struct.len() as u64;
        let of_array = [&word(1)[..], &word(0), &word(24 << 32 | size), &of_struct].concat();
        let size = of_array.len() as u64;
        [&word(0b01)[..], &word(0), &word(24 << 32 | size), &of_array].concat()
    }

    fn block(row: &[u8]) -> Vec<u8> {
        [&(row.len() as u64).to_ne_bytes()[..], row].concat()
    }

    /// Reads all rows; stops at the first error.
    fn read(block: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = Vec::new();
        for row in UnsafeRows::new(block, 2) {
            let row = row?;
            let field = row.bytes(0)?;
            if let Some((onwards, length)) = row.bytes_onwards(0)? {
                assert_eq!(onwards.get(..length), field);
            }
            found.push(field.map(<[u8]>::to_vec));
            for of_array in row.structs(1, 2)?.into_iter().flatten() {
                let Some(of_array) = of_array? else { continue };
                for field in 0..2 {
                    found.push(of_array.bytes(field)?.map(<[u8]>::to_vec));
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn fields_are_read_and_nulls_are_seen() {
        let rows = [block(&row()), block(&row())].concat();
        let expected = [None, Some(b"key".to_vec()), None];
        assert_eq!(read(&rows).unwrap(), [expected.clone(), expected].concat());
    }

    #[test]
    fn a_block_that_is_cut_anywhere_is_refused() {
        let whole = block(&row());
        for end in 1..whole.len() {
            assert!(read(whole.get(..end).unwrap()).is_err(), "{end}");
        }
    }

    #[test]
    fn damage_anywhere_reads_nothing_outside_of_the_row() {
        let whole = row();
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                *damaged.get_mut(at).unwrap() = value;
                let _ = read(&block(&damaged));
            }
        }
    }

    #[test]
    fn an_array_with_one_struct_many_times_is_refused() {
        let word = |value: u64| value.to_ne_bytes();
        let of_struct = [word(0), word(24 << 32 | 8), word(0), *b"8 bytes."].concat();
        let thrice = [[word(40 << 32 | 32); 3].concat(), of_struct].concat();
        let of_array = [&word(3)[..], &word(0), &thrice].concat();
        let size = of_array.len() as u64;
        let row = [&word(0b01)[..], &word(0), &word(24 << 32 | size), &of_array].concat();
        let structs = UnsafeRow::new(&row, row.len(), 2)
            .structs(1, 2)
            .unwrap()
            .unwrap();
        let read: Vec<_> = structs.map(|of_array| of_array.is_ok()).collect();
        assert_eq!(read, [true, true, false]);
    }

    #[test]
    fn a_long_of_all_bits_and_an_int_of_half_of_them() {
        let word = i64::MIN + 5;
        let row = [0u64.to_ne_bytes(), word.to_ne_bytes()].concat();
        let row = UnsafeRow::new(&row, row.len(), 1);
        assert_eq!(row.long(0).unwrap(), Some(word));
        let half = [0u64.to_ne_bytes(), [7, 0, 0, 0, 9, 9, 9, 9]].concat();
        let expected = i32::from_ne_bytes([7, 0, 0, 0]);
        let row = UnsafeRow::new(&half, half.len(), 1);
        assert_eq!(row.int(0).unwrap(), Some(expected));
        assert!(row.long(1).is_err());
    }
}
