//! Columns that grow by one value at a time, in Arrow's layout.
//!
//! A value is appended in parts, and may turn out to be no value halfway. So each column knows its length, and
//! [`Column::truncate`] removes the parts.

use crate::column_type::Type;
use crate::limits::{Error, Result};
use crate::text;

/// A column. A null also has a value in `values`, which means nothing.
#[derive(Debug)]
pub struct Column {
    /// The values.
    pub values: Values,
    /// Which of them are not null.
    pub validity: Bits,
    weight: usize,
}

/// The values of a column.
#[derive(Debug)]
pub enum Values {
    /// Nothing but nulls.
    Null,
    /// Booleans.
    Boolean(Bits),
    /// Numbers of 32 bits, dates, or times in milliseconds.
    Int32(Vec<i32>),
    /// Numbers of 64 bits, times or timestamps.
    Int64(Vec<i64>),
    /// Unsigned numbers of 32 bits.
    UInt32(Vec<u32>),
    /// Unsigned numbers of 64 bits.
    UInt64(Vec<u64>),
    /// Floats.
    Float32(Vec<f32>),
    /// Doubles.
    Float64(Vec<f64>),
    /// Decimals, and their number of digits and scale.
    Decimal128(Vec<i128>, u8, u8),
    /// Decimals as little-endian numbers in two's complement, and their number of digits and scale.
    Decimal256(Vec<[u8; 32]>, u8, u8),
    /// Bytes or text.
    Bytes(Ends, Vec<u8>),
    /// Columns of the same length.
    Struct(Vec<Column>),
    /// The items of all lists.
    List(Ends, Box<Column>),
    /// The keys and the values of all maps.
    Map(Ends, Box<(Column, Column)>),
}

/// The bits of a column. As long as all are set, they are only counted.
#[derive(Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

/// The ends of the values of all rows in a buffer. The first value begins at 0.
#[derive(Debug)]
pub struct Ends(Vec<i32>);

impl Bits {
    /// The number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits, the first in the lowest bit of the first byte; None if all are set.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then_some(self.bytes)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, bit: bool) {
        if !self.bytes.is_empty() {
            if self.bytes.len() == self.len / 8 {
                self.bytes.push(0);
            }
            if let Some(byte) = self.bytes.last_mut() {
                *byte |= u8::from(bit) << (self.len % 8);
            }
        } else if !bit {
            self.begin();
        }
        self.len += 1;
    }

    /// Sets the bits so far, and has room for one more, which is not set.
    #[cold]
    fn begin(&mut self) {
        self.bytes = vec![0xff; self.len / 8 + 1];
        self.mask();
    }

    /// Clears the bits after the last one.
    fn mask(&mut self) {
        if let Some(byte) = self.bytes.get_mut(self.len / 8) {
            *byte &= (1 << (self.len % 8)) - 1;
        }
    }

    /// Appends bits that are not set.
    fn push_unset(&mut self, count: usize) {
        if count > 0 {
            self.push(false);
            self.len += count - 1;
            self.bytes.resize(self.len.div_ceil(8), 0);
        }
    }

    /// The bits, the first in the lowest bit of the first byte; None if all are set.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }

    fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.bytes.truncate(len.div_ceil(8));
            self.mask();
        }
    }
}

impl Default for Ends {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Ends {
    /// The ends, after a 0.
    pub fn into_offsets(self) -> Vec<i32> {
        self.0
    }

    /// The ends, after a 0.
    pub fn as_offsets(&self) -> &[i32] {
        &self.0
    }

    #[inline(always)]
    fn push(&mut self, end: usize) -> Result<()> {
        let end = i32::try_from(end).map_err(|_| Error::new("a column has more than 2 GiB"))?;
        self.0.push(end);
        Ok(())
    }

    fn repeat(&mut self) {
        self.0.push(self.last() as i32);
    }

    fn last(&self) -> usize {
        self.0.last().copied().unwrap_or_default() as usize
    }

    fn truncate(&mut self, len: usize) {
        self.0.truncate(len + 1);
    }
}

impl Column {
    /// An empty column of a type.
    pub fn new(kind: &Type) -> Self {
        let boxed = |kind: &Type| Box::new(Self::new(kind));
        let values = match kind {
            Type::Null => Values::Null,
            Type::Boolean => Values::Boolean(Bits::default()),
            Type::Int32 | Type::Date | Type::Time(text::Unit::Millis) => Values::Int32(Vec::new()),
            Type::Int64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_) => {
                Values::Int64(Vec::new())
            }
            Type::UInt32 => Values::UInt32(Vec::new()),
            Type::UInt64 => Values::UInt64(Vec::new()),
            Type::Float32 => Values::Float32(Vec::new()),
            Type::Float64 => Values::Float64(Vec::new()),
            Type::Decimal(digits @ ..=38, scale) => Values::Decimal128(Vec::new(), *digits, *scale),
            Type::Decimal(digits, scale) => Values::Decimal256(Vec::new(), *digits, *scale),
            Type::Binary | Type::Utf8 | Type::Json => Values::Bytes(Ends::default(), Vec::new()),
            Type::Struct(fields) => {
                Values::Struct(fields.iter().map(|(_, kind)| Self::new(kind)).collect())
            }
            Type::List(items) => Values::List(Ends::default(), boxed(items)),
            Type::Map(keys, values) => Values::Map(
                Ends::default(),
                Box::new((Self::new(keys), Self::new(values))),
            ),
        };
        let weight = match &values {
            Values::Struct(columns) => columns.iter().map(Self::weight).sum::<usize>() + 1,
            Values::Decimal128(..) => 16,
            Values::Decimal256(..) => 32,
            _ => 8,
        };
        Self {
            values,
            validity: Bits::default(),
            weight,
        }
    }

    /// The bytes that a null takes, about.
    #[inline]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.validity.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.validity.is_empty()
    }

    /// Removes the values from `len` on, and the parts of one that is not complete.
    pub fn truncate(&mut self, len: usize) {
        self.validity.truncate(len);
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(bits) => bits.truncate(len),
            Values::Int32(values) => values.truncate(len),
            Values::Int64(values) => values.truncate(len),
            Values::UInt32(values) => values.truncate(len),
            Values::UInt64(values) => values.truncate(len),
            Values::Float32(values) => values.truncate(len),
            Values::Float64(values) => values.truncate(len),
            Values::Decimal128(values, ..) => values.truncate(len),
            Values::Decimal256(values, ..) => values.truncate(len),
            Values::Bytes(ends, bytes) => {
                // What was written without an end is removed, too.
                ends.truncate(len);
                bytes.truncate(ends.last());
            }
            Values::Struct(columns) => {
                for column in columns {
                    column.truncate(len);
                }
            }
            Values::List(ends, items) => {
                ends.truncate(len);
                items.truncate(ends.last());
            }
            Values::Map(ends, entries) => {
                ends.truncate(len);
                entries.0.truncate(ends.last());
                entries.1.truncate(ends.last());
            }
        }
    }

    /// The last text.
    pub(crate) fn last_text(&self) -> Option<&str> {
        let Values::Bytes(ends, bytes) = &self.values else {
            return None;
        };
        let start = *ends.0.iter().rev().nth(1)?;
        std::str::from_utf8(bytes.get(start as usize..)?).ok()
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        self.validity.push(false);
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(bits) => bits.push(false),
            Values::Int32(values) => values.push(0),
            Values::Int64(values) => values.push(0),
            Values::UInt32(values) => values.push(0),
            Values::UInt64(values) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal128(values, ..) => values.push(0),
            Values::Decimal256(values, ..) => values.push([0; 32]),
            Values::Bytes(ends, _) | Values::List(ends, _) | Values::Map(ends, _) => ends.repeat(),
            Values::Struct(columns) => columns.iter_mut().for_each(Self::push_null),
        }
    }

    /// Appends nulls.
    pub(crate) fn push_nulls(&mut self, count: usize) {
        if let Values::Bytes(ends, _) = &mut self.values {
            ends.0.resize(ends.0.len() + count, ends.last() as i32);
            self.validity.push_unset(count);
        } else {
            (0..count).for_each(|_| self.push_null());
        }
    }

    /// Appends the same text, or null, several times.
    pub(crate) fn repeat_text(&mut self, text: Option<&str>, count: usize) -> Result<()> {
        match text {
            Some(text) => (0..count).try_for_each(|_| self.push_bytes(text.as_bytes())),
            None => {
                self.push_nulls(count);
                Ok(())
            }
        }
    }

    /// Appends the same number, or null, several times.
    pub(crate) fn repeat_integer(&mut self, number: Option<i32>, count: usize) -> Result<()> {
        match number {
            Some(number) => (0..count).try_for_each(|_| self.push_integer(number.into())),
            None => {
                self.push_nulls(count);
                Ok(())
            }
        }
    }

    #[inline]
    pub(crate) fn push_boolean(&mut self, value: bool) -> Result<()> {
        let Values::Boolean(bits) = &mut self.values else {
            return Err(Error::misfit());
        };
        bits.push(value);
        self.validity.push(true);
        Ok(())
    }

    /// Appends an integer, also to a column of a type that it is promoted to.
    #[inline(always)]
    pub(crate) fn push_integer(&mut self, value: i64) -> Result<()> {
        match &mut self.values {
            Values::Int32(values) => {
                values.push(i32::try_from(value).map_err(|_| Error::misfit())?);
            }
            Values::Int64(values) => values.push(value),
            Values::UInt32(values) => {
                values.push(u32::try_from(value).map_err(|_| Error::misfit())?);
            }
            Values::Float32(values) => values.push(value as f32),
            Values::Float64(values) => values.push(value as f64),
            _ => return Err(Error::misfit()),
        }
        self.validity.push(true);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_unsigned(&mut self, value: u64) -> Result<()> {
        let Values::UInt64(values) = &mut self.values else {
            return self.push_integer(i64::try_from(value).map_err(|_| Error::misfit())?);
        };
        values.push(value);
        self.validity.push(true);
        Ok(())
    }

    /// Appends a float, also to a column of doubles.
    #[inline]
    pub(crate) fn push_float(&mut self, value: f32) -> Result<()> {
        match &mut self.values {
            Values::Float32(values) => values.push(value),
            Values::Float64(values) => values.push(value.into()),
            _ => return Err(Error::misfit()),
        }
        self.validity.push(true);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_double(&mut self, value: f64) -> Result<()> {
        let Values::Float64(values) = &mut self.values else {
            return Err(Error::misfit());
        };
        values.push(value);
        self.validity.push(true);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn push_bytes(&mut self, value: &[u8]) -> Result<()> {
        let Values::Bytes(ends, bytes) = &mut self.values else {
            return Err(Error::misfit());
        };
        ends.push(bytes.len() + value.len())?;
        append(bytes, value);
        self.validity.push(true);
        Ok(())
    }

    /// Appends bytes that are text.
    #[inline(always)]
    pub(crate) fn push_text(&mut self, value: &[u8]) -> Result<()> {
        // Most text is ASCII, which takes a fraction of the time to see.
        if value.is_ascii() || std::str::from_utf8(value).is_ok() {
            return self.push_bytes(value);
        }
        Err(Error::not_utf8())
    }

    /// Appends bytes or text that `write` appends to those of all values.
    pub(crate) fn push_written<T>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<T>,
    ) -> Result<T> {
        let Values::Bytes(ends, bytes) = &mut self.values else {
            return Err(Error::misfit());
        };
        let written = write(bytes)?;
        ends.push(bytes.len())?;
        self.validity.push(true);
        Ok(written)
    }

    /// Appends a big-endian number in two's complement, whose scale is that of the column.
    pub(crate) fn push_decimal(&mut self, value: &[u8]) -> Result<()> {
        let too_long = |digits: u8| Error::new(format!("a decimal has more than {digits} digits"));
        match &mut self.values {
            Values::Decimal128(values, digits, _) => {
                let wide = sign_extended(value).map(i128::from_be_bytes);
                let most = 10_u128.pow((*digits).into());
                let fit = wide.filter(|wide| wide.unsigned_abs() < most);
                values.push(fit.ok_or_else(|| too_long(*digits))?);
            }
            Values::Decimal256(values, digits, _) => {
                let mut wide = sign_extended(value).ok_or_else(|| too_long(*digits))?;
                if text::digits(&wide) > usize::from(*digits) {
                    return Err(too_long(*digits));
                }
                wide.reverse();
                values.push(wide);
            }
            _ => return Err(Error::misfit()),
        }
        self.validity.push(true);
        Ok(())
    }

    /// The columns of a struct. The caller appends a value to each, and then calls [`Self::close`].
    #[inline]
    pub(crate) fn fields(&mut self) -> Result<&mut [Self]> {
        match &mut self.values {
            Values::Struct(columns) => Ok(columns),
            _ => Err(Error::misfit()),
        }
    }

    /// The items of lists. The caller appends those of one list, and then calls [`Self::close`].
    pub(crate) fn items(&mut self) -> Result<&mut Self> {
        match &mut self.values {
            Values::List(_, items) => Ok(items),
            _ => Err(Error::misfit()),
        }
    }

    /// The keys and values of maps. The caller appends those of one map, and then calls [`Self::close`].
    pub(crate) fn entries(&mut self) -> Result<(&mut Self, &mut Self)> {
        match &mut self.values {
            Values::Map(_, entries) => Ok((&mut entries.0, &mut entries.1)),
            _ => Err(Error::misfit()),
        }
    }

    /// Completes a struct, a list or a map.
    #[inline(always)]
    pub(crate) fn close(&mut self) -> Result<()> {
        match &mut self.values {
            Values::List(ends, items) => ends.push(items.len())?,
            Values::Map(ends, entries) => ends.push(entries.1.len())?,
            _ => {}
        }
        self.validity.push(true);
        Ok(())
    }
}

/// Appends bytes. Most texts are short: two copies of a fixed size, which may overlap, take less time than a call.
#[inline(always)]
fn append(bytes: &mut Vec<u8>, value: &[u8]) {
    #[inline(always)]
    fn twice<const N: usize>(bytes: &mut Vec<u8>, value: &[u8]) -> Option<()> {
        let (first, last) = (value.first_chunk::<N>()?, value.last_chunk::<N>()?);
        let start = bytes.len();
        bytes.extend_from_slice(first);
        bytes.truncate(start + value.len() - N);
        bytes.extend_from_slice(last);
        Some(())
    }
    let is_done = match value.len() {
        8..=16 => twice::<8>(bytes, value),
        4..8 => twice::<4>(bytes, value),
        17..=32 => twice::<16>(bytes, value),
        _ => None,
    };
    if is_done.is_none() {
        bytes.extend_from_slice(value);
    }
}

/// Returns a big-endian number in two's complement with another number of bytes, if it fits.
fn sign_extended<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    let fill = if value.first().is_some_and(|&byte| byte >= 0x80) {
        0xff
    } else {
        0
    };
    let (beyond, kept) = value.split_at(value.len().saturating_sub(N));
    let mut wide = [fill; N];
    wide.get_mut(N - kept.len()..)?.copy_from_slice(kept);
    let has_sign = wide
        .first()
        .is_some_and(|&byte| (byte >= 0x80) == (fill == 0xff));
    (has_sign && beyond.iter().all(|&byte| byte == fill)).then_some(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_until_one_is_not_set() {
        for first in 0..20_usize {
            for more in 0..20_usize {
                let mut bits = Bits::default();
                (0..first).for_each(|_| bits.push(true));
                (0..more).for_each(|at| bits.push(at % 3 == 1));
                for keep in (0..=first + more).rev() {
                    bits.truncate(keep);
                    bits.push(true);
                    bits.push(false);
                    bits.truncate(keep);
                    assert_eq!(bits.len(), keep);
                    for (at, bit) in bits
                        .bytes
                        .iter()
                        .flat_map(|byte| (0..8).map(move |at| byte >> at & 1))
                        .enumerate()
                    {
                        let is_set = at < keep && (at < first || (at - first) % 3 == 1);
                        assert_eq!(bit == 1, is_set, "{first} {more} {keep} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_of_each_length_are_appended_whole() {
        let value: Vec<u8> = (0..100).collect();
        for length in 0..value.len() {
            let part = value.get(..length).unwrap_or_default();
            let mut bytes = vec![0xff];
            append(&mut bytes, part);
            assert_eq!(bytes, [&[0xff], part].concat());
        }
    }

    #[test]
    fn numbers_keep_their_sign_and_lose_no_byte() {
        assert_eq!(sign_extended::<2>(&[]), Some([0, 0]));
        assert_eq!(sign_extended::<2>(&[0x80]), Some([0xff, 0x80]));
        assert_eq!(sign_extended::<2>(&[0, 0, 0x7f, 1]), Some([0x7f, 1]));
        assert_eq!(sign_extended::<2>(&[0, 0x80, 1]), None);
        assert_eq!(sign_extended::<2>(&[0xff, 0x7f, 1]), None);
        assert_eq!(sign_extended::<2>(&[1, 0, 0]), None);
    }

    #[test]
    fn what_is_not_complete_is_removed() {
        let items = Type::Struct(vec![
            ("n".to_owned(), Type::Int32),
            ("t".to_owned(), Type::Utf8),
        ]);
        let mut column = Column::new(&Type::List(Box::new(items)));
        for number in 0..3 {
            let list = column.items().unwrap_or_else(|_| unreachable!());
            for _ in 0..number {
                let [n, t] = list.fields().unwrap_or_default() else {
                    unreachable!()
                };
                assert_eq!(
                    (n.push_integer(number), t.push_bytes(b"ab")),
                    (Ok(()), Ok(()))
                );
                assert_eq!(list.close(), Ok(()));
            }
            assert_eq!(column.close(), Ok(()));
        }
        let list = column.items().unwrap_or_else(|_| unreachable!());
        let [n, _] = list.fields().unwrap_or_default() else {
            unreachable!()
        };
        assert_eq!(n.push_integer(7), Ok(()));
        column.truncate(2);
        column.push_null();
        let Values::List(ends, items) = &column.values else {
            unreachable!()
        };
        assert_eq!(
            (ends.0.as_slice(), items.len(), column.len()),
            ([0, 0, 1, 1].as_slice(), 1, 3)
        );
        let Values::Struct(columns) = &items.values else {
            unreachable!()
        };
        assert!(columns.iter().all(|column| column.len() == 1));
    }
}
