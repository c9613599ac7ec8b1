//! A file of a segment: on a local disk, or where only the directory can read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex};

use brokerless_core::ReadAt;
use bytes::Bytes;

use crate::base::directory::{Directory, Refusal};
use crate::base::sync::lock;

/// The number of bytes of a read from a file that is not local. A search in an index reads few positions.
const BLOCK: u64 = 64 << 10;

/// A file.
pub(crate) enum SegmentFile {
    Local(Arc<File>),
    Remote(RemoteFile),
}

/// A file that the directory reads.
pub(crate) struct RemoteFile {
    directory: Arc<dyn Directory>,
    path: String,
    size: u64,
    /// The block that was read last, with its position.
    block: Mutex<(u64, Bytes)>,
}

impl SegmentFile {
    pub(crate) fn open(directory: &Arc<dyn Directory>, path: String) -> io::Result<Self> {
        if path.contains("://") {
            let size = directory.size(&path).map_err(failed)?;
            return Ok(Self::Remote(RemoteFile {
                directory: Arc::clone(directory),
                path,
                size,
                block: Mutex::default(),
            }));
        }
        // A named pipe would block.
        let file = File::options()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)?;
        match file.metadata()?.is_file() {
            true => Ok(Self::Local(Arc::new(file))),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{path}: not a regular file"),
            )),
        }
    }

    /// Reads raw bytes; fewer at the end of the file.
    pub(crate) fn read(&self, position: u64, length: usize) -> io::Result<Bytes> {
        match self {
            Self::Remote(file) => file
                .directory
                .read(&file.path, position, length)
                .map_err(failed),
            Self::Local(file) => {
                let mut bytes = vec![0; length];
                let count = file.read_at(position, &mut bytes)?;
                bytes.truncate(count);
                Ok(bytes.into())
            }
        }
    }
}

impl ReadAt for SegmentFile {
    type Error = io::Error;

    fn size(&self) -> io::Result<u64> {
        match self {
            Self::Local(file) => file.size(),
            Self::Remote(file) => Ok(file.size),
        }
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.read_at(position, buffer),
            Self::Remote(file) => file.read_at(position, buffer),
        }
    }
}

impl RemoteFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = position + filled as u64;
            let start = at - at % BLOCK;
            let mut known = lock(&self.block);
            if known.0 != start || known.1.is_empty() {
                let length = self.size.saturating_sub(start).min(BLOCK);
                if length == 0 {
                    break;
                }
                let block = self.directory.read(&self.path, start, length as usize);
                *known = (start, block.map_err(failed)?);
            }
            let from = known.1.get((at - start) as usize..).unwrap_or_default();
            let into = buffer.get_mut(filled..).unwrap_or_default();
            let count = from.len().min(into.len());
            if count == 0 {
                break;
            }
            into.iter_mut()
                .zip(from)
                .for_each(|(into, from)| *into = *from);
            filled += count;
        }
        Ok(filled)
    }
}

/// The error for a file whose bytes are not a log.
pub(crate) fn invalid(error: &impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn failed(refusal: Refusal) -> io::Error {
    io::Error::other(refusal.message)
}
