//! From a file to a socket, without a copy in this process.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::{AsyncWriteExt, Interest};
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
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            call(socket, range, position, (end - position).min(AT_ONCE))
        });
        match sent {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter",
                ));
            }
            Ok(count) => position += count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn call(socket: &TcpStream, range: &FileRange, position: u64, length: u64) -> io::Result<u64> {
    let mut offset = libc::off_t::try_from(position).map_err(io::Error::other)?;
    // SAFETY: both descriptors are open as long as `socket` and `range` are borrowed, and the kernel writes to `offset`
    // only, which outlives the call. The length fits: it is AT_ONCE at most.
    let sent = unsafe {
        libc::sendfile(
            socket.as_raw_fd(),
            range.file.as_raw_fd(),
            &raw mut offset,
            length as usize,
        )
    };
    u64::try_from(sent).map_err(|_| io::Error::last_os_error())
}
