//! From a file to a socket.

use std::io;
use std::time::Duration;

use brokerless_core::ReadAt;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::FileRange;

/// What one call sends at most, so that a fast client does not keep a thread from the others.
const AT_ONCE: u64 = 1 << 20;

/// A copy goes through so many bytes of memory for each connection.
const COPIED: usize = 16 << 10;
/// How long a client may take nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a part of a file.
///
/// # Errors
///
/// The client takes nothing for too long, the connection is closed, or the file has become shorter.
pub(crate) async fn send_file(socket: &mut TcpStream, range: &FileRange) -> io::Result<()> {
    let (mut position, end) = (range.position, range.position + range.length);
    while position < end {
        let length = (end - position).min(AT_ONCE);
        match progress(send(socket, range, position, length)).await? {
            0 => return Err(shorter()),
            count => position += count,
        }
    }
    Ok(())
}

/// Sends some bytes, at least one, and returns their number; 0: the file has none there.
#[cfg(target_os = "linux")]
async fn send(
    socket: &mut TcpStream,
    range: &FileRange,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    use tokio::io::Interest;

    loop {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            kernel::send_file(socket, &range.file, position, length)
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

/// Other systems have other calls: the bytes are copied.
#[cfg(not(target_os = "linux"))]
async fn send(
    socket: &mut TcpStream,
    range: &FileRange,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    copy(socket, range, position, length).await
}

/// Sends a part of a file to a socket that is more than a descriptor.
///
/// # Errors
///
/// As for [`send_file`].
pub(crate) async fn copy_file(
    socket: &mut (impl AsyncWrite + Unpin),
    range: &FileRange,
) -> io::Result<()> {
    let (mut position, end) = (range.position, range.position + range.length);
    while position < end {
        match progress(copy(socket, range, position, end - position)).await? {
            0 => return Err(shorter()),
            count => position += count,
        }
    }
    Ok(())
}

async fn copy(
    socket: &mut (impl AsyncWrite + Unpin),
    range: &FileRange,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPIED).min(COPIED)];
    let count = range.file.read_at(position, &mut buffer)?;
    buffer.truncate(count);
    socket.write_all(&buffer).await?;
    Ok(count as u64)
}

/// Ends a connection that takes nothing for too long.
async fn progress<T>(sending: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, sending).await?
}

fn shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter")
}

/// The one call of the system that needs `unsafe`: records leave without a copy in this process.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod kernel {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use tokio::net::TcpStream;

    pub(super) fn send_file(
        socket: &TcpStream,
        file: &File,
        position: u64,
        length: u64,
    ) -> io::Result<u64> {
        let mut offset = libc::off_t::try_from(position).map_err(io::Error::other)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        // SAFETY: both descriptors are open as long as `socket` and `file` are borrowed, and the kernel writes to
        // `offset` only, which outlives the call.
        let sent = unsafe {
            libc::sendfile(
                socket.as_raw_fd(),
                file.as_raw_fd(),
                &raw mut offset,
                length,
            )
        };
        u64::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
