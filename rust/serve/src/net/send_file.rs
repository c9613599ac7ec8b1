//! Sending from a file to a socket.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use brokerless_core::ReadAt;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::net::socket::Socket;
use crate::protocol::wire::FileRange;

/// The maximum number of bytes that one call sends, so that a fast client does not occupy a thread.
const AT_ONCE: u64 = 1 << 20;

/// The bytes of memory that a copy needs for each connection.
const COPIED: usize = 16 << 10;
/// The maximum number of threads that wait for a disk at the same time. These threads are separate from the threads
/// that serve all clients.
static COLD: Semaphore = Semaphore::const_new(8);
/// The time limit for a client that accepts no bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a part of a file.
///
/// # Errors
///
/// The client accepts no bytes for too long, the connection is closed, or the file has become shorter.
pub(super) async fn send_file(socket: &mut Socket, range: &FileRange) -> io::Result<()> {
    socket.flush().await?;
    let (mut position, end) = (range.position, range.position + range.length);
    let mut filled = position;
    while position < end {
        if position == filled {
            filled = fill_page_cache(range, position).await;
        }
        let sending = send(socket, range, position, filled - position);
        match timeout(PATIENCE, sending).await?? {
            0 => {
                let text = "the file became shorter";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            count => position += count,
        }
    }
    Ok(())
}

/// Reads the next part of a file on a thread that may wait for a disk, if it is not in the page cache. Returns the end
/// of that part.
///
/// This has no time limit, because a slow disk is not the client's fault. The sender detects bytes that cannot be read.
/// Only both ends of the part are checked: the bytes read last, and the bytes read ahead. A gap between them is rare,
/// and only makes other clients wait.
async fn fill_page_cache(range: &FileRange, position: u64) -> u64 {
    let end = (range.position + range.length).min(position + AT_ONCE);
    if is_cached(&range.file, position) && is_cached(&range.file, end - 1) {
        return end;
    }
    let permit = COLD.acquire().await;
    let file = Arc::clone(&range.file);
    let read = tokio::task::spawn_blocking(move || {
        // Held until the read ends, even if the connection ends earlier.
        let _permit = permit;
        let mut buffer = vec![0; COPIED];
        let mut position = position;
        while position < end {
            match file.read_at(position, &mut buffer) {
                Ok(count @ 1..) => position += count as u64,
                _ => break,
            }
        }
    });
    let _ = read.await;
    end
}

/// Returns true if a byte of a file can be read without waiting for a disk, or if the system does not report it.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, position: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut byte = [0];
    let into = &mut [io::IoSliceMut::new(&mut byte)];
    preadv2(file, into, position, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: u64) -> bool {
    true
}

/// Sends some bytes, at least one, and returns their number; 0 if the file ends before them.
async fn send(
    socket: &mut Socket,
    range: &FileRange,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    #[cfg(target_os = "linux")]
    if let Socket::Plain(socket) = socket {
        return send_in_kernel(socket, range, position, length).await;
    }
    // The bytes pass through this process, because they must be encrypted or the system has no such call.
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPIED).min(COPIED)];
    let count = range.file.read_at(position, &mut buffer)?;
    buffer.truncate(count);
    socket.write_all(&buffer).await?;
    Ok(count as u64)
}

#[cfg(target_os = "linux")]
async fn send_in_kernel(
    socket: &mut tokio::net::TcpStream,
    range: &FileRange,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    loop {
        socket.writable().await?;
        let sent = socket.try_io(tokio::io::Interest::WRITABLE, || {
            let (mut offset, length) = (position, usize::try_from(length).unwrap_or(usize::MAX));
            let sent = rustix::fs::sendfile(&*socket, &range.file, Some(&mut offset), length)?;
            Ok(sent as u64)
        });
        match sent {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            sent => return sent,
        }
    }
}
