//! Request versions of Kafka 4.4 that the `kafka-protocol` crate does not support yet.
//!
//! Commits name topics by their ids since OffsetCommit 10, OffsetFetch 10 and TxnOffsetCommit 6 (KIP-848, KIP-1319).
//! Except for this, and for the changes that each function describes, a version equals the previous one. So a request
//! is converted to the previous version. Kafka's own definition gives the position of the changed fields.

use brokerless_core::{Reader, replace_in_request};
use bytes::{BufMut, Bytes};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    ApiVersionsRequest, GroupId, OffsetCommitResponse, OffsetFetchResponse,
};
use kafka_protocol::protocol::{Decodable, Message};
use uuid::Uuid;

use crate::base::directory::Topics;
use crate::protocol::wire::{ProtocolError, Reply, Request, put_text, put_varint};

/// The first version of OffsetCommit and OffsetFetch that names topics by their ids.
pub(crate) const IDS_IN_COMMITS: i16 = 10;
/// The first version of TxnOffsetCommit that names topics by their ids.
pub(crate) const IDS_IN_TXN_COMMITS: i16 = 6;
/// The first version of DeleteGroups whose response has messages.
pub(crate) const WHY_NOT_DELETED: i16 = 3;

/// The prefix of an id that stands for the name of an unknown topic. No topic name contains this character.
const UNKNOWN: char = '?';

/// Decodes the body of a request. A newer version is decoded as the last version that the crate supports.
///
/// `replace` returns the bytes that replace a field, given its name and value.
fn body<T: Decodable + Message>(
    request: &Request,
    replace: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>,
) -> Result<T, ProtocolError> {
    if request.version <= T::VERSIONS.max {
        return request.body();
    }
    let older = replace_in_request(request.api as i16, request.version, &request.body, replace);
    let older = older.map_err(|error| request.error(&error))?;
    T::decode(&mut Bytes::from(older), T::VERSIONS.max).map_err(|error| request.error(&error))
}

/// Decodes a request about commits. The ids of topics are replaced by their names.
pub(crate) fn body_with_names<T: Decodable + Message>(
    request: &Request,
    topics: &Topics,
) -> Result<T, ProtocolError> {
    body(request, |field, value| {
        if field != "topicId" {
            return None;
        }
        let mut name = Vec::new();
        put_text(&mut name, &name_of(topics, Uuid::from_slice(value).ok()?));
        Some(name)
    })
}

/// Decodes ApiVersions. Returns it with the cluster and the node that the client expects (KIP-1242).
pub(crate) fn api_versions(
    request: &Request,
) -> Result<(ApiVersionsRequest, Option<Vec<u8>>, i32), ProtocolError> {
    let (mut cluster_id, mut node_id) = (None, -1);
    let asked = body(request, |field, value| {
        let mut value = Reader::new(value);
        match field {
            "clusterId" => {
                let is_there = value.unsigned_varint().ok()? > 0;
                cluster_id = is_there.then(|| value.rest().to_owned());
            }
            "nodeId" => node_id = value.i32().ok()?,
            _ => return None,
        }
        Some(Vec::new())
    })?;
    Ok((asked, cluster_id, node_id))
}

fn name_of(topics: &Topics, id: Uuid) -> String {
    match topics.by_id(id) {
        Some(topic) => topic.name.clone(),
        None => format!("{UNKNOWN}{id}"),
    }
}

/// Returns a topic's id and whether the topic is known; None if it has no id.
pub(crate) fn id_of(topics: &Topics, name: &str) -> Option<(Uuid, bool)> {
    match name.strip_prefix(UNKNOWN) {
        Some(id) => Some((Uuid::parse_str(id).ok()?, false)),
        None => topics
            .by_name(name)
            .map(|topic| (topic.id, true))
            .filter(|(id, _)| !id.is_nil()),
    }
}

/// Adds the ids of topics to their names. The partitions of an unknown topic get an error.
pub(crate) fn put_ids_of_commit(response: &mut OffsetCommitResponse, topics: &Topics) {
    for topic in &mut response.topics {
        let (id, is_known) = id_of(topics, &topic.name).unwrap_or_default();
        topic.topic_id = id;
        for one in topic.partitions.iter_mut().filter(|_| !is_known) {
            one.error_code = ResponseError::UnknownTopicId.code();
        }
    }
}

/// Adds the ids of topics to their names, and leaves out topics that have no id. A topic with an unknown id stays, with
/// an error.
pub(crate) fn put_ids_of_fetch(response: &mut OffsetFetchResponse, topics: &Topics) {
    for group in &mut response.groups {
        group.topics.retain_mut(|topic| {
            let Some((id, is_known)) = id_of(topics, &topic.name) else {
                return false;
            };
            topic.topic_id = id;
            for one in topic.partitions.iter_mut().filter(|_| !is_known) {
                one.error_code = ResponseError::UnknownTopicId.code();
            }
            true
        });
    }
}

/// Returns the reply to DeleteGroups. Each group has an error and a message.
pub(crate) fn delete_groups_reply(
    request: &Request,
    groups: &[GroupId],
    error: ResponseError,
    message: &str,
) -> Result<Reply, ProtocolError> {
    let mut reply = Reply::new(1, request.correlation_id)?;
    let into = reply.buffer();
    into.put_i32(0);
    put_varint(into, groups.len() + 1);
    for group in groups {
        put_text(into, group);
        into.put_i16(error.code());
        put_text(into, message);
        // No tagged fields, neither of a group nor of the response.
        into.put_u8(0);
    }
    into.put_u8(0);
    Ok(reply)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    use kafka_protocol::messages::offset_fetch_request::{
        OffsetFetchRequestGroup, OffsetFetchRequestTopics,
    };
    use kafka_protocol::messages::{
        ApiKey, OffsetCommitRequest, OffsetFetchRequest, RequestHeader, TopicName,
    };
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;
    use crate::base::directory::Topic;
    use crate::protocol::wire::encode;

    const ID: Uuid = Uuid::from_u128(7);
    const OTHER: Uuid = Uuid::from_u128(8);

    fn topics() -> Topics {
        Topics::new(vec![Topic {
            name: "t".to_owned(),
            id: ID,
            partitions: vec![0, 1],
            is_internal: false,
        }])
    }

    /// A frame: a header, and a body whose topics have an id where the previous version has a name of 15 letters.
    fn frame(api_key: i16, version: i16, body: &impl Encodable, ids: &[(&str, Uuid)]) -> Bytes {
        let mut frame = BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(api_key)
            .with_request_api_version(version);
        encode(&header, 2, &mut frame).unwrap();
        let mut bytes = BytesMut::new();
        encode(body, version - 1, &mut bytes).unwrap();
        for (name, id) in ids {
            let place = bytes
                .windows(name.len())
                .position(|part| part == name.as_bytes());
            // The length before the name takes one byte, so that length and name take 16, like an id.
            let place = place.unwrap() - 1;
            bytes[place..place + 16].copy_from_slice(id.as_bytes());
        }
        frame.extend_from_slice(&bytes);
        frame.freeze()
    }

    fn parsed(frame: Bytes) -> Result<Request, ProtocolError> {
        Request::parse(frame, |_, _| Some(())).map(|(_, request)| request)
    }

    fn of_topic(name: &'static str) -> TopicName {
        TopicName(StrBytes::from_static_str(name))
    }

    const NAMES: [&str; 2] = ["first-of-topics", "other-of-topics"];

    fn commit() -> (OffsetCommitRequest, Bytes) {
        let named = NAMES.map(|name| {
            let one = OffsetCommitRequestPartition::default()
                .with_partition_index(1)
                .with_committed_offset(300)
                .with_committed_metadata(Some(StrBytes::from_static_str("m")));
            OffsetCommitRequestTopic::default()
                .with_name(of_topic(name))
                .with_partitions(vec![one])
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(StrBytes::from_static_str("g").into())
            .with_member_id(StrBytes::from_static_str("member"))
            .with_topics(named.to_vec());
        let frame = frame(8, 10, &request, &[(NAMES[0], ID), (NAMES[1], OTHER)]);
        (request, frame)
    }

    fn fetch() -> (OffsetFetchRequest, Bytes) {
        let named = NAMES.map(|name| {
            OffsetFetchRequestTopics::default()
                .with_name(of_topic(name))
                .with_partition_indexes(vec![0, 1])
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(StrBytes::from_static_str("g").into())
            .with_topics(Some(named.to_vec()));
        let all = group.clone().with_topics(None);
        let request = OffsetFetchRequest::default()
            .with_groups(vec![group, all])
            .with_require_stable(true);
        let frame = frame(9, 10, &request, &[(NAMES[0], ID), (NAMES[1], OTHER)]);
        (request, frame)
    }

    fn renamed(name: &TopicName) -> TopicName {
        let id = if name.as_str() == NAMES[0] { ID } else { OTHER };
        TopicName(StrBytes::from_string(name_of(&topics(), id)))
    }

    #[test]
    fn topics_of_commits_are_found_by_their_ids() {
        let (mut named, frame) = commit();
        let request = parsed(frame).unwrap();
        for topic in &mut named.topics {
            topic.name = renamed(&topic.name);
        }
        let decoded: OffsetCommitRequest = body_with_names(&request, &topics()).unwrap();
        assert_eq!(decoded, named);
        assert_eq!(named.topics[0].name.as_str(), "t");
        assert_eq!(
            id_of(&topics(), &named.topics[1].name),
            Some((OTHER, false))
        );

        let (mut named, frame) = fetch();
        let request = parsed(frame).unwrap();
        for topic in named.groups[0].topics.iter_mut().flatten() {
            topic.name = renamed(&topic.name);
        }
        let decoded: OffsetFetchRequest = body_with_names(&request, &topics()).unwrap();
        assert_eq!(decoded, named);
    }

    #[test]
    fn a_request_that_is_cut_is_refused_and_bytes_behind_one_are_not_read() {
        for frame in [commit().1, fetch().1] {
            for end in 8..frame.len() {
                assert!(parsed(frame.slice(..end)).is_err(), "{end}");
            }
            let mut longer = BytesMut::from(&*frame);
            longer.extend_from_slice(&[0xff; 3]);
            assert!(parsed(longer.freeze()).is_ok());
        }
    }

    #[test]
    fn a_body_of_hostile_bytes_comes_to_an_end() {
        let topics = topics();
        let whole = parsed(commit().1).unwrap();
        let with = |api, body: Bytes| Request {
            api,
            version: if api == ApiKey::ApiVersions { 5 } else { 10 },
            correlation_id: 0,
            client_id: StrBytes::new(),
            body,
            elements: 0,
        };
        for place in 0..whole.body.len() {
            let cut = with(whole.api, whole.body.slice(..place));
            assert!(body_with_names::<OffsetCommitRequest>(&cut, &topics).is_err());
            for odd in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = BytesMut::from(&*whole.body);
                bytes[place] = odd;
                let bytes = bytes.freeze();
                let _ = (
                    body_with_names::<OffsetCommitRequest>(
                        &with(whole.api, bytes.clone()),
                        &topics,
                    ),
                    body_with_names::<OffsetFetchRequest>(
                        &with(ApiKey::OffsetFetch, bytes.clone()),
                        &topics,
                    ),
                    api_versions(&with(ApiKey::ApiVersions, bytes)),
                );
            }
        }
    }
}
