//! A connection, whose requests are handled one after the other, as by a broker.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::answers::shared::{Login, Peer, Shared};
use crate::base::counters::Counters;
use crate::base::directory::Refusal;
use crate::base::memory::Share;
use crate::base::sync::lock;
use crate::net::open::OpenConnection;
use crate::net::send_file::send_file;
use crate::net::socket::Socket;
use crate::net::steps::Steps;
use crate::protocol::wire::{Part, ProtocolError};

/// The first growth of a frame's buffer while the frame arrives. No memory is allocated for a length that a client only
/// announces.
const STEP: usize = 1 << 12;
/// The maximum size of a request before a client has logged in, in bytes.
const BEFORE_LOGIN: usize = 64 << 10;
/// The time limit for a request to arrive, because the received part takes memory.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Serves a connection until it is closed, breaks the protocol, or is silent for too long.
pub(super) async fn serve_connection(
    socket: TcpStream,
    tls: Option<&TlsAcceptor>,
    steps: &Steps,
    open: &OpenConnection,
) -> io::Result<()> {
    let shared = &*steps.shared;
    let login_until = Instant::now() + shared.limits.login;
    socket.set_nodelay(true)?;
    let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
    let peer = Arc::new(Peer::new(shared, local, remote));
    let mut socket = match tls {
        None => Socket::Plain(socket),
        Some(acceptor) => {
            let encrypted = timeout_at(login_until, acceptor.accept(socket)).await??;
            Socket::Encrypted(Box::new(encrypted))
        }
    };
    let mut is_known = false;
    loop {
        let share = Arc::new(shared.memory.share());
        let most = match is_known || shared.users.is_none() {
            true => shared.limits.request_bytes,
            false => shared.limits.request_bytes.min(BEFORE_LOGIN),
        };
        let frame = read_frame(&mut socket, shared, &share, most);
        let frame = match is_known {
            true => frame.await?,
            false => timeout_at(login_until, frame).await??,
        };
        let Some(frame) = frame else {
            return Ok(());
        };
        let answer = steps.answer(&peer, Arc::clone(&share), frame);
        if let Some(reply) = answer.await.map_err(broken)? {
            let parts = reply.finish().map_err(broken)?;
            let in_memory = parts.iter().map(|part| match part {
                Part::Bytes(bytes) => bytes.len(),
                Part::Held(..) | Part::File(_) => 0,
            });
            if !share.grow(in_memory.sum()) {
                return Err(no_memory());
            }
            if !is_known && matches!(*lock(&peer.login), Login::Done(_)) {
                is_known = true;
                open.keep();
            }
            send(&mut socket, shared, parts).await?;
        }
        if matches!(*lock(&peer.login), Login::Refused) {
            return Ok(());
        }
    }
}

fn broken(error: ProtocolError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn no_memory() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, Refusal::no_memory().message)
}

/// Reads a frame without its length; None if the client has closed the connection, or was silent for too long.
async fn read_frame(
    socket: &mut Socket,
    shared: &Shared,
    share: &Share,
    most: usize,
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
        .filter(|length| *length <= most)
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
        Ok(Some(frame.freeze()))
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
            // The memory is given back after the send.
            Part::Held(bytes, _share) => {
                timeout(shared.limits.transfer, socket.write_all(&bytes)).await??;
                Counters::add(&shared.counters.record_bytes, length);
            }
            Part::File(range) => {
                send_file(socket, &range).await?;
                Counters::add(&shared.counters.record_bytes, length);
            }
        }
        Counters::add(&shared.counters.sent_bytes, length);
    }
    timeout(shared.limits.transfer, socket.flush()).await?
}
