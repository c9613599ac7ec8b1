//! The headers of plain rows: fewer than 64, and each key and value below 64 bytes.

use super::{PlainHeaders, copy};

/// The first length that does not fit a varint of one byte.
const LONG: usize = 1 << 6;

/// The headers of one row.
pub(super) struct RowHeaders<'a> {
    /// The start of each key, then the end of the last one.
    keys: &'a [i32],
    key_data: &'a [u8],
    values: &'a [i32],
    value_data: &'a [u8],
    /// Size in the record, with the header count.
    pub(super) size: usize,
}

impl<'a> RowHeaders<'a> {
    #[inline(always)]
    pub(super) fn new(headers: &PlainHeaders<'a>, row: usize) -> Option<Self> {
        let &[start, end] = headers.offsets.get(row..)?.first_chunk()?;
        // A negative offset becomes a large one, which is not plain.
        let count = end.wrapping_sub(start) as u32 as usize;
        if count >= LONG {
            return None;
        }
        let places = |offsets: &'a [i32]| offsets.get(start as u32 as usize..)?.get(..=count);
        let (keys, values) = (
            places(headers.keys.offsets)?,
            places(headers.values.offsets)?,
        );
        let bytes = |places: &[i32]| {
            let (first, last) = (places.first()?, places.last()?);
            Some(last.wrapping_sub(*first) as u32 as usize)
        };
        Some(Self {
            size: 1 + 2 * count + bytes(keys)? + bytes(values)?,
            keys,
            key_data: headers.keys.data,
            values,
            value_data: headers.values.data,
        })
    }

    /// Writes the headers to the start of `room`. Returns None if they are not plain, so that `size` is invalid.
    #[inline(always)]
    pub(super) fn write(&self, room: &mut [u8]) -> Option<()> {
        *room.first_mut()? = (self.keys.len() as u8).wrapping_sub(1) << 1;
        let mut at = 1;
        let keys = self.keys.iter().zip(self.keys.get(1..)?);
        let values = self.values.iter().zip(self.values.get(1..)?);
        for (key, value) in keys.zip(values) {
            at = field(room, at, self.key_data, key)?;
            at = field(room, at, self.value_data, value)?;
        }
        (at == self.size).then_some(())
    }
}

#[inline(always)]
fn field(room: &mut [u8], at: usize, data: &[u8], place: (&i32, &i32)) -> Option<usize> {
    let length = place.1.wrapping_sub(*place.0) as u32 as usize;
    if length >= LONG {
        return None;
    }
    let (first, to) = room.get_mut(at..)?.split_first_mut()?;
    *first = (length as u8) << 1;
    copy(to, data.get(*place.0 as u32 as usize..)?, length)?;
    Some(at + 1 + length)
}
