//! Messages of magic 0 and 1, alone or in a compressed wrapper (`AbstractLegacyRecordBatch`).
//!
//! A wrapper is a message whose value is a compressed run of whole inner messages. Inner offsets are absolute in magic
//! 0. In magic 1 they are relative, and the wrapper has the offset of the last inner message. The wrapper's magic
//! determines the rules for offsets. The inner message's magic determines the layout of fields (KAFKA-4298: old brokers
//! wrote mixed sets).

use crate::base::error::{Error, Result};
use crate::base::primitives::{Reader, Writer};
use crate::format::batch::{Header, MAGIC_AT, crc32};
use crate::format::compression::{Compression, Decompressor};

/// The smallest message of any magic, with its offset and size fields.
pub(crate) const MIN_SIZE: usize = 26;

/// One message as a consumer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Absolute offset.
    pub offset: i64,
    /// The effective timestamp: -1 in magic 0, and the wrapper's timestamp under LogAppendTime.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The message's own header. Inside a wrapper, its position is relative to the start of the wrapper's payload.
    pub header: Header,
    /// The bytes of this message.
    pub entry: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) fn parse(header: Header, entry: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(entry);
        reader.bytes(if header.magic == 0 { 18 } else { 26 })?;
        let key = nullable(&mut reader)?;
        // Bytes after the value are ignored, as by Kafka.
        let value = nullable(&mut reader)?;
        let timestamp = header.max_timestamp;
        Ok(Self {
            offset: header.base_offset,
            timestamp,
            key,
            value,
            header,
            entry,
        })
    }

    /// The value of a wrapper: its compressed messages.
    pub(crate) fn wrapped(&self) -> Result<&'a [u8]> {
        self.value
            .ok_or_else(|| Error::corrupt("wrapper message has a null value"))
    }
}

/// Reads a four-byte length and that many bytes; a negative length is null.
fn nullable<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    match usize::try_from(reader.i32()?) {
        Ok(length) => reader.bytes(length).map(Some),
        Err(_) => Ok(None),
    }
}

/// The messages of one entry, decompressed.
#[derive(Debug)]
pub enum MessageSet<'a> {
    /// The entry is a message.
    Single(Message<'a>),
    /// The entry is a wrapper: its header, its decompressed payload, and the number to add to inner offsets.
    Wrapper(Header, &'a [u8], i64),
}

/// Returns the codec of a wrapper; None for a single message.
pub(crate) fn wrapper_codec(header: &Header) -> Result<Option<Compression>> {
    match header.compression()? {
        Compression::None => Ok(None),
        Compression::Zstd => Err(Error::corrupt("zstd needs magic 2")),
        codec => Ok(Some(codec)),
    }
}

impl<'a> MessageSet<'a> {
    /// Returns the message that `entry` is, or the messages that it wraps.
    pub fn open(
        header: &Header,
        entry: &'a [u8],
        decompressor: &'a mut Decompressor,
    ) -> Result<Self> {
        let outer = Message::parse(*header, entry)?;
        let Some(codec) = wrapper_codec(header)? else {
            return Ok(Self::Single(outer));
        };
        // Kafka up to 0.9 computed the checksum of the LZ4 frame header wrongly. With magic 0, any checksum is accepted
        // (KAFKA-3160).
        let payload = decompressor.decompress(codec, outer.wrapped()?, header.magic == 0)?;
        Self::of_wrapper(header, payload)
    }

    /// Returns the messages in the decompressed `payload` of a wrapper.
    pub(crate) fn of_wrapper(header: &Header, payload: &'a [u8]) -> Result<Self> {
        let shift = offset_shift(header, last_inner_offset(payload)?)?;
        Ok(Self::Wrapper(*header, payload, shift))
    }

    /// The bytes that hold the keys and values.
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::Single(message) => message.entry,
            Self::Wrapper(_, payload, _) => payload,
        }
    }

    /// Calls `visit` with each message. With `check_crcs`, the checksums of inner messages are verified. The caller
    /// verifies the checksum of the entry.
    pub fn for_each(
        &self,
        check_crcs: bool,
        visit: impl FnMut(Message<'a>) -> Result<()>,
    ) -> Result<()> {
        self.walk(check_crcs, &mut 0, usize::MAX, visit).map(drop)
    }

    /// Calls `visit` with up to `most` messages, starting at byte `at` of the payload, and moves `at` past the last
    /// one. Returns the number of messages.
    pub(crate) fn walk(
        &self,
        check_crcs: bool,
        at: &mut usize,
        most: usize,
        mut visit: impl FnMut(Message<'a>) -> Result<()>,
    ) -> Result<usize> {
        let (wrapper, payload, shift) = match self {
            Self::Single(message) => {
                *at = message.entry.len();
                return visit(*message).map(|()| 1);
            }
            Self::Wrapper(header, payload, shift) => (header, *payload, *shift),
        };
        let mut rest = payload.get(*at..).unwrap_or_default();
        let mut count = 0;
        while !rest.is_empty() && count < most {
            let (inner, bytes, tail) = split_inner(rest, payload.len() - rest.len())?;
            rest = tail;
            if inner.compression()? != Compression::None {
                return Err(Error::corrupt(
                    "message inside a wrapper is compressed itself",
                ));
            }
            if check_crcs {
                inner.check_crc(bytes)?;
            }
            let mut message = Message::parse(inner, bytes)?;
            message.offset = message.offset.wrapping_add(shift);
            if inner.magic > 0 {
                message.timestamp = wrapper.log_append_time().unwrap_or(message.timestamp);
            }
            visit(message)?;
            count += 1;
            *at = payload.len() - rest.len();
        }
        Ok(count)
    }

    /// Returns the number to add to the offsets of inner messages.
    pub(crate) fn offset_shift(&self) -> i64 {
        match self {
            Self::Single(_) => 0,
            Self::Wrapper(_, _, shift) => *shift,
        }
    }

    /// Absolute offset of the first message.
    pub fn first_offset(&self) -> i64 {
        match self {
            Self::Single(message) => message.offset,
            Self::Wrapper(header, payload, shift) => match split_inner(payload, 0) {
                Ok((inner, ..)) => inner.base_offset.wrapping_add(*shift),
                Err(_) => header.base_offset,
            },
        }
    }
}

/// Splits `rest` into its first entry and the bytes after it.
///
/// An incomplete inner message is an error. Kafka ignores it, and then assigns too high offsets to the other inner
/// messages of magic 1.
pub(crate) fn split_inner(rest: &[u8], at: usize) -> Result<(Header, &[u8], &[u8])> {
    let cut = || {
        Error::corrupt(format!(
            "wrapper payload is cut inside the message at byte {at}"
        ))
    };
    let inner = Header::parse(rest, at as u64)?.ok_or_else(cut)?;
    if inner.magic > 1 {
        return Err(Error::corrupt(format!(
            "magic {} inside a wrapper message",
            inner.magic
        )));
    }
    let (bytes, tail) = rest.split_at_checked(inner.size()).ok_or_else(cut)?;
    Ok((inner, bytes, tail))
}

/// The offset of the last message in the payload, which may be lower than other offsets.
fn last_inner_offset(payload: &[u8]) -> Result<i64> {
    let mut last = None;
    let mut rest = payload;
    while !rest.is_empty() {
        let (inner, _, tail) = split_inner(rest, payload.len() - rest.len())?;
        last = Some(inner.base_offset);
        rest = tail;
    }
    last.ok_or_else(|| Error::corrupt("wrapper message holds no message"))
}

/// Returns the number to add to inner offsets.
fn offset_shift(header: &Header, last_inner: i64) -> Result<i64> {
    // Old librdkafka wrote 0 as the wrapper's offset, and meant base offset 0.
    if header.magic == 0 || header.base_offset == 0 {
        return Ok(0);
    }
    match header.base_offset.checked_sub(last_inner) {
        Some(base) if base >= 0 => Ok(base),
        _ => Err(Error::corrupt(format!(
            "wrapper offset {} is below its last inner offset {last_inner}",
            header.base_offset
        ))),
    }
}

/// Returns the offset of the first record of any entry, as `RecordBatch.baseOffset` does. A wrapper must be
/// decompressed.
pub fn first_offset(header: &Header, entry: &[u8], decompressor: &mut Decompressor) -> Result<i64> {
    if header.magic == 2 || header.compression()? == Compression::None {
        return Ok(header.base_offset);
    }
    MessageSet::open(header, entry, decompressor).map(|set| set.first_offset())
}

/// A message to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewMessage<'a> {
    /// 0 or 1.
    pub(crate) magic: i8,
    pub(crate) attributes: i16,
    pub(crate) offset: i64,
    /// Written in magic 1 only.
    pub(crate) timestamp: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

impl NewMessage<'_> {
    /// The size of the whole entry.
    pub(crate) fn size(&self) -> Result<usize> {
        let length = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let timestamp = if self.magic == 0 { 0 } else { 8 };
        let size = MIN_SIZE + timestamp + length(self.key) + length(self.value);
        if i32::try_from(size).is_err() {
            return Err(Error::invalid(format!(
                "message of {size} bytes; a message's length is 32 bits"
            )));
        }
        Ok(size)
    }

    /// Writes the entry. None if `room` is not exactly [`Self::size`] bytes.
    pub(crate) fn write(&self, room: &mut [u8]) -> Option<()> {
        let (head, summed) = room.split_first_chunk_mut::<MAGIC_AT>()?;
        let mut writer = Writer::new(summed);
        writer.array([self.magic as u8, self.attributes as u8])?;
        if self.magic > 0 {
            writer.array(self.timestamp.to_be_bytes())?;
        }
        for field in [self.key, self.value] {
            let length = field.map_or(-1, |field| field.len() as i32);
            writer.array(length.to_be_bytes())?;
            writer.bytes(field.unwrap_or_default())?;
        }
        if writer.remaining() > 0 {
            return None;
        }
        let mut writer = Writer::new(head);
        writer.array(self.offset.to_be_bytes())?;
        writer.array((4 + summed.len() as i32).to_be_bytes())?;
        writer.array(crc32(summed).to_be_bytes())
    }
}
