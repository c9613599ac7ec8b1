//! Frames, headers and versions.

use std::fs::File;
use std::sync::Arc;

use brokerless_core::check_request;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message};

use crate::memory::Share;

/// The requests that are understood, each with its first and last version.
pub(crate) const APIS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 3, 13),
    (ApiKey::Fetch, 4, 18),
    (ApiKey::ListOffsets, 1, 11),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::OffsetCommit, 2, 10),
    (ApiKey::OffsetFetch, 1, 10),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::DescribeGroups, 0, 6),
    (ApiKey::ListGroups, 0, 5),
    (ApiKey::SaslHandshake, 0, 1),
    (ApiKey::ApiVersions, 0, 5),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::OffsetForLeaderEpoch, 2, 4),
    (ApiKey::AddPartitionsToTxn, 0, 5),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::TxnOffsetCommit, 0, 6),
    (ApiKey::CreateAcls, 1, 3),
    (ApiKey::DeleteAcls, 1, 3),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::SaslAuthenticate, 0, 2),
    (ApiKey::AlterConfigs, 0, 2),
    (ApiKey::CreatePartitions, 0, 3),
    (ApiKey::DeleteGroups, 0, 3),
    (ApiKey::IncrementalAlterConfigs, 0, 1),
    (ApiKey::OffsetDelete, 0, 0),
    (ApiKey::DescribeCluster, 0, 2),
    (ApiKey::ConsumerGroupHeartbeat, 0, 1),
    (ApiKey::ConsumerGroupDescribe, 0, 1),
    (ApiKey::DescribeTopicPartitions, 0, 0),
];

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: String,
    body: Bytes,
}

/// Why a request has no answer: the connection is closed.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The bytes are no request.
    Bytes(String),
    /// The API, or its version, is not known.
    Unknown {
        api_key: i16,
        version: i16,
        correlation_id: i32,
    },
}

impl Request {
    /// Parses a frame without its length.
    pub(crate) fn parse(mut frame: Bytes) -> Result<Self, Broken> {
        let Some(start) = frame.first_chunk::<8>() else {
            return Err(Broken::Bytes("a request without a header".to_owned()));
        };
        let mut start = &start[..];
        let (api_key, version, correlation_id) =
            (start.get_i16(), start.get_i16(), start.get_i32());
        let api = ApiKey::try_from(api_key).ok().filter(|api| {
            APIS.iter()
                .any(|(known, first, last)| known == api && (*first..=*last).contains(&version))
        });
        let Some(api) = api else {
            return Err(Broken::Unknown {
                api_key,
                version,
                correlation_id,
            });
        };
        let header = RequestHeader::decode(&mut frame, api.request_header_version(version))
            .map_err(|error| Broken::Bytes(format!("header: {error}")))?;
        check_request(api_key, version, &frame)
            .map_err(|error| Broken::Bytes(format!("{api:?} version {version}: {error}")))?;
        Ok(Self {
            api,
            version,
            correlation_id,
            client_id: header
                .client_id
                .map(|id| id.to_string())
                .unwrap_or_default(),
            body: frame,
        })
    }

    /// Decodes the body. Its lengths and counts have been checked.
    ///
    /// A version that the crate does not know (`newest`) is read as the last one that it knows.
    pub(crate) fn body<T: Decodable + Message>(&self) -> Result<T, Broken> {
        let version = self.version.min(T::VERSIONS.max);
        T::decode(&mut self.body_bytes(), version).map_err(|error| {
            Broken::Bytes(format!("{:?} version {}: {error}", self.api, self.version))
        })
    }

    /// Returns the body as it was sent.
    pub(crate) fn body_bytes(&self) -> Bytes {
        self.body.clone()
    }

    /// Returns the reply with a body, in the last version that the crate knows if the request is newer.
    pub(crate) fn reply<T: Encodable + HeaderVersion + Message>(
        &self,
        body: &T,
    ) -> Result<Reply, Broken> {
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
) -> Result<(), Broken> {
    part.encode(into, version)
        .map_err(|error| Broken::Bytes(format!("a reply cannot be encoded: {error}")))
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
    /// Records that take memory until they are sent.
    Held(Bytes, Share),
    File(FileRange),
}

impl Part {
    /// Its bytes.
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
    pub(crate) fn new(header_version: i16, correlation_id: i32) -> Result<Self, Broken> {
        let mut last = BytesMut::with_capacity(256);
        last.put_i32(0);
        let header = ResponseHeader::default().with_correlation_id(correlation_id);
        encode(&header, header_version, &mut last)?;
        Ok(Self {
            parts: Vec::new(),
            last,
        })
    }

    /// Returns a reply of bytes alone, without a header.
    pub(crate) fn bare(bytes: &[u8]) -> Self {
        let mut last = BytesMut::with_capacity(4 + bytes.len());
        last.put_i32(0);
        last.put_slice(bytes);
        Self {
            parts: Vec::new(),
            last,
        }
    }

    /// The bytes behind the last part of a file.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.last
    }

    /// Adds records.
    pub(crate) fn records(&mut self, parts: Vec<Part>) {
        self.parts.push(Part::Bytes(self.last.split().freeze()));
        self.parts.extend(parts);
    }

    /// Returns the parts, with the length of all in front.
    pub(crate) fn finish(mut self) -> Result<Vec<Part>, Broken> {
        self.parts.push(Part::Bytes(self.last.freeze()));
        let length: u64 = self.parts.iter().map(Part::length).sum();
        let length = i32::try_from(length - 4)
            .map_err(|_| Broken::Bytes(format!("a reply of {length} bytes is above 2 GiB")))?;
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
