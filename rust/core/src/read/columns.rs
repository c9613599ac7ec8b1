//! Rows as columns, in the memory layout of Arrow but without Arrow.
//!
//! This module appends records one by one, in every form that a record can have. Runs of plain records take the fast
//! path of `fast_decode.rs`, with the same result.

use std::borrow::Cow;

use crate::base::error::{Error, Result};
use crate::base::utf8::java_utf8;
use crate::format::batch::Header;
use crate::format::record::{self, Headers};

/// The flag for null in a value's end offset. [`BinaryColumn::take`] turns the flags into a bitmap.
pub(crate) const NULL: i32 = i32::MIN;

/// Bytes by which a copy of `fast_decode` may overrun its source and its column.
pub(crate) const SLACK: usize = 128;

/// The maximum number of bytes of a column: below Arrow's 32-bit offsets, with room for an overrunning copy.
const MAX_BYTES: usize = i32::MAX as usize - SLACK;

/// A nullable column of byte strings.
#[derive(Debug)]
pub struct BinaryColumn {
    pub(crate) data: Vec<u8>,
    /// The number 0, then the end of each row in `data`, with the flag [`NULL`] for a null row.
    pub(crate) offsets: Vec<i32>,
}

/// The content of a [`BinaryColumn`].
#[derive(Debug)]
pub struct BinaryParts {
    /// The start of each row, then the end of the last one.
    pub offsets: Vec<i32>,
    /// The bytes of all rows.
    pub data: Vec<u8>,
    /// For each row, whether it is null; None if no row is null.
    pub nulls: Option<Vec<bool>>,
}

impl Default for BinaryColumn {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            offsets: vec![0],
        }
    }
}

impl BinaryColumn {
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The value of a row; None if it is null, or there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let &[start, end] = self.offsets.get(row..)?.first_chunk()?;
        if end < 0 {
            return None;
        }
        self.data.get((start & !NULL) as usize..end as usize)
    }

    /// Reserves memory for `rows` more values of `bytes` in all, as `fast_decode` needs it.
    fn reserve(&mut self, rows: usize, bytes: usize) {
        self.offsets.reserve(rows);
        self.data.reserve(bytes + SLACK);
    }

    #[inline]
    fn push(&mut self, field: Option<&[u8]>) -> Result<()> {
        let bytes = field.unwrap_or_default();
        if self.data.len() + bytes.len() > MAX_BYTES {
            return Err(Error::unsupported(
                "a column of one batch takes more than 2 GiB",
            ));
        }
        self.data.extend_from_slice(bytes);
        let end = self.data.len() as i32;
        self.offsets
            .push(if field.is_none() { end | NULL } else { end });
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.data
            .truncate(self.offsets.last().map_or(0, |&end| (end & !NULL) as usize));
    }

    /// Returns the number 0 and the end of each row in the bytes, with the sign bit set for a null row; and the bytes.
    pub fn parts(&self) -> (&[i32], &[u8]) {
        (&self.offsets, &self.data)
    }

    /// Takes all values. The column is then empty, and uses the memory `spare`.
    pub fn take(&mut self, spare: Vec<u8>) -> BinaryParts {
        let mut next = Vec::with_capacity(self.offsets.len());
        next.push(0);
        let mut offsets = std::mem::replace(&mut self.offsets, next);
        let data = std::mem::replace(&mut self.data, spare);
        let any_null = offsets.iter().fold(0, |any, &end| any | end) < 0;
        let nulls = any_null.then(|| {
            let nulls = offsets.iter().skip(1).map(|&end| end < 0).collect();
            offsets.iter_mut().for_each(|end| *end &= !NULL);
            nulls
        });
        BinaryParts {
            offsets,
            data,
            nulls,
        }
    }
}

/// The headers of each row: a list of keys and values.
#[derive(Debug)]
pub struct HeadersColumn {
    /// The number 0, then for each row the number of headers of all rows up to it.
    pub(crate) offsets: Vec<i32>,
    pub(crate) keys: BinaryColumn,
    pub(crate) values: BinaryColumn,
}

impl Default for HeadersColumn {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            keys: BinaryColumn::default(),
            values: BinaryColumn::default(),
        }
    }
}

impl HeadersColumn {
    fn push(&mut self, headers: Headers<'_>) -> Result<()> {
        let Self {
            keys,
            values,
            offsets,
        } = self;
        headers.for_each(|key, value| {
            match java_utf8(key) {
                Cow::Borrowed(_) => keys.push(Some(key))?,
                Cow::Owned(text) => keys.push(Some(text.as_bytes()))?,
            }
            values.push(value)
        })?;
        offsets.push(keys.rows() as i32);
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        let headers = self.offsets.last().map_or(0, |&end| end as usize);
        self.keys.truncate(headers);
        self.values.truncate(headers);
    }

    /// The value of the last header of a row with a name; None if it is null or absent.
    pub fn last(&self, row: usize, name: &[u8]) -> Option<&[u8]> {
        let &[start, end] = self.offsets.get(row..)?.first_chunk()?;
        let mut headers = start as usize..end as usize;
        let last = headers.rfind(|&header| self.keys.get(header) == Some(name))?;
        self.values.get(last)
    }

    /// Bytes of all keys, and of all values.
    pub fn bytes(&self) -> (usize, usize) {
        (self.keys.bytes(), self.values.bytes())
    }

    /// Returns the number 0 and, for each row, the number of headers of all rows up to it; then the keys and the
    /// values.
    pub fn parts(&self) -> (&[i32], &BinaryColumn, &BinaryColumn) {
        (&self.offsets, &self.keys, &self.values)
    }

    /// Takes list offsets, keys and values. The column is then empty, and uses the memory `spares`.
    pub fn take(&mut self, spares: (Vec<u8>, Vec<u8>)) -> (Vec<i32>, BinaryParts, BinaryParts) {
        let mut next = Vec::with_capacity(self.offsets.len());
        next.push(0);
        let offsets = std::mem::replace(&mut self.offsets, next);
        (
            offsets,
            self.keys.take(spares.0),
            self.values.take(spares.1),
        )
    }
}

/// One record or message with absolute offset and timestamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) offset: i64,
    /// The effective timestamp, ms; -1 for none.
    pub(crate) timestamp: i64,
    pub(crate) sequence: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers<'a>,
}

/// The rows of one Kafka batch: their common fields and their number.
#[derive(Debug, Clone, Copy)]
pub struct BatchRows {
    /// The batch's header.
    pub header: Header,
    /// Offset of the batch's first record as produced.
    pub first_offset: i64,
    /// The number of rows from the batch.
    pub rows: usize,
}

/// The wanted columns. Columns that are None cost nothing.
#[derive(Debug, Default)]
pub struct Columns {
    /// Keys.
    pub keys: Option<BinaryColumn>,
    /// Values.
    pub values: Option<BinaryColumn>,
    /// Headers.
    pub headers: Option<HeadersColumn>,
    /// Offsets.
    pub offsets: Option<Vec<i64>>,
    /// Timestamps, ms.
    pub timestamps: Option<Vec<i64>>,
    /// Sequences, -1 for none.
    pub sequences: Option<Vec<i32>>,
    /// The batches that the rows came from, in order.
    pub batches: Vec<BatchRows>,
    pub(crate) rows: usize,
    /// Rows before the current batch.
    rows_before: usize,
}

impl Columns {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of keys, values and headers. Each header adds the size of its two offsets: hostile input may have headers
    /// of two bytes without data, and their number must fit 32 bits.
    pub fn bytes(&self) -> usize {
        let headers = self
            .headers
            .as_ref()
            .map_or(0, |h| h.keys.bytes() + h.values.bytes() + 8 * h.keys.rows());
        [&self.keys, &self.values]
            .into_iter()
            .flatten()
            .map(BinaryColumn::bytes)
            .sum::<usize>()
            + headers
    }

    /// Removes the rows whose columns have been taken.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.rows = 0;
        self.rows_before = 0;
    }

    /// Removes all rows, and keeps the memory.
    pub fn reuse(&mut self) {
        for column in [&mut self.keys, &mut self.values].into_iter().flatten() {
            column.truncate(0);
        }
        if let Some(headers) = &mut self.headers {
            headers.truncate(0);
        }
        for column in [&mut self.offsets, &mut self.timestamps]
            .into_iter()
            .flatten()
        {
            column.clear();
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.clear();
        }
        self.clear();
    }

    /// Prepares for up to `rows` rows of a batch with at most `payload` bytes of keys, values and headers. Returns
    /// false if the columns are too full: their rows must be taken first.
    pub(crate) fn begin(&mut self, rows: usize, payload: usize) -> bool {
        if self.rows > 0 && self.bytes() + payload > MAX_BYTES / 2 {
            return false;
        }
        self.rows_before = self.rows;
        // The header's count is not trusted: a record takes at least seven bytes.
        let rows = rows.min(payload / record::MIN_BYTES + 1);
        for column in [&mut self.keys, &mut self.values].into_iter().flatten() {
            column.reserve(rows, payload);
        }
        for column in [&mut self.offsets, &mut self.timestamps]
            .into_iter()
            .flatten()
        {
            column.reserve(rows);
        }
        if let Some(headers) = &mut self.headers {
            headers.offsets.reserve(rows);
            headers.keys.reserve(0, payload);
            headers.values.reserve(0, payload);
        }
        true
    }

    /// Appends a row of the current batch.
    #[inline]
    pub(crate) fn push(&mut self, row: Row<'_>) -> Result<()> {
        if let Some(keys) = &mut self.keys {
            keys.push(row.key)?;
        }
        if let Some(values) = &mut self.values {
            values.push(row.value)?;
        }
        if let Some(headers) = &mut self.headers {
            headers.push(row.headers)?;
        }
        if let Some(offsets) = &mut self.offsets {
            offsets.push(row.offset);
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.push(row.timestamp);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.push(row.sequence);
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns true if only the offsets column comes from records.
    pub(crate) fn has_offsets_alone(&self) -> bool {
        self.keys.is_none()
            && self.values.is_none()
            && self.headers.is_none()
            && self.timestamps.is_none()
            && self.sequences.is_none()
    }

    /// Appends the `count` rows of a batch whose offsets have no gap. Other columns must not come from records.
    pub(crate) fn push_unread(&mut self, header: &Header, count: usize) {
        self.rows_before = self.rows;
        if let Some(offsets) = &mut self.offsets {
            let first = header.base_offset;
            offsets.extend((0..count as i64).map(|delta| first.wrapping_add(delta)));
        }
        self.rows += count;
        self.end(header, header.base_offset);
    }

    /// Ends the current batch.
    pub(crate) fn end(&mut self, header: &Header, first_offset: i64) {
        let rows = self.rows - self.rows_before;
        if rows > 0 {
            self.batches.push(BatchRows {
                header: *header,
                first_offset,
                rows,
            });
        }
        self.rows_before = self.rows;
    }

    /// Removes the rows of the current batch, which is damaged.
    pub(crate) fn rollback(&mut self) {
        self.rows = self.rows_before;
        for column in [&mut self.keys, &mut self.values].into_iter().flatten() {
            column.truncate(self.rows);
        }
        if let Some(headers) = &mut self.headers {
            headers.truncate(self.rows);
        }
        for column in [&mut self.offsets, &mut self.timestamps]
            .into_iter()
            .flatten()
        {
            column.truncate(self.rows);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.truncate(self.rows);
        }
    }
}
