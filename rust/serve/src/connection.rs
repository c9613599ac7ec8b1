//! A connection: one request after the other, as a broker takes them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest,
    DescribeConfigsRequest, DescribeGroupsRequest, DescribeTopicPartitionsRequest, FetchRequest,
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest, SyncGroupRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::directory::Refusal;
use crate::fetch::{Bounds, read, respond, respond_error};
use crate::groups::coordinator;
use crate::metadata;
use crate::offsets;
use crate::refused;
use crate::send_file::send_file;
use crate::server::{Address, Shared};
use crate::wire::{Broken, Part, Reply, Request};

/// What a frame grows by while it arrives: nothing is allocated for a length that a client only announces.
const STEP: usize = 1 << 16;
/// How often a fetch that waits looks again.
const LOOK: Duration = Duration::from_millis(100);
/// So many times as long as it looks, it rests.
const REST: u32 = 20;

/// Serves a connection until it is closed, breaks the protocol, or is silent too long.
pub(crate) async fn serve_connection(
    mut socket: TcpStream,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (local, host) = (socket.local_addr()?, socket.peer_addr()?.ip().to_string());
    let address = Address {
        node_id: shared.node_id,
        host: shared
            .advertised
            .clone()
            .unwrap_or_else(|| local.ip().to_string()),
        port: local.port(),
    };
    loop {
        let frame = match timeout(
            shared.limits.idle,
            read_frame(&mut socket, shared.limits.request_bytes),
        )
        .await
        {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(error),
        };
        let reply = match answer(shared, &address, &host, frame).await {
            Ok(Some(reply)) => reply.finish().map_err(broken)?,
            Ok(None) => continue,
            Err(error) => return Err(broken(error)),
        };
        timeout(shared.limits.idle, send(&mut socket, reply)).await??;
    }
}

fn broken(error: Broken) -> io::Error {
    let text = match error {
        Broken::Bytes(text) => text,
        Broken::Unknown {
            api_key, version, ..
        } => format!("unknown request {api_key} version {version}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

async fn read_frame(socket: &mut TcpStream, most: usize) -> io::Result<Option<Bytes>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::try_from(i32::from_be_bytes(length))
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a request is too large"))?;
    let mut frame = BytesMut::new();
    while frame.len() < length {
        let at = frame.len();
        frame.resize(length.min(at + STEP), 0);
        if let Some(rest) = frame.get_mut(at..) {
            socket.read_exact(rest).await?;
        }
    }
    Ok(Some(frame.freeze()))
}

async fn send(socket: &mut TcpStream, parts: Vec<Part>) -> io::Result<()> {
    for part in parts {
        match part {
            Part::Bytes(bytes) => socket.write_all(&bytes).await?,
            Part::File(range) => send_file(socket, &range).await?,
        }
    }
    socket.flush().await
}

/// Returns the reply to a request; None: the client wants none.
async fn answer(
    shared: &Arc<Shared>,
    address: &Address,
    host: &str,
    frame: Bytes,
) -> Result<Option<Reply>, Broken> {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(Broken::Unknown {
            api_key,
            correlation_id,
            ..
        }) if api_key == ApiKey::ApiVersions as i16 => {
            // In version 0, which each client can read (KIP-511).
            let mut reply = Reply::new(0, correlation_id)?;
            let body = metadata::api_versions(Some(ResponseError::UnsupportedVersion));
            crate::wire::encode(&body, 0, reply.buffer())?;
            return Ok(Some(reply));
        }
        Err(error) => return Err(error),
    };
    let version = request.version;
    let reply = match request.api {
        ApiKey::ApiVersions => {
            let body: ApiVersionsRequest = request.body()?;
            let error = match metadata::is_named_well(&body, version) {
                true => None,
                false => Some(ResponseError::InvalidRequest),
            };
            request.reply(&metadata::api_versions(error))
        }
        ApiKey::Fetch => fetch(shared, address, &request).await,
        ApiKey::Metadata => {
            let body: MetadataRequest = request.body()?;
            let address = address.clone();
            let found = blocking(shared, move |shared| {
                metadata::metadata(&shared.partitions, &address, &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::DescribeCluster => {
            let body: DescribeClusterRequest = request.body()?;
            request.reply(&metadata::cluster(&shared.partitions, address, &body))
        }
        ApiKey::DescribeTopicPartitions => {
            let body: DescribeTopicPartitionsRequest = request.body()?;
            let address = address.clone();
            let found = blocking(shared, move |shared| {
                metadata::topic_partitions(&shared.partitions, &address, &body)
            });
            request.reply(&found.await?)
        }
        ApiKey::DescribeConfigs => {
            let body: DescribeConfigsRequest = request.body()?;
            let address = address.clone();
            let found = blocking(shared, move |shared| {
                metadata::configs(&shared.partitions, &address, &body)
            });
            request.reply(&found.await?)
        }
        ApiKey::ListOffsets => {
            let body: ListOffsetsRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                offsets::list_offsets(&shared.partitions, &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::OffsetForLeaderEpoch => {
            let body: OffsetForLeaderEpochRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                offsets::ends_of_epochs(&shared.partitions, &body)
            });
            request.reply(&found.await?)
        }
        ApiKey::FindCoordinator => {
            let body: FindCoordinatorRequest = request.body()?;
            request.reply(&coordinator::find(&body, address, version))
        }
        ApiKey::JoinGroup => {
            let body: JoinGroupRequest = request.body()?;
            let joined = shared
                .coordinator
                .join(&body, version, &request.client_id, host);
            request.reply(&joined.await)
        }
        ApiKey::SyncGroup => {
            let body: SyncGroupRequest = request.body()?;
            request.reply(&shared.coordinator.sync(&body, version).await)
        }
        ApiKey::Heartbeat => {
            let body: HeartbeatRequest = request.body()?;
            request.reply(&shared.coordinator.heartbeat(&body))
        }
        ApiKey::LeaveGroup => {
            let body: LeaveGroupRequest = request.body()?;
            request.reply(&shared.coordinator.leave(&body, version))
        }
        ApiKey::OffsetCommit => {
            let body: OffsetCommitRequest = request.body()?;
            let done = blocking(shared, move |shared| {
                shared
                    .coordinator
                    .commit(shared.partitions.directory(), &body, version)
            });
            request.reply(&done.await?)
        }
        ApiKey::OffsetFetch => {
            let body: OffsetFetchRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                shared
                    .coordinator
                    .committed(shared.partitions.directory(), &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::ListGroups => {
            let body: ListGroupsRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                shared
                    .coordinator
                    .list(shared.partitions.directory(), &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::DescribeGroups => {
            let body: DescribeGroupsRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                shared
                    .coordinator
                    .describe(shared.partitions.directory(), &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::Produce => {
            let body: ProduceRequest = request.body()?;
            if body.acks == 0 {
                // Such a client reads no response. A broker closes the connection, so that it notices.
                return Err(Broken::Bytes(
                    "records without a wish for an answer".to_owned(),
                ));
            }
            request.reply(&refused::produce(&body, version))
        }
        ApiKey::InitProducerId => request.reply(&refused::init_producer_id()),
        ApiKey::CreateTopics => {
            let body: CreateTopicsRequest = request.body()?;
            request.reply(&refused::create_topics(&body))
        }
        ApiKey::DeleteTopics => {
            let body: DeleteTopicsRequest = request.body()?;
            request.reply(&refused::delete_topics(&body, version))
        }
        _ => refused::reply(&request),
    };
    reply.map(Some)
}

/// Runs what reads files on a thread that may block.
async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Broken> {
    let _permit = shared.readers.acquire().await;
    let shared = Arc::clone(shared);
    match tokio::task::spawn_blocking(move || work(&shared)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(refusal)) => Err(Broken::Bytes(refusal.message)),
        Err(error) => Err(Broken::Bytes(error.to_string())),
    }
}

async fn fetch(
    shared: &Arc<Shared>,
    address: &Address,
    request: &Request,
) -> Result<Reply, Broken> {
    let version = request.version;
    let body: FetchRequest = request.body()?;
    let reply = Reply::new(i16::from(version >= 12), request.correlation_id)?;
    let fetching = match shared.sessions.fetching(&body, version) {
        Ok(fetching) => Arc::new(fetching),
        Err(error) => return Ok(respond_error(reply, error, version)),
    };
    let bounds = Bounds {
        max_bytes: u64::try_from(body.max_bytes)
            .unwrap_or(0)
            .min(shared.limits.response_bytes),
        is_committed: body.isolation_level == 1,
    };
    let least = u64::try_from(body.min_bytes)
        .unwrap_or(0)
        .min(bounds.max_bytes);
    let wait = Duration::from_millis(u64::try_from(body.max_wait_ms).unwrap_or(0));
    let deadline = Instant::now() + wait.min(shared.limits.idle);
    loop {
        let (reading, begun) = (Arc::clone(&fetching), Instant::now());
        let found = blocking(shared, move |shared| {
            Ok(read(&shared.partitions, &reading, bounds))
        })
        .await?;
        let looked = begun.elapsed();
        let left = deadline.saturating_duration_since(Instant::now());
        if found.bytes >= least || found.has_error || fetching.wanted.is_empty() || left.is_zero() {
            return respond(reply, &fetching, found, address, version);
        }
        // To look at thousands of partitions takes time: a server that waits stays at rest.
        tokio::time::sleep(left.min(LOOK.max(looked * REST))).await;
    }
}
