//! From a file to a socket.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::wire::FileRange;

/// What one call sends at most, so that a fast client does not keep a thread from the others.
const AT_ONCE: u64 = 1 << 20;

/// Sends a part of a file.
///
/// # Errors
///
/// The connection is closed, or the file has become shorter.
pub(crate) async fn send_file(socket: &mut TcpStream, range: &FileRange) -> io::Result<()> {
    socket.flush().await?;
    let (mut position, end) = (range.position, range.position + range.length);
    while position < end {
        match send(socket, range, position, (end - position).min(AT_ONCE)).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter",
                ));
            }
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
    use brokerless_core::ReadAt;

    let mut buffer = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let count = range.file.read_at(position, &mut buffer)?;
    buffer.truncate(count);
    socket.write_all(&buffer).await?;
    Ok(count as u64)
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
