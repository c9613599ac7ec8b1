//! Records of magic 2: varints, then key, value and headers (`DefaultRecord`).
//!
//! length | attributes | timestamp delta | offset delta | key | value | header count | headers
//!
//! Every length is checked against the record's declared length, and the declared length against the payload. A
//! negative length of a key, value or header value is null; a negative length of a header key is an error.

mod outline;

use crate::base::error::{Error, Result};
use crate::base::primitives::{Reader, Writer, varint_size, varlong_size};
use crate::format::batch::{BATCH_OVERHEAD, Header};
use crate::format::compression::{Compression, Decompressor};

pub(crate) use outline::{for_each_outline, outline};

/// The encoded headers of a record.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// The number of headers.
    pub count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// No headers, as in magic 0 and 1.
    pub const NONE: Self = Self {
        count: 0,
        bytes: &[],
    };

    /// The bytes of all headers.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Calls `visit` with each key and value, in order. The bytes must hold exactly `count` headers.
    #[inline]
    pub fn for_each(
        &self,
        mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        for _ in 0..self.count {
            let key =
                field(self.bytes, &mut at)?.ok_or_else(|| Error::corrupt("header key is null"))?;
            visit(key, field(self.bytes, &mut at)?)?;
        }
        if at != self.bytes.len() {
            return Err(Error::corrupt(format!(
                "record is {} bytes longer than its fields",
                self.bytes.len() - at
            )));
        }
        Ok(())
    }
}

/// The smallest record: six one-byte fields, and the length before them.
pub(crate) const MIN_BYTES: usize = 7;

/// The longest varint of 32 bits.
const MAX_VARINT_BYTES: usize = 5;

/// A reused buffer in which headers are encoded.
#[derive(Debug, Default)]
pub struct HeadersBuffer {
    count: usize,
    bytes: Vec<u8>,
}

impl HeadersBuffer {
    /// Removes all headers.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    /// Appends a header. The key should be UTF-8: readers replace invalid bytes.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        field_size(Some(key), "header key")?;
        field_size(value, "header value")?;
        self.field(Some(key));
        self.field(value);
        self.count += 1;
        Ok(())
    }

    #[inline]
    fn field(&mut self, field: Option<&[u8]>) {
        let mut room = [0; MAX_VARINT_BYTES];
        let mut writer = Writer::new(&mut room);
        // The array holds any length.
        let _ = writer.varint(field.map_or(-1, |field| field.len() as i32));
        let size = MAX_VARINT_BYTES - writer.remaining();
        self.bytes
            .extend_from_slice(room.get(..size).unwrap_or_default());
        self.bytes.extend_from_slice(field.unwrap_or_default());
    }

    /// The encoded headers, in order.
    pub fn headers(&self) -> Headers<'_> {
        Headers {
            count: self.count,
            bytes: &self.bytes,
        }
    }
}

/// A record, borrowed from its payload.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Unused by Kafka, but kept.
    pub attributes: i8,
    /// Difference to the batch's base timestamp, ms.
    pub timestamp_delta: i64,
    /// Difference to the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// In order, duplicates included.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// Returns the timestamp and the offset of a record of the batch with this header.
    #[inline]
    pub fn timestamp_and_offset(&self, header: &Header) -> (i64, i64) {
        let timestamp = match header.log_append_time() {
            Some(timestamp) => timestamp,
            None => header.base_timestamp.wrapping_add(self.timestamp_delta),
        };
        let offset = header.base_offset.wrapping_add(self.offset_delta.into());
        (timestamp, offset)
    }
}

/// Returns the decompressed records of a batch of magic 2.
pub fn payload<'a>(
    header: &Header,
    entry: &'a [u8],
    decompressor: &'a mut Decompressor,
) -> Result<&'a [u8]> {
    let stored = entry.get(BATCH_OVERHEAD..).unwrap_or_default();
    match header.compression()? {
        Compression::None => Ok(stored),
        codec => decompressor.decompress(codec, stored, false),
    }
}

/// Calls `visit` with each of the `count` records, which must fill `payload`.
pub(crate) fn for_each<'a>(
    payload: &'a [u8],
    count: i32,
    mut visit: impl FnMut(Record<'a>) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for index in 0..check_count(count)? {
        parse(payload, &mut at)
            .and_then(&mut visit)
            .map_err(|error| at_record(error, index, count))?;
    }
    check_end(payload, at, count)
}

/// Converts a records count; a negative one is an error.
pub(crate) fn check_count(count: i32) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::corrupt(format!("records count is {count}")))
}

/// Checks that the payload ends after the last of `count` records. Kafka does not look at the payload of an empty
/// batch.
pub(crate) fn check_end(payload: &[u8], at: usize, count: i32) -> Result<()> {
    match payload.len().saturating_sub(at) {
        left if left > 0 && count > 0 => Err(Error::corrupt(format!(
            "{left} bytes follow the last of {count} records"
        ))),
        _ => Ok(()),
    }
}

/// Adds the record's number to an error.
#[cold]
pub(crate) fn at_record(mut error: Error, index: usize, count: i32) -> Error {
    error.message = format!("record {index} of {count}: {}", error.message);
    error
}

/// Parses the first record of an uncompressed `payload`.
pub(crate) fn first(payload: &[u8]) -> Result<Record<'_>> {
    parse(payload, &mut 0)
}

/// Parses the record at `at`, and moves `at` past it. Checks the whole record, even headers that the caller does not
/// need (`DefaultRecord.readFrom`). So the result of the check does not depend on the fields that are read.
pub(crate) fn parse<'a>(payload: &'a [u8], at: &mut usize) -> Result<Record<'a>> {
    let length = varint(payload, at)?;
    let start = *at;
    let body = usize::try_from(length)
        .ok()
        .and_then(|length| payload.get(start..)?.get(..length))
        .ok_or_else(|| overrun("record", length, payload.len().saturating_sub(start)))?;
    *at = start + body.len();
    let mut reader = Reader::new(body);
    let attributes = reader.i8()?;
    let timestamp_delta = reader.varlong()?;
    let offset_delta = reader.varint()?;
    let mut at = body.len() - reader.remaining();
    let key = field(body, &mut at)?;
    let value = field(body, &mut at)?;
    let count = varint(body, &mut at)?;
    let bytes = body.get(at..).unwrap_or_default();
    // A header takes at least two bytes. A count beyond the bytes would cause an endless loop.
    if usize::try_from(count).map_or(true, |count| count > bytes.len()) {
        return Err(Error::corrupt(format!(
            "header count is {count}, but only {} bytes are left",
            bytes.len()
        )));
    }
    let headers = Headers {
        count: count as usize,
        bytes,
    };
    headers.for_each(|_, _| Ok(()))?;
    Ok(Record {
        attributes,
        timestamp_delta,
        offset_delta,
        key,
        value,
        headers,
    })
}

/// Reads a length and that many bytes; a negative length is null.
fn field<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>> {
    let length = varint(bytes, at)?;
    let Ok(wanted) = usize::try_from(length) else {
        return Ok(None);
    };
    let rest = bytes.get(*at..).unwrap_or_default();
    let field = rest
        .get(..wanted)
        .ok_or_else(|| overrun("field", length, rest.len()))?;
    *at += wanted;
    Ok(Some(field))
}

#[cold]
fn overrun(what: &str, length: i32, left: usize) -> Error {
    Error::corrupt(format!(
        "{what} length is {length}, but only {left} bytes are left"
    ))
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<i32> {
    let mut reader = Reader::new(bytes.get(*at..).unwrap_or_default());
    let value = reader.varint()?;
    *at = bytes.len() - reader.remaining();
    Ok(value)
}

/// The size of a record without the length before it.
#[inline]
pub(crate) fn body_size(record: &Record<'_>) -> Result<usize> {
    let headers = &record.headers;
    let count = i32::try_from(headers.count)
        .map_err(|_| Error::invalid(format!("{} headers in one record", headers.count)))?;
    let size = 1
        + varlong_size(record.timestamp_delta)
        + varint_size(record.offset_delta)
        + field_size(record.key, "key")?
        + field_size(record.value, "value")?
        + varint_size(count)
        + headers.bytes.len();
    if i32::try_from(size).is_err() {
        return Err(Error::invalid(format!(
            "record of {size} bytes; a record's length is 32 bits"
        )));
    }
    Ok(size)
}

/// The size of a record with the length before it, which is `body_size`.
#[inline]
pub(crate) fn framed_size(body_size: usize) -> usize {
    varint_size(body_size as i32) + body_size
}

/// Writes a record of this [`body_size`]. None if `room` is not exactly its size.
#[inline]
pub(crate) fn write(room: &mut [u8], record: &Record<'_>, body_size: usize) -> Option<()> {
    let mut writer = Writer::new(room);
    writer.varint(body_size as i32)?;
    writer.array(record.attributes.to_be_bytes())?;
    writer.varlong(record.timestamp_delta)?;
    writer.varint(record.offset_delta)?;
    write_field(&mut writer, record.key)?;
    write_field(&mut writer, record.value)?;
    writer.varint(record.headers.count as i32)?;
    writer.bytes(record.headers.bytes)?;
    (writer.remaining() == 0).then_some(())
}

#[inline]
fn write_field(writer: &mut Writer<'_>, field: Option<&[u8]>) -> Option<()> {
    match field {
        Some(field) => {
            writer.varint(field.len() as i32)?;
            writer.bytes(field)
        }
        None => writer.varint(-1),
    }
}

#[inline]
fn field_size(field: Option<&[u8]>, what: &str) -> Result<usize> {
    match field {
        None => Ok(varint_size(-1)),
        Some(field) => match i32::try_from(field.len()) {
            Ok(length) => Ok(varint_size(length) + field.len()),
            Err(_) => Err(too_long(what, field.len())),
        },
    }
}

#[cold]
fn too_long(what: &str, length: usize) -> Error {
    Error::invalid(format!("{what} of {length} bytes; a length is 32 bits"))
}
