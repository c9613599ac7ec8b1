//! Frames and headers.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use brokerless_core::check_request;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message, StrBytes};

use crate::base::directory::Refusal;
use crate::base::memory::Share;

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: StrBytes,
    /// The body as it was sent.
    pub(crate) body: Bytes,
    /// The number of elements of its lists.
    pub(crate) elements: usize,
}

/// The reason why a request gets no answer, and its connection is closed.
#[derive(Debug)]
pub(crate) enum ProtocolError {
    /// The bytes are not a request, or no answer to the request can be sent.
    Bytes(String),
    /// The API, or its version, is unknown.
    Unknown {
        api_key: i16,
        version: i16,
        correlation_id: i32,
    },
    /// The directory cannot be read.
    Refused(Refusal),
}

impl From<Refusal> for ProtocolError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(text) => formatter.write_str(text),
            Self::Unknown {
                api_key, version, ..
            } => write!(formatter, "unknown request {api_key} version {version}"),
            Self::Refused(refusal) => formatter.write_str(&refusal.message),
        }
    }
}

impl Request {
    /// Parses a frame without its length. `find` returns the API with a key and a version, if it is supported.
    pub(crate) fn parse<T>(
        mut frame: Bytes,
        find: impl FnOnce(ApiKey, i16) -> Option<T>,
    ) -> Result<(T, Self), ProtocolError> {
        let Some(start) = frame.first_chunk::<8>() else {
            return Err(ProtocolError::Bytes(
                "a request without a header".to_owned(),
            ));
        };
        let mut start = &start[..];
        let (api_key, version, correlation_id) =
            (start.get_i16(), start.get_i16(), start.get_i32());
        let api = ApiKey::try_from(api_key).ok();
        let Some((api, found)) = api.and_then(|api| Some((api, find(api, version)?))) else {
            return Err(ProtocolError::Unknown {
                api_key,
                version,
                correlation_id,
            });
        };
        let header = RequestHeader::decode(&mut frame, api.request_header_version(version))
            .map_err(|error| ProtocolError::Bytes(format!("header: {error}")))?;
        let elements = check_request(api_key, version, &frame)
            .map_err(|error| ProtocolError::Bytes(format!("{api:?} version {version}: {error}")))?;
        let request = Self {
            api,
            version,
            correlation_id,
            client_id: header.client_id.unwrap_or_default(),
            body: frame,
            elements,
        };
        Ok((found, request))
    }

    /// Decodes the body. Its lengths and counts have been checked.
    ///
    /// A version that the crate does not support (`versions_4_4`) is read as the last supported one.
    pub(crate) fn body<T: Decodable + Message>(&self) -> Result<T, ProtocolError> {
        let version = self.version.min(T::VERSIONS.max);
        T::decode(&mut self.body.clone(), version).map_err(|error| self.error(&error))
    }

    /// Returns the parts of the request that its reply needs. The body is dropped, because the reply may be sent much
    /// later.
    pub(crate) fn without_body(&self) -> Self {
        Self {
            client_id: StrBytes::new(),
            body: Bytes::new(),
            ..*self
        }
    }

    /// Returns the error for a malformed request.
    pub(crate) fn error(&self, error: &dyn fmt::Display) -> ProtocolError {
        ProtocolError::Bytes(format!("{:?} version {}: {error}", self.api, self.version))
    }

    /// Returns the reply with a body. If the request is newer, the reply is in the last version that the crate
    /// supports.
    pub(crate) fn reply<T: Encodable + HeaderVersion + Message>(
        &self,
        body: &T,
    ) -> Result<Reply, ProtocolError> {
        let version = self.version.min(T::VERSIONS.max);
        let mut reply = Reply::new(T::header_version(version), self.correlation_id)?;
        encode(body, version, reply.buffer())?;
        Ok(reply)
    }
}

/// Encodes a part of a response.
pub(crate) fn encode<T: Encodable>(
    part: &T,
    version: i16,
    into: &mut BytesMut,
) -> Result<(), ProtocolError> {
    part.encode(into, version)
        .map_err(|error| ProtocolError::Bytes(format!("a reply cannot be encoded: {error}")))
}

/// Writes a text after a compact length.
pub(crate) fn put_text(into: &mut impl BufMut, text: &str) {
    put_varint(into, text.len() + 1);
    into.put_slice(text.as_bytes());
}

/// Writes an unsigned varint.
pub(crate) fn put_varint(into: &mut impl BufMut, mut value: usize) {
    while value > 0x7f {
        into.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.put_u8(value as u8);
}

/// The bytes of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) position: u64,
    pub(crate) length: u64,
}

/// A part of a reply.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    /// Records that stay in memory until they are sent.
    Held(Bytes, Share),
    File(FileRange),
}

impl Part {
    /// Its length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Held(bytes, _) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }
}

/// A response, whose records may still be in their files.
#[derive(Debug)]
pub(crate) struct Reply {
    parts: Vec<Part>,
    last: BytesMut,
}

impl Reply {
    /// Begins a reply with its header.
    pub(crate) fn new(header_version: i16, correlation_id: i32) -> Result<Self, ProtocolError> {
        let mut last = BytesMut::with_capacity(256);
        last.put_i32(0);
        let header = ResponseHeader::default().with_correlation_id(correlation_id);
        encode(&header, header_version, &mut last)?;
        Ok(Self {
            parts: Vec::new(),
            last,
        })
    }

    /// Returns a reply of bare bytes, without a header.
    pub(crate) fn bare(bytes: &[u8]) -> Self {
        let mut last = BytesMut::with_capacity(4 + bytes.len());
        last.put_i32(0);
        last.put_slice(bytes);
        Self {
            parts: Vec::new(),
            last,
        }
    }

    /// Returns the bytes after the last part of a file.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.last
    }

    /// Adds records.
    pub(crate) fn records(&mut self, parts: Vec<Part>) {
        self.parts.push(Part::Bytes(self.last.split().freeze()));
        self.parts.extend(parts);
    }

    /// Returns the parts, preceded by their total length.
    pub(crate) fn finish(mut self) -> Result<Vec<Part>, ProtocolError> {
        self.parts.push(Part::Bytes(self.last.freeze()));
        let length: u64 = self.parts.iter().map(Part::length).sum();
        let length = i32::try_from(length - 4).map_err(|_| {
            ProtocolError::Bytes(format!("a reply of {length} bytes is above 2 GiB"))
        })?;
        if let Some(Part::Bytes(first)) = self.parts.first_mut() {
            let mut with_length = BytesMut::from(&**first);
            with_length
                .get_mut(..4)
                .into_iter()
                .for_each(|bytes| bytes.copy_from_slice(&length.to_be_bytes()));
            *first = with_length.freeze();
        }
        Ok(self.parts)
    }
}
