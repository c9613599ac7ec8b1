//! A connection: one request after the other, as a broker takes them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::answers::shared::{Login, Peer, Shared};
use crate::base::counters::Counters;
use crate::base::memory::Share;
use crate::base::sync::lock;
use crate::net::send_file::send_file;
use crate::net::socket::Socket;
use crate::net::steps::Steps;
use crate::protocol::wire::{Part, ProtocolError};

/// What a frame grows by at first while it arrives: nothing is allocated for a length that a client only announces.
const STEP: usize = 1 << 12;
/// How long a request may take to arrive: what has come of it takes memory.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Serves a connection until it is closed, breaks the protocol, or is silent too long.
pub(super) async fn serve_connection(
    socket: TcpStream,
    tls: Option<&TlsAcceptor>,
    steps: &Steps,
) -> io::Result<()> {
    let shared = &*steps.shared;
    socket.set_nodelay(true)?;
    let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
    let peer = Arc::new(Peer::new(shared, local, remote));
    let mut socket = match tls {
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
        if let Some(reply) = steps.answer(&peer, frame).await.map_err(broken)? {
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
        if matches!(*lock(&peer.login), Login::Refused) {
            return Ok(());
        }
    }
}

fn broken(error: ProtocolError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
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
                send_file(socket, &range).await?;
                Counters::add(&shared.counters.record_bytes, length);
            }
        }
        Counters::add(&shared.counters.sent_bytes, length);
    }
    timeout(shared.limits.transfer, socket.flush()).await?
}
