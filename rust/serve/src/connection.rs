//! A connection: one request after the other, as a broker takes them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, CreateTopicsRequest,
    DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest,
    DescribeTopicPartitionsRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::counters::Counters;
use crate::directory::Refusal;
use crate::fetch::{Bounds, read, respond, respond_error};
use crate::groups::coordinator;
use crate::memory::Share;
use crate::metadata;
use crate::newest;
use crate::offsets;
use crate::partitions::storage;
use crate::read_log::{Client, Read};
use crate::refused;
use crate::sasl::{Authenticating, MECHANISMS, Step};
use crate::server::{Address, Shared};
use crate::socket::Socket;
use crate::wire::{Broken, Part, Reply, Request};

/// What a frame grows by at first while it arrives: nothing is allocated for a length that a client only announces.
const STEP: usize = 1 << 12;
/// How long a request may take to arrive: what has come of it takes memory.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How often a fetch that waits looks again.
const LOOK: Duration = Duration::from_millis(100);
/// So many times as long as it looks, it rests.
const REST: u32 = 20;
/// The letters of a client's name that are kept.
const MOST_CLIENT_ID: usize = 256;
/// How long a client waits for the answer to a wrong password, as `connection.failed.authentication.delay.ms`.
const AFTER_A_WRONG_PASSWORD: Duration = Duration::from_millis(100);

/// A connection, as far as its requests are concerned.
pub(crate) struct Peer {
    /// The server as this client sees it.
    address: Address,
    host: String,
    client: Client,
    login: Login,
}

impl Peer {
    pub(crate) fn new(shared: &Shared, local: SocketAddr, remote: SocketAddr) -> Self {
        let (host, port) = match &shared.advertised {
            None => (local.ip().to_string(), None),
            Some((host, port)) => (host.clone(), *port),
        };
        Self {
            address: Address {
                node_id: shared.node_id,
                host,
                port: port.unwrap_or_else(|| local.port()),
            },
            host: remote.ip().to_string(),
            client: Client {
                address: remote.to_string(),
                client_id: String::new(),
                user: None,
            },
            login: match &shared.users {
                None => Login::Done,
                Some(_) => Login::Asked,
            },
        }
    }
}

/// Whether a client has said who it is.
enum Login {
    /// Nobody is asked, or it has.
    Done,
    Asked,
    /// It is about to, in requests or in bytes alone (version 0 of SaslHandshake).
    Begun(Box<Authenticating>, Tokens),
    /// It had no right password: the connection ends, so that it cannot try many.
    Refused,
}

/// How a client sends what its mechanism wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    InRequests,
    Bare,
}

/// Serves a connection until it is closed, breaks the protocol, or is silent too long.
pub(crate) async fn serve_connection(socket: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
    let mut peer = Peer::new(shared, local, remote);
    let mut socket = match &shared.tls {
        None => Socket::Plain(socket),
        Some(acceptor) => {
            let encrypted = timeout(shared.limits.transfer, acceptor.accept(socket)).await??;
            Socket::Encrypted(Box::new(encrypted))
        }
    };
    loop {
        let mut share = shared.memory.share();
        let Some(frame) = read_frame(&mut socket, shared, &mut share).await? else {
            return Ok(());
        };
        if let Some(reply) = answer(shared, &mut peer, frame).await.map_err(broken)? {
            let parts = reply.finish().map_err(broken)?;
            let in_memory = parts.iter().map(|part| match part {
                Part::Bytes(bytes) => bytes.len(),
                Part::Held(..) | Part::File(_) => 0,
            });
            if !share.grow(in_memory.sum()) {
                return Err(no_memory());
            }
            send(&mut socket, shared, parts).await?;
        }
        if matches!(peer.login, Login::Refused) {
            return Ok(());
        }
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

fn no_memory() -> io::Error {
    let text = "requests and replies take all memory that they may take";
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

/// Reads a frame without its length; None: the client is done, or silent too long.
async fn read_frame(
    socket: &mut Socket,
    shared: &Shared,
    share: &mut Share,
) -> io::Result<Option<Bytes>> {
    let mut length = [0; 4];
    match timeout(shared.limits.idle, socket.read_exact(&mut length)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(None),
    }
    let length = usize::try_from(i32::from_be_bytes(length))
        .ok()
        .filter(|length| *length <= shared.limits.request_bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a request is too large"))?;
    timeout(ARRIVAL, async {
        let mut frame = BytesMut::new();
        while frame.len() < length {
            let at = frame.len();
            let step = at.max(STEP).min(length - at);
            if !share.grow(step) {
                return Err(no_memory());
            }
            frame.resize(at + step, 0);
            if let Some(rest) = frame.get_mut(at..) {
                socket.read_exact(rest).await?;
            }
        }
        match share.grow_to_decode(length) {
            true => Ok(Some(frame.freeze())),
            false => Err(no_memory()),
        }
    })
    .await?
}

async fn send(socket: &mut Socket, shared: &Shared, parts: Vec<Part>) -> io::Result<()> {
    for part in parts {
        let length = part.length();
        match part {
            Part::Bytes(bytes) => {
                timeout(shared.limits.transfer, socket.write_all(&bytes)).await??;
            }
            // The memory is given back behind it.
            Part::Held(bytes, _share) => {
                timeout(shared.limits.transfer, socket.write_all(&bytes)).await??;
                Counters::add(&shared.counters.record_bytes, length);
            }
            Part::File(range) => {
                socket.send_file(&range).await?;
                Counters::add(&shared.counters.record_bytes, length);
            }
        }
        Counters::add(&shared.counters.sent_bytes, length);
    }
    timeout(shared.limits.transfer, socket.flush()).await?
}

/// Returns the reply to a request; None: the client wants none.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    peer: &mut Peer,
    frame: Bytes,
) -> Result<Option<Reply>, Broken> {
    if matches!(peer.login, Login::Begun(_, Tokens::Bare)) {
        shared.counters.request(ApiKey::SaslAuthenticate);
        let answer = take_token(shared, peer, frame).await?;
        return Ok(answer.map(|token| Reply::bare(&token)));
    }
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(Broken::Unknown {
            api_key,
            correlation_id,
            ..
        }) if api_key == ApiKey::ApiVersions as i16 => {
            // In version 0, which each client can read (KIP-511).
            let mut reply = Reply::new(0, correlation_id)?;
            let body = metadata::api_versions(Some(ResponseError::UnsupportedVersion), true);
            crate::wire::encode(&body, 0, reply.buffer())?;
            return Ok(Some(reply));
        }
        Err(error) => return Err(error),
    };
    shared.counters.request(request.api);
    let version = request.version;
    if !matches!(peer.login, Login::Done) {
        return log_in(shared, peer, &request).await.map(Some);
    }
    // For the log of reads: a name may have 32 KB.
    peer.client.client_id = request.client_id.chars().take(MOST_CLIENT_ID).collect();
    let (address, host) = (&peer.address, &peer.host);
    let reply = match request.api {
        ApiKey::ApiVersions => api_versions(shared, peer, &request).await,
        ApiKey::SaslHandshake => {
            let body = SaslHandshakeResponse::default()
                .with_error_code(ResponseError::UnsupportedSaslMechanism.code());
            request.reply(&body)
        }
        ApiKey::SaslAuthenticate => {
            let body = SaslAuthenticateResponse::default()
                .with_error_code(ResponseError::IllegalSaslState.code())
                .with_error_message(Some(StrBytes::from_static_str(
                    "the server asks nobody for a password, or has asked already",
                )));
            request.reply(&body)
        }
        ApiKey::Fetch => fetch(shared, address, &request, &peer.client).await,
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
        ApiKey::ConsumerGroupHeartbeat => {
            let body: ConsumerGroupHeartbeatRequest = request.body()?;
            let (client_id, host) = (request.client_id.clone(), host.clone());
            let answer = blocking(shared, move |shared| {
                let directory = shared.partitions.directory();
                let coordinator = &shared.coordinator;
                coordinator.consumer_heartbeat(directory, &body, version, &client_id, &host)
            });
            request.reply(&answer.await?)
        }
        ApiKey::ConsumerGroupDescribe => {
            let body: ConsumerGroupDescribeRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                let directory = shared.partitions.directory();
                shared
                    .coordinator
                    .consumer_describe(directory, &body, version)
            });
            request.reply(&found.await?)
        }
        ApiKey::OffsetCommit if version >= newest::IDS_IN_COMMITS => {
            let topics = blocking(shared, |shared| shared.partitions.directory().topics()).await?;
            let body = newest::offset_commit(request.body_bytes(), &topics)?;
            let known = Arc::clone(&topics);
            let done = blocking(shared, move |shared| {
                let directory = shared.partitions.directory();
                shared.coordinator.commit(directory, &known, &body, version)
            });
            newest::offset_commit_reply(&request, &topics, done.await?)
        }
        ApiKey::OffsetFetch if version >= newest::IDS_IN_COMMITS => {
            let topics = blocking(shared, |shared| shared.partitions.directory().topics()).await?;
            let body = newest::offset_fetch(request.body_bytes(), &topics)?;
            let found = blocking(shared, move |shared| {
                let directory = shared.partitions.directory();
                let coordinator = &shared.coordinator;
                coordinator.committed(directory, &body, version, &shared.memory)
            });
            newest::offset_fetch_reply(&request, &topics, found.await?)
        }
        ApiKey::OffsetCommit => {
            let body: OffsetCommitRequest = request.body()?;
            let done = blocking(shared, move |shared| {
                let directory = shared.partitions.directory();
                let topics = directory.topics()?;
                shared
                    .coordinator
                    .commit(directory, &topics, &body, version)
            });
            request.reply(&done.await?)
        }
        ApiKey::OffsetFetch => {
            let body: OffsetFetchRequest = request.body()?;
            let found = blocking(shared, move |shared| {
                shared.coordinator.committed(
                    shared.partitions.directory(),
                    &body,
                    version,
                    &shared.memory,
                )
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
            refused::check_size(&request)?;
            let body: CreateTopicsRequest = request.body()?;
            request.reply(&refused::create_topics(&body))
        }
        ApiKey::DeleteTopics => {
            refused::check_size(&request)?;
            let body: DeleteTopicsRequest = request.body()?;
            request.reply(&refused::delete_topics(&body, version))
        }
        _ => refused::reply(&request),
    };
    reply.map(Some)
}

async fn api_versions(
    shared: &Arc<Shared>,
    peer: &Peer,
    request: &Request,
) -> Result<Reply, Broken> {
    let (body, cluster_id, node_id) = match request.version < newest::MEANT_BROKER {
        true => (request.body()?, None, -1),
        false => newest::api_versions(request.body_bytes())?,
    };
    let is_valid =
        metadata::is_named_well(&body, request.version) && cluster_id.is_some() == (node_id != -1);
    // A client that means another broker, which had this address before, has to begin anew.
    let is_for_another = cluster_id
        .is_some_and(|id| node_id != peer.address.node_id || *id != *shared.partitions.cluster_id);
    let error = match is_valid {
        true if is_for_another => Some(ResponseError::RebootstrapRequired),
        true => None,
        false => Some(ResponseError::InvalidRequest),
    };
    let have_ids = shared.have_ids.get_or_try_init(|| async {
        let topics = blocking(shared, |shared| shared.partitions.directory().topics()).await?;
        Ok::<_, Broken>(topics.all().iter().all(|topic| !topic.id.is_nil()))
    });
    let have_ids = have_ids.await.is_ok_and(|have_ids| *have_ids);
    request.reply(&metadata::api_versions(error, have_ids))
}

/// Answers a client that has not said who it is. Until then, it gets nothing else.
async fn log_in(shared: &Arc<Shared>, peer: &mut Peer, request: &Request) -> Result<Reply, Broken> {
    match request.api {
        ApiKey::ApiVersions => api_versions(shared, peer, request).await,
        ApiKey::SaslHandshake => {
            let body: SaslHandshakeRequest = request.body()?;
            let begun = shared
                .users
                .as_ref()
                .and_then(|users| users.begin(&body.mechanism));
            let error = match begun {
                Some(begun) => {
                    let tokens = match request.version {
                        0 => Tokens::Bare,
                        _ => Tokens::InRequests,
                    };
                    peer.login = Login::Begun(Box::new(begun), tokens);
                    0
                }
                None => ResponseError::UnsupportedSaslMechanism.code(),
            };
            let names = MECHANISMS
                .iter()
                .map(|name| StrBytes::from_static_str(name));
            let body = SaslHandshakeResponse::default()
                .with_error_code(error)
                .with_mechanisms(names.collect());
            request.reply(&body)
        }
        ApiKey::SaslAuthenticate => {
            let body: SaslAuthenticateRequest = request.body()?;
            let response = SaslAuthenticateResponse::default();
            let response = match take_token(shared, peer, body.auth_bytes).await? {
                Some(token) => response.with_auth_bytes(token),
                None => {
                    let text = "Authentication failed: invalid user or password";
                    response
                        .with_error_code(ResponseError::SaslAuthenticationFailed.code())
                        .with_error_message(Some(StrBytes::from_static_str(text)))
                }
            };
            request.reply(&response)
        }
        other => Err(Broken::Bytes(format!("{other:?} before a password"))),
    }
}

/// Takes what a client sends to its mechanism. Returns the answer to it; None: the password is wrong.
async fn take_token(
    shared: &Arc<Shared>,
    peer: &mut Peer,
    token: Bytes,
) -> Result<Option<Bytes>, Broken> {
    let Login::Begun(login, tokens) = std::mem::replace(&mut peer.login, Login::Asked) else {
        return Err(Broken::Bytes("a password before a mechanism".to_owned()));
    };
    // To compare a password takes time that others need.
    let (login, step) = blocking(shared, move |_| {
        let mut login = login;
        let step = login.step(&token);
        Ok((login, step))
    })
    .await?;
    match step {
        Step::GoOn(answer) => {
            peer.login = Login::Begun(login, tokens);
            Ok(Some(answer.into()))
        }
        Step::Done(user, answer) => {
            peer.login = Login::Done;
            peer.client.user = Some(user);
            Ok(Some(answer.into()))
        }
        Step::Refused => {
            Counters::add(&shared.counters.not_authenticated, 1);
            peer.login = Login::Refused;
            tokio::time::sleep(AFTER_A_WRONG_PASSWORD).await;
            Ok(None)
        }
    }
}

/// Runs what reads files on a thread that may block.
async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Broken> {
    let _permit = shared.readers.acquire().await;
    on_another_thread(shared, work).await
}

async fn on_another_thread<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Broken> {
    let (problems, shared) = (shared, Arc::clone(shared));
    match tokio::task::spawn_blocking(move || work(&shared)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(refusal)) => {
            problems.partitions.directory().problem(&refusal.message);
            Err(Broken::Bytes(refusal.message))
        }
        Err(error) => Err(Broken::Bytes(error.to_string())),
    }
}

async fn fetch(
    shared: &Arc<Shared>,
    address: &Address,
    request: &Request,
    client: &Client,
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
        let permit = shared.fetches.acquire().await;
        let found = on_another_thread(shared, move |shared| {
            Ok(read(&shared.partitions, &reading, bounds))
        })
        .await?;
        drop(permit);
        let looked = begun.elapsed();
        let left = deadline.saturating_duration_since(Instant::now());
        let is_done = found.bytes >= least
            || found.has_error
            || fetching.wanted.is_empty()
            || left.is_zero()
            || shared.memory.is_short();
        // To look at thousands of partitions takes time: a server that waits stays at rest.
        let rest = LOOK.max(looked * REST);
        if !is_done {
            tokio::time::sleep(left.min(rest)).await;
        }
        // At the end of its wait a client asks again, and that looks again.
        if is_done || left <= rest {
            if shared.read_log.is_some() && !found.reads.is_empty() {
                note(shared, client, found.reads.clone()).await?;
            }
            return respond(reply, &fetching, found, address, version);
        }
    }
}

/// Notes who reads. Nobody reads without that.
async fn note(shared: &Arc<Shared>, client: &Client, reads: Vec<Read>) -> Result<(), Broken> {
    let client = client.clone();
    blocking(shared, move |shared| match &shared.read_log {
        None => Ok(()),
        Some(log) => log.note(&client, &reads).map_err(storage),
    })
    .await
}
