//! The versions of requests that the crate of the protocol does not know yet: those of Kafka 4.4.
//!
//! Commits name topics by their ids since OffsetCommit 10, OffsetFetch 10 and TxnOffsetCommit 6 (KIP-848, KIP-1319).
//! Apart from that, and from what each function says, a version is as the one before.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequestPartition;
use kafka_protocol::messages::{
    ApiVersionsRequest, DeleteGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, Message, StrBytes};
use uuid::Uuid;

use crate::directory::Topics;
use crate::wire::{Broken, Reply, Request, encode};

/// The first version of OffsetCommit and OffsetFetch that names topics by their ids.
pub(crate) const IDS_IN_COMMITS: i16 = 10;
/// The first version of TxnOffsetCommit that does.
pub(crate) const IDS_IN_TXN_COMMITS: i16 = 6;
/// The first version of ApiVersions that says whom a client means to talk to (KIP-1242).
pub(crate) const MEANT_BROKER: i16 = 5;
/// The first version of DeleteGroups whose response has messages.
pub(crate) const WHY_NOT_DELETED: i16 = 3;

/// In front of the id that stands for the name of an unknown topic. No name of a topic has it.
const UNKNOWN: char = '?';

fn name_of(topics: &Topics, id: Uuid) -> TopicName {
    TopicName(StrBytes::from_string(match topics.by_id(id) {
        Some(topic) => topic.name.clone(),
        None => format!("{UNKNOWN}{id}"),
    }))
}

/// Returns a topic's id and whether the topic is known; None: it has no id.
fn id_of(topics: &Topics, name: &str) -> Option<(Uuid, bool)> {
    match name.strip_prefix(UNKNOWN) {
        Some(id) => Some((Uuid::parse_str(id).ok()?, false)),
        None => topics
            .by_name(name)
            .map(|topic| (topic.id, true))
            .filter(|(id, _)| !id.is_nil()),
    }
}

/// A commit of offsets.
pub(crate) fn offset_commit(body: Bytes, topics: &Topics) -> Result<OffsetCommitRequest, Broken> {
    let mut body = Body { left: body };
    let asked = OffsetCommitRequest::default()
        .with_group_id(body.text()?)
        .with_generation_id_or_member_epoch(body.int32()?)
        .with_member_id(body.text()?)
        .with_group_instance_id(body.text_or_none()?)
        .with_topics(body.list(|body| {
            let topic =
                OffsetCommitRequestTopic::default()
                    .with_name(name_of(topics, body.id()?))
                    .with_partitions(body.list(|body| {
                        body.known::<OffsetCommitRequestPartition>(IDS_IN_COMMITS - 1)
                    })?);
            body.tags().map(|()| topic)
        })?);
    body.tags().map(|()| asked)
}

/// The reply to a commit of offsets.
pub(crate) fn offset_commit_reply(
    request: &Request,
    topics: &Topics,
    mut response: OffsetCommitResponse,
) -> Result<Reply, Broken> {
    let mut reply = Reply::new(1, request.correlation_id)?;
    let into = reply.buffer();
    into.put_i32(response.throttle_time_ms);
    put_list(into, &mut response.topics, |topic, into| {
        let id = id_of(topics, &topic.name);
        put_topic(into, id, &mut topic.partitions, |one| &mut one.error_code)
    })?;
    put_no_tags(into);
    Ok(reply)
}

/// A question for committed offsets.
pub(crate) fn offset_fetch(body: Bytes, topics: &Topics) -> Result<OffsetFetchRequest, Broken> {
    let mut body = Body { left: body };
    let asked = OffsetFetchRequest::default()
        .with_groups(body.list(|body| {
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(body.text()?)
                .with_member_id(body.text_or_none()?)
                .with_member_epoch(body.int32()?)
                .with_topics(body.list_or_none(|body| {
                    let topic = OffsetFetchRequestTopics::default()
                        .with_name(name_of(topics, body.id()?))
                        .with_partition_indexes(body.list(Body::int32)?);
                    body.tags().map(|()| topic)
                })?);
            body.tags().map(|()| group)
        })?)
        .with_require_stable(body.bool()?);
    body.tags().map(|()| asked)
}

/// The reply to a question for committed offsets. It leaves out topics that have no id. A topic whose id is not known is
/// in it, with an error.
pub(crate) fn offset_fetch_reply(
    request: &Request,
    topics: &Topics,
    mut response: OffsetFetchResponse,
) -> Result<Reply, Broken> {
    let mut reply = Reply::new(1, request.correlation_id)?;
    let into = reply.buffer();
    into.put_i32(response.throttle_time_ms);
    put_list(into, &mut response.groups, |group, into| {
        put_text(into, &group.group_id);
        group
            .topics
            .retain(|topic| id_of(topics, &topic.name).is_some());
        put_list(into, &mut group.topics, |topic, into| {
            let id = id_of(topics, &topic.name);
            put_topic(into, id, &mut topic.partitions, |one| &mut one.error_code)
        })?;
        into.put_i16(group.error_code);
        put_no_tags(into);
        Ok(())
    })?;
    put_no_tags(into);
    Ok(reply)
}

/// The reply to offsets of a transaction: each partition has the error.
pub(crate) fn txn_offset_commit_reply(
    request: &Request,
    error: ResponseError,
) -> Result<Reply, Broken> {
    let mut body = Body {
        left: request.body_bytes(),
    };
    let (_transactional_id, _group_id) = (body.text_or_none()?, body.text_or_none()?);
    let _producer_id_and_epoch = body.bytes(8 + 2)?;
    let _generation = body.int32()?;
    let (_member_id, _instance_id) = (body.text_or_none()?, body.text_or_none()?);
    let mut asked: Vec<(Uuid, Vec<i32>)> = body.list(|body| {
        let id = body.id()?;
        let partitions = body.list(|body| {
            body.known::<TxnOffsetCommitRequestPartition>(IDS_IN_TXN_COMMITS - 1)
                .map(|one| one.partition_index)
        })?;
        body.tags().map(|()| (id, partitions))
    })?;
    let mut reply = Reply::new(1, request.correlation_id)?;
    let into = reply.buffer();
    into.put_i32(TxnOffsetCommitResponse::default().throttle_time_ms);
    put_list(into, &mut asked, |(id, partitions), into| {
        into.put_slice(id.as_bytes());
        put_list(into, partitions, |partition, into| {
            into.put_i32(*partition);
            into.put_i16(error.code());
            put_no_tags(into);
            Ok(())
        })?;
        put_no_tags(into);
        Ok(())
    })?;
    put_no_tags(into);
    Ok(reply)
}

/// The reply to a wish to delete groups. Each group has a message.
pub(crate) fn delete_groups_reply(
    request: &Request,
    mut response: DeleteGroupsResponse,
    message: &StrBytes,
) -> Result<Reply, Broken> {
    let mut reply = Reply::new(1, request.correlation_id)?;
    let into = reply.buffer();
    into.put_i32(response.throttle_time_ms);
    put_list(into, &mut response.results, |group, into| {
        put_text(into, &group.group_id);
        into.put_i16(group.error_code);
        put_text(into, message);
        put_no_tags(into);
        Ok(())
    })?;
    put_no_tags(into);
    Ok(reply)
}

/// A question for versions, and the cluster and the node that the client means to talk to.
pub(crate) fn api_versions(
    body: Bytes,
) -> Result<(ApiVersionsRequest, Option<StrBytes>, i32), Broken> {
    let mut body = Body { left: body };
    let asked = ApiVersionsRequest::default()
        .with_client_software_name(body.text()?)
        .with_client_software_version(body.text()?);
    let cluster_id = body.text_or_none()?;
    let node_id = body.int32()?;
    body.tags().map(|()| (asked, cluster_id, node_id))
}

/// The body of a request, whose lengths and counts have been checked.
struct Body {
    left: Bytes,
}

impl Body {
    fn bytes(&mut self, count: usize) -> Result<Bytes, Broken> {
        match count <= self.left.remaining() {
            true => Ok(self.left.split_to(count)),
            false => Err(Broken::Bytes("a request that ends too early".to_owned())),
        }
    }

    fn int32(&mut self) -> Result<i32, Broken> {
        self.bytes(4).map(|mut bytes| bytes.get_i32())
    }

    fn bool(&mut self) -> Result<bool, Broken> {
        self.bytes(1).map(|mut byte| byte.get_u8() != 0)
    }

    fn id(&mut self) -> Result<Uuid, Broken> {
        self.bytes(16)
            .map(|mut bytes| Uuid::from_u128(bytes.get_u128()))
    }

    fn varint(&mut self) -> Result<usize, Broken> {
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.bytes(1)?.get_u8();
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Broken::Bytes("a number that does not end".to_owned()))
    }

    fn text_or_none(&mut self) -> Result<Option<StrBytes>, Broken> {
        let Some(length) = self.varint()?.checked_sub(1) else {
            return Ok(None);
        };
        StrBytes::from_utf8(self.bytes(length)?)
            .map(Some)
            .map_err(|error| Broken::Bytes(error.to_string()))
    }

    fn text<T: From<StrBytes>>(&mut self) -> Result<T, Broken> {
        self.text_or_none()?
            .map(T::from)
            .ok_or_else(|| Broken::Bytes("null instead of a text".to_owned()))
    }

    /// Takes a structure that the crate knows.
    fn known<T: Decodable + Message>(&mut self, version: i16) -> Result<T, Broken> {
        T::decode(&mut self.left, version).map_err(|error| Broken::Bytes(error.to_string()))
    }

    fn list<T>(
        &mut self,
        one: impl FnMut(&mut Self) -> Result<T, Broken>,
    ) -> Result<Vec<T>, Broken> {
        self.list_or_none(one)?
            .ok_or_else(|| Broken::Bytes("null instead of a list".to_owned()))
    }

    fn list_or_none<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Broken>,
    ) -> Result<Option<Vec<T>>, Broken> {
        match self.varint()?.checked_sub(1) {
            None => Ok(None),
            Some(count) => (0..count)
                .map(|_| one(self))
                .collect::<Result<_, _>>()
                .map(Some),
        }
    }

    /// Skips tagged fields.
    fn tags(&mut self) -> Result<(), Broken> {
        for _ in 0..self.varint()? {
            let (_tag, size) = (self.varint()?, self.varint()?);
            self.bytes(size)?;
        }
        Ok(())
    }
}

/// Puts a topic of a reply to a commit, or to a question for commits. The partitions of an unknown one have an error.
fn put_topic<T: Encodable>(
    into: &mut BytesMut,
    id: Option<(Uuid, bool)>,
    partitions: &mut [T],
    error_code: impl Fn(&mut T) -> &mut i16,
) -> Result<(), Broken> {
    let (id, is_known) = id.unwrap_or_default();
    into.put_slice(id.as_bytes());
    put_list(into, partitions, |one, into| {
        if !is_known {
            *error_code(one) = ResponseError::UnknownTopicId.code();
        }
        encode(one, IDS_IN_COMMITS - 1, into)
    })?;
    put_no_tags(into);
    Ok(())
}

fn put_list<T>(
    into: &mut BytesMut,
    list: &mut [T],
    mut one: impl FnMut(&mut T, &mut BytesMut) -> Result<(), Broken>,
) -> Result<(), Broken> {
    put_varint(into, list.len() + 1);
    list.iter_mut().try_for_each(|element| one(element, into))
}

fn put_text(into: &mut BytesMut, text: &str) {
    put_varint(into, text.len() + 1);
    into.put_slice(text.as_bytes());
}

fn put_no_tags(into: &mut BytesMut) {
    put_varint(into, 0);
}

fn put_varint(into: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        into.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.put_u8(value as u8);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use kafka_protocol::messages::{OffsetCommitRequest, OffsetFetchRequest, RequestHeader};

    use super::*;
    use crate::directory::Topic;

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

    /// A frame: a header, and a body whose topics have an id where the version before has a name of 15 letters.
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
            // The length in front of the name is a byte: both take 16.
            let place = place.unwrap() - 1;
            bytes[place..place + 16].copy_from_slice(id.as_bytes());
        }
        frame.extend_from_slice(&bytes);
        frame.freeze()
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
        name_of(
            &topics(),
            if name.as_str() == NAMES[0] { ID } else { OTHER },
        )
    }

    #[test]
    fn topics_of_commits_are_found_by_their_ids() {
        let (mut named, frame) = commit();
        let request = Request::parse(frame).unwrap();
        for topic in &mut named.topics {
            topic.name = renamed(&topic.name);
        }
        assert_eq!(
            offset_commit(request.body_bytes(), &topics()).unwrap(),
            named
        );
        assert_eq!(named.topics[0].name.as_str(), "t");
        assert_eq!(
            id_of(&topics(), &named.topics[1].name),
            Some((OTHER, false))
        );

        let (mut named, frame) = fetch();
        let request = Request::parse(frame).unwrap();
        for topic in named.groups[0].topics.iter_mut().flatten() {
            topic.name = renamed(&topic.name);
        }
        assert_eq!(
            offset_fetch(request.body_bytes(), &topics()).unwrap(),
            named
        );
    }

    #[test]
    fn a_request_that_is_cut_is_refused_and_bytes_behind_one_are_not_read() {
        for frame in [commit().1, fetch().1] {
            for end in 8..frame.len() {
                assert!(Request::parse(frame.slice(..end)).is_err(), "{end}");
            }
            let mut longer = BytesMut::from(&*frame);
            longer.extend_from_slice(&[0xff; 3]);
            assert!(Request::parse(longer.freeze()).is_ok());
        }
    }

    #[test]
    fn a_body_of_hostile_bytes_comes_to_an_end() {
        let topics = topics();
        let whole = Request::parse(commit().1).unwrap().body_bytes();
        for place in 0..whole.len() {
            assert!(offset_commit(whole.slice(..place), &topics).is_err());
            for odd in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = BytesMut::from(&*whole);
                bytes[place] = odd;
                let bytes = bytes.freeze();
                let _ = (
                    offset_commit(bytes.clone(), &topics),
                    offset_fetch(bytes.clone(), &topics),
                    api_versions(bytes),
                );
            }
        }
    }
}
