//! Finds and opens the file of a split, which a broker or a commit may have renamed or replaced since it was planned.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use brokerless_core::{Defect, OffsetIndex, ReadAt, SegmentFiles};

use crate::error::TaskError;
use crate::task::TaskSplit;

/// The journal of a commit: see `brokerless.layout.commit_journal`.
const JOURNAL: &str = ".brokerless-journal";
/// The maximum number of moves of a directory during the opening of a file in it.
const MOVES: usize = 5;
const SWAP: &str = ".swap";
const DELETED: &str = ".deleted";
/// An index above this size is not read as a whole. Kafka's indexes have 10 MiB by default.
const MAX_INDEX: u64 = 64 << 20;

/// Opens the file of a split. For a whole segment, also accepts a replacement that has the same offsets. Returns the
/// file, and whether it is the planned file.
pub(crate) fn open(split: &TaskSplit) -> Result<(Arc<File>, bool), TaskError> {
    let failed = |error: io::Error| TaskError::of_file(&error, &split.path);
    match surviving(&split.path, |path| {
        let file = open_regular(path)?;
        if is_planned(split, &file)? {
            Ok(file)
        } else {
            Err(not_found())
        }
    }) {
        Ok(file) => return Ok((Arc::new(file), true)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Err(_) => {}
    }
    if split.is_whole() {
        match is_in_one_piece(split) {
            Ok(true) => match surviving(&split.path, open_regular) {
                Ok(file) => return Ok((Arc::new(file), false)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                Err(_) => {}
            },
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Err(TaskError::gone(&split.path))
}

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

/// Opens a regular file. Other files are refused, because a named pipe would block, and a device has no end.
fn open_regular(path: &str) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        Ok(file)
    } else if kind.is_dir() {
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

/// Returns true if an open file is the planned file: see `Split.is_of`.
fn is_planned(split: &TaskSplit, file: &File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    if let Some(planned) = split.file_size {
        return Ok(size == planned);
    }
    if size < split.end_position {
        return Ok(false);
    }
    let Some((position, hex)) = &split.last_batch else {
        return Ok(true);
    };
    let mut start = vec![0; hex.len() / 2];
    let count = file.read_at(*position, &mut start)?;
    let found: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(count == start.len() && found == *hex)
}

/// Returns true if the file that now has the segment's name holds all of its offsets: see `reader._is_in_one_piece`.
fn is_in_one_piece(split: &TaskSplit) -> io::Result<bool> {
    let Some(following) = split.following_offset else {
        return Ok(false);
    };
    let next = in_force(&split.path, |path| {
        let directory = Path::new(path).parent().unwrap_or(Path::new("."));
        let mut next: Option<i64> = None;
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            let base = name.to_str().and_then(log_base_offset);
            if let Some(base) = base.filter(|&base| base > split.base_offset) {
                next = Some(next.map_or(base, |next| next.min(base)));
            }
        }
        Ok(next)
    })?;
    let is_closed = split.file_size.is_some() || next.is_some();
    Ok(is_closed && next.unwrap_or(i64::MAX) >= following)
}

/// The base offset in the name of a `.log`.
fn log_base_offset(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// Calls `open` with the names that a listed `.log` may have by now: see `brokerless.log.segment.open_log`.
fn surviving<T>(path: &str, open: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
    in_force(path, |path| {
        let last = path.strip_suffix(SWAP).unwrap_or(path);
        for name in [path, last, &format!("{last}{DELETED}")] {
            match open(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        Err(not_found())
    })
}

/// Calls `open` with the present path of a file whose directory commits move into and out of the journal: see
/// `brokerless.layout.commit_journal.in_force`.
fn in_force<T>(path: &str, open: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
    let Some((directory, name)) = path.rsplit_once('/') else {
        return open(path);
    };
    let other = counterpart(directory);
    for _ in 0..MOVES {
        match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        // If the directory exists but lacks the file, do not look in the one that it replaces, or that replaces it.
        if !Path::new(directory).is_dir() && Path::new(&other).is_dir() {
            match open(&format!("{other}/{name}")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
    }
    open(path)
}

/// For a directory in the log directory, its path in the journal; for a directory in the journal, its path in the log
/// directory.
fn counterpart(directory: &str) -> String {
    let (parent, name) = directory.rsplit_once('/').unwrap_or((".", directory));
    match parent
        .strip_suffix(JOURNAL)
        .and_then(|root| root.strip_suffix('/'))
    {
        Some(root) => format!("{root}/{name}"),
        None => format!("{parent}/{JOURNAL}/{name}"),
    }
}

/// Reads the offset index beside a `.log`. None if it has no entry or cannot be read, because an index is only a hint.
pub(crate) fn offset_index(path: &str, base_offset: i64) -> Option<OffsetIndex> {
    let stem = path.strip_suffix(&format!("{base_offset:020}.log"))?;
    let content = in_force(&format!("{stem}{base_offset:020}.index"), |path| {
        let file = open_regular(path)?;
        let size = file.metadata()?.len();
        if size > MAX_INDEX {
            return Err(io::Error::other("too large"));
        }
        let mut content = vec![0; size as usize];
        let count = file.read_at(0, &mut content)?;
        content.truncate(count);
        Ok(content)
    });
    let index = OffsetIndex::new(&content.ok()?, base_offset, false);
    (!index.is_empty()).then_some(index)
}

/// The index beside the `.log` of a split.
#[derive(Debug)]
pub(crate) struct Index {
    /// The path of the `.log`.
    path: String,
    base_offset: i64,
    following_offset: Option<i64>,
    /// The position at which the `.log` ends.
    size: u64,
}

impl Index {
    pub(crate) fn of(split: &TaskSplit) -> Self {
        Self {
            path: split.path.clone(),
            base_offset: split.base_offset,
            following_offset: split.following_offset,
            size: split.end_position,
        }
    }
}

impl SegmentFiles for Index {
    type Error = io::Error;

    fn cut_short(&self, next_offset: i64) -> io::Result<Option<Defect>> {
        let index = offset_index(&self.path, self.base_offset);
        let (Some(index), Some(following)) = (index, self.following_offset) else {
            return Ok(None);
        };
        let last = index.lookup(i64::MAX);
        let last = (last.offset, last.position);
        Ok(Defect::cut_short(
            &self.path,
            self.size,
            next_offset,
            following,
            last,
        ))
    }
}
