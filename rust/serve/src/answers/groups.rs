//! The answers of a coordinator of groups.

use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    BrokerId, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest,
    ListGroupsResponse, SyncGroupRequest,
};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Message, StrBytes};

use crate::answers::call::{Answered, Call, Step};
use crate::answers::refused::{INVALID, READ_ONLY};
use crate::base::directory::Refusal;
use crate::protocol::versions_4_4::{
    IDS_IN_COMMITS, body_with_names, put_ids_of_commit, put_ids_of_fetch,
};

/// The type of a key that names a group (`FindCoordinatorRequest.CoordinatorType`).
const GROUP: i8 = 0;

/// Answers FindCoordinator: this server coordinates all groups.
pub(super) fn find(
    call: &Call,
    request: &FindCoordinatorRequest,
) -> Answered<FindCoordinatorResponse> {
    let (version, server) = (call.version(), &call.peer.server);
    // Not supported: transactions write, and share groups change the state of deliveries.
    let (error, message) = match request.key_type {
        GROUP => (0, None),
        1 => {
            call.directory().refused("");
            let error = ResponseError::TransactionalIdAuthorizationFailed;
            (error.code(), Some(READ_ONLY))
        }
        _ => (
            ResponseError::InvalidRequest.code(),
            Some(StrBytes::from_static_str(INVALID)),
        ),
    };
    let (node, host, port) = match error {
        0 => (server.node_id, server.host.as_str(), server.port.into()),
        _ => (-1, "", -1),
    };
    let host = StrBytes::from_string(host.to_owned());
    if version < 4 {
        let response = FindCoordinatorResponse::default()
            .with_error_code(error)
            .with_node_id(BrokerId(node))
            .with_host(host)
            .with_port(port);
        return Ok(match version {
            0 => response,
            _ => response.with_error_message(Some(
                message.unwrap_or_else(|| StrBytes::from_static_str("NONE")),
            )),
        });
    }
    let coordinators = request.coordinator_keys.iter().map(|key| {
        Coordinator::default()
            .with_key(key.clone())
            .with_error_code(error)
            .with_error_message(Some(message.clone().unwrap_or_default()))
            .with_node_id(BrokerId(node))
            .with_host(host.clone())
            .with_port(port)
    });
    Ok(FindCoordinatorResponse::default().with_coordinators(coordinators.collect()))
}

pub(super) fn join(call: Arc<Call>) -> Answered<Step> {
    let request: JoinGroupRequest = call.request.body()?;
    let (coordinator, host) = (&call.shared.coordinator, call.peer.client.ip().to_string());
    let (version, client_id) = (call.version(), &call.request.client_id);
    let share = Arc::clone(&call.share);
    let joined = coordinator.join(&request, version, client_id, &host, share);
    Ok(wait(&call, joined))
}

pub(super) fn sync(call: Arc<Call>) -> Answered<Step> {
    let request: SyncGroupRequest = call.request.body()?;
    let synced = call.shared.coordinator.sync(&request, call.version());
    Ok(wait(&call, synced))
}

/// Waits for other clients. The request is freed first, because the wait may be long.
fn wait<R: Encodable + HeaderVersion + Message + Send>(
    call: &Call,
    response: impl Future<Output = R> + Send + 'static,
) -> Step {
    call.share.give_back_decoded(call.request.elements);
    let request = call.request.without_body();
    Step::Wait(Box::pin(async move { request.reply(&response.await) }))
}

pub(super) fn heartbeat(call: &Call, request: &HeartbeatRequest) -> Answered<HeartbeatResponse> {
    Ok(call.shared.coordinator.heartbeat(request))
}

pub(super) fn leave(call: &Call, request: &LeaveGroupRequest) -> Answered<LeaveGroupResponse> {
    Ok(call.shared.coordinator.leave(request, call.version()))
}

pub(super) fn consumer_heartbeat(
    call: &Call,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
    call.shared.coordinator.consumer_heartbeat(
        call.directory(),
        request,
        call.version(),
        &call.request.client_id,
        &call.peer.client.ip().to_string(),
    )
}

pub(super) fn consumer_describe(
    call: &Call,
    request: &ConsumerGroupDescribeRequest,
) -> Result<ConsumerGroupDescribeResponse, Refusal> {
    let coordinator = &call.shared.coordinator;
    coordinator.consumer_describe(call.directory(), request, call.version(), &call.share)
}

pub(super) fn commit(call: &Call) -> Answered {
    let (directory, topics) = (call.directory(), call.directory().topics()?);
    let request = body_with_names(&call.request, &topics)?;
    let coordinator = &call.shared.coordinator;
    let mut response =
        coordinator.commit(directory, &topics, &request, call.version(), &call.share)?;
    if call.version() >= IDS_IN_COMMITS {
        put_ids_of_commit(&mut response, &topics);
    }
    call.request.reply(&response)
}

pub(super) fn committed(call: &Call) -> Answered {
    let (coordinator, version) = (&call.shared.coordinator, call.version());
    let committed =
        |request| coordinator.committed(call.directory(), request, version, &call.share);
    if version < IDS_IN_COMMITS {
        return call.request.reply(&committed(&call.request.body()?)?);
    }
    let topics = call.directory().topics()?;
    let mut response = committed(&body_with_names(&call.request, &topics)?)?;
    put_ids_of_fetch(&mut response, &topics);
    call.request.reply(&response)
}

pub(super) fn list(
    call: &Call,
    request: &ListGroupsRequest,
) -> Result<ListGroupsResponse, Refusal> {
    let coordinator = &call.shared.coordinator;
    coordinator.list(call.directory(), request, call.version(), &call.share)
}

pub(super) fn describe(
    call: &Call,
    request: &DescribeGroupsRequest,
) -> Result<DescribeGroupsResponse, Refusal> {
    let coordinator = &call.shared.coordinator;
    coordinator.describe(call.directory(), request, call.version(), &call.share)
}
