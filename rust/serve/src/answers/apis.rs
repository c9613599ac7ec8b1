//! The supported requests, with their versions.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey::{self, *};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::answers::call::{Answered, Call, Step, Threads};
use crate::answers::shared::{Login, Peer, Shared, Tokens};
use crate::answers::{configs, fetch, groups, login, metadata, offsets, refused};
use crate::base::directory::Refusal;
use crate::base::memory::Share;
use crate::base::sync::lock;
use crate::protocol::versions_4_4::{self, IDS_IN_COMMITS};
use crate::protocol::wire::{ProtocolError, Reply, Request, encode};

use self::Handler::{Now, OfGroups, Reads, Refuses, Steps};

/// A supported request.
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    first: i16,
    last: i16,
    handler: Handler,
}

/// The function that answers a request.
enum Handler {
    /// Answers immediately, without reading files.
    Now(fn(&Call) -> Answered),
    /// Refuses a request that would change data. If the request is too long, the connection is closed.
    Refuses(fn(&Call) -> Answered),
    /// Reads files, or reports something to the directory.
    Reads(fn(&Call) -> Answered),
    /// Reads or writes the state of groups.
    OfGroups(fn(&Call) -> Answered),
    /// Answers in steps.
    Steps(fn(Arc<Call>) -> Answered<Step>),
}

const fn api(key: ApiKey, first: i16, last: i16, handler: Handler) -> Api {
    Api {
        key,
        first,
        last,
        handler,
    }
}

/// The supported requests by API key, each with its first and last version.
// One row each: rustfmt would make six lines of it.
#[rustfmt::skip]
pub(crate) const APIS: &[Api] = &[
    api(Produce, 3, 13, Reads(|call| call.answer(refused::produce))),
    api(Fetch, 4, 18, Steps(fetch::fetch)),
    api(ListOffsets, 1, 11, Reads(|call| call.answer(offsets::list_offsets))),
    api(Metadata, 0, 13, Reads(|call| call.answer(metadata::metadata))),
    api(OffsetCommit, 2, 10, OfGroups(groups::commit)),
    api(OffsetFetch, 1, 10, OfGroups(groups::committed)),
    api(FindCoordinator, 0, 6, Reads(|call| call.answer(groups::find))),
    api(JoinGroup, 0, 9, Steps(groups::join)),
    api(Heartbeat, 0, 4, Now(|call| call.answer(groups::heartbeat))),
    api(LeaveGroup, 0, 5, Now(|call| call.answer(groups::leave))),
    api(SyncGroup, 0, 5, Steps(groups::sync)),
    api(DescribeGroups, 0, 6, OfGroups(|call| call.answer(groups::describe))),
    api(ListGroups, 0, 5, OfGroups(|call| call.answer(groups::list))),
    api(SaslHandshake, 0, 1, Now(|call| call.answer(login::handshake))),
    api(ApiVersions, 0, 5, Steps(api_versions)),
    api(CreateTopics, 2, 7, Refuses(|call| call.answer(refused::create_topics))),
    api(DeleteTopics, 1, 6, Refuses(|call| call.answer(refused::delete_topics))),
    api(DeleteRecords, 0, 2, Refuses(|call| call.answer(refused::delete_records))),
    api(InitProducerId, 0, 5, Reads(refused::init_producer_id)),
    api(OffsetForLeaderEpoch, 2, 4, Reads(|call| call.answer(offsets::ends_of_epochs))),
    api(AddPartitionsToTxn, 0, 5, Refuses(|call| call.answer(refused::add_partitions))),
    api(AddOffsetsToTxn, 0, 4, Refuses(refused::add_offsets)),
    api(EndTxn, 0, 5, Refuses(refused::end_transaction)),
    api(TxnOffsetCommit, 0, 6, Refuses(refused::commit_in_transaction)),
    api(CreateAcls, 1, 3, Refuses(|call| call.answer(refused::create_acls))),
    api(DeleteAcls, 1, 3, Refuses(|call| call.answer(refused::delete_acls))),
    api(DescribeConfigs, 1, 4, Reads(|call| call.answer(configs::configs))),
    api(SaslAuthenticate, 0, 2, Steps(login::authenticate)),
    api(AlterConfigs, 0, 2, Refuses(|call| call.answer(refused::alter_configs))),
    api(CreatePartitions, 0, 3, Refuses(|call| call.answer(refused::create_partitions))),
    api(DeleteGroups, 0, 3, Refuses(refused::delete_groups)),
    api(IncrementalAlterConfigs, 0, 1, Refuses(|call| call.answer(refused::alter_configs_by_increments))),
    api(OffsetDelete, 0, 0, Refuses(refused::delete_offsets)),
    api(DescribeCluster, 0, 2, Now(|call| call.answer(metadata::cluster))),
    api(ConsumerGroupHeartbeat, 0, 1, OfGroups(|call| call.answer(groups::consumer_heartbeat))),
    api(ConsumerGroupDescribe, 0, 1, OfGroups(|call| call.answer(groups::consumer_describe))),
    api(DescribeTopicPartitions, 0, 0, Reads(|call| call.answer(metadata::topic_partitions))),
];

/// The maximum number of elements of a request that is answered in less than a millisecond.
const SHORT: usize = 500;

fn api_of(key: ApiKey, version: i16) -> Option<&'static Api> {
    let is_known = |api: &&Api| api.key == key && (api.first..=api.last).contains(&version);
    APIS.iter().find(is_known)
}

/// Returns the first step of the answer to a frame without its length.
///
/// `share` holds the memory of the frame, and grows as the frame is decoded and answered.
pub(crate) fn answer(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    share: Arc<Share>,
    frame: Bytes,
) -> Answered<Step> {
    if matches!(*lock(&peer.login), Login::Begun(_, Tokens::Bare)) {
        shared.counters.request(SaslAuthenticate);
        return login::take_bare_token(Arc::clone(shared), Arc::clone(peer), frame);
    }
    let (api, request) = match Request::parse(frame, api_of) {
        Ok(parsed) => parsed,
        Err(ProtocolError::Unknown {
            api_key,
            correlation_id,
            ..
        }) if api_key == ApiVersions as i16 => {
            // In version 0, which every client can read (KIP-511).
            let mut reply = Reply::new(0, correlation_id)?;
            let body = versions(Some(ResponseError::UnsupportedVersion), true);
            encode(&body, 0, reply.buffer())?;
            return Ok(Step::reply(reply));
        }
        Err(error) => return Err(error),
    };
    shared.counters.request(api.key);
    // Until a client has logged in, it gets nothing else.
    let is_for_all = matches!(api.key, ApiVersions | SaslHandshake | SaslAuthenticate);
    if !is_for_all && !matches!(*lock(&peer.login), Login::Done(_)) {
        let text = format!("{:?} before a password", api.key);
        return Err(ProtocolError::Bytes(text));
    }
    if !share.grow_to_decode(request.elements) {
        return Err(Refusal::no_memory().into());
    }
    let call = Arc::new(Call {
        shared: Arc::clone(shared),
        peer: Arc::clone(peer),
        request,
        share,
    });
    // Short work is done here at once. The socket threads must not do more.
    let is_short = call.request.elements <= SHORT;
    match api.handler {
        Now(answer) if is_short => answer(&call).map(Step::reply),
        Refuses(answer) if is_short => {
            refused::check_size(&call.request)?;
            answer(&call).map(Step::reply)
        }
        Steps(answer) if is_short => answer(call),
        Now(answer) | Reads(answer) => Ok(block(&call, Threads::Others, answer)),
        Refuses(answer) => {
            refused::check_size(&call.request)?;
            Ok(block(&call, Threads::Others, answer))
        }
        OfGroups(answer) => Ok(block(&call, Threads::Groups, answer)),
        Steps(answer) => Ok(call.block(Threads::Others, move |call| answer(Arc::clone(call)))),
    }
}

fn block(call: &Arc<Call>, threads: Threads, answer: fn(&Call) -> Answered) -> Step {
    call.block(threads, move |call| answer(call).map(Step::reply))
}

fn api_versions(call: Arc<Call>) -> Answered<Step> {
    let (body, cluster_id, node_id) = versions_4_4::api_versions(&call.request)?;
    let is_valid = is_named_well(&body, call.version()) && cluster_id.is_some() == (node_id != -1);
    // A client that expects another broker, which had this address before, must bootstrap again.
    let is_for_another = cluster_id.is_some_and(|id| {
        node_id != call.peer.server.node_id || id != call.partitions().cluster_id.as_bytes()
    });
    let error = match is_valid {
        true if is_for_another => Some(ResponseError::RebootstrapRequired),
        true => None,
        false => Some(ResponseError::InvalidRequest),
    };
    if let Some(have_ids) = call.shared.known_to_have_ids() {
        return call
            .request
            .reply(&versions(error, have_ids))
            .map(Step::reply);
    }
    Ok(call.block(Threads::Others, move |call| {
        let have_ids = call.shared.have_ids();
        let have_ids = have_ids.inspect_err(|refusal| call.directory().problem(&refusal.message));
        let response = versions(error, have_ids.unwrap_or(false));
        call.request.reply(&response).map(Step::reply)
    }))
}

/// Answers ApiVersions. An error comes without a list, except that the error for an unknown version lists ApiVersions
/// alone.
///
/// `have_ids`: whether every topic has an id. If not, clients are only offered the versions of commit requests that
/// name topics.
fn versions(error: Option<ResponseError>, have_ids: bool) -> ApiVersionsResponse {
    let shown = APIS.iter().filter(|api| match error {
        None => true,
        Some(ResponseError::UnsupportedVersion) => api.key == ApiKey::ApiVersions,
        Some(_) => false,
    });
    let api_keys = shown
        .map(|api| {
            let (first, last) = match api.key {
                // Older clients of librdkafka look for this version, and a broker that dropped it still lists it
                // (KIP-896).
                ApiKey::Produce => (0, api.last),
                ApiKey::OffsetCommit | ApiKey::OffsetFetch if !have_ids => {
                    (api.first, IDS_IN_COMMITS - 1)
                }
                _ => (api.first, api.last),
            };
            ApiVersion::default()
                .with_api_key(api.key as i16)
                .with_min_version(first)
                .with_max_version(last)
        })
        .collect();
    ApiVersionsResponse::default()
        .with_error_code(error.map_or(0, |error| error.code()))
        .with_api_keys(api_keys)
}

/// Returns true if the client's software name and version are valid (KIP-511).
fn is_named_well(request: &ApiVersionsRequest, version: i16) -> bool {
    let is_well = |name: &str| {
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
    };
    version < 3
        || is_well(&request.client_software_name) && is_well(&request.client_software_version)
}
