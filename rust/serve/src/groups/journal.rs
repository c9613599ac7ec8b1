//! The file of commits: one line per commit, with tab-separated fields. The last line of a partition is its current
//! commit.
//!
//! Lines are appended. One write and one sync serve all waiting clients. A file with many outdated lines is replaced by
//! a file without these lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::base::directory::Commit;
use crate::base::sync::lock;

/// A file is rewritten when it exceeds this size and twice its size after the last rewrite.
const GROWTH: u64 = 4 << 20;

/// A commit: group, topic, partition, and the committed offset.
pub(super) type Line<'a> = (&'a str, &'a str, i32, &'a Commit);

/// The file.
pub(super) struct Journal {
    path: PathBuf,
    added: Mutex<Added>,
    written: Mutex<Written>,
    /// The lock, held as long as this server keeps commits in the file.
    _lock: Lock,
}

/// Lines that are not in the file yet.
#[derive(Default)]
struct Added {
    lines: Vec<u8>,
    /// The number of times that lines were added.
    number: u64,
}

/// The durable state of the file.
struct Written {
    /// None if the whole file must be written, because it does not exist yet or a write to it failed.
    file: Option<File>,
    /// The number of additions that are in the file.
    number: u64,
    length: u64,
    /// The file's length when it was last written as a whole.
    whole: u64,
}

impl Journal {
    /// Opens a file, and calls `visit` with each line of it, except for an incomplete last line that a crash left.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is a link, has other content, or is the file of another server's commits.
    pub(super) fn open(
        path: &Path,
        visit: impl FnMut(String, String, i32, Commit),
    ) -> io::Result<Self> {
        let lock = Lock::take(path)?;
        let written = opened(path, visit).map_err(|error| named(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            added: Mutex::default(),
            written: Mutex::new(written),
            _lock: lock,
        })
    }

    /// Adds lines. They are durable after [`Journal::sync`] of the returned number.
    pub(super) fn add<'a>(&self, lines: impl Iterator<Item = Line<'a>>) -> u64 {
        let mut added = lock(&self.added);
        for line in lines {
            put(&mut added.lines, line);
        }
        added.number += 1;
        added.number
    }

    /// Returns once the added lines are in the file. This blocks.
    ///
    /// `write_all` writes all known commits, for a file that must be written as a whole.
    pub(super) fn sync(
        &self,
        number: u64,
        write_all: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let written = &mut *lock(&self.written);
        if written.number >= number {
            // Another client's sync has already written this client's lines.
            return Ok(());
        }
        let Added { lines, number } = {
            let mut added = lock(&self.added);
            let number = added.number;
            Added {
                lines: std::mem::take(&mut added.lines),
                number,
            }
        };
        let length = written.length + lines.len() as u64;
        let is_long = length > written.whole.saturating_mul(2).max(GROWTH);
        match &mut written.file {
            Some(file) if !is_long => {
                let appended = file.write_all(&lines).and_then(|()| file.sync_data());
                if appended.is_err() {
                    // The file may end in a part of a line.
                    written.file = None;
                }
                appended?;
                written.length = length;
            }
            _ => {
                written.file = None;
                let (file, length) = replaced(&self.path, write_all)?;
                (written.length, written.whole) = (length, length);
                written.file = Some(file);
            }
        }
        written.number = number;
        Ok(())
    }
}

/// Writes a line.
pub(super) fn put(into: &mut Vec<u8>, (group, topic, partition, commit): Line<'_>) {
    put_escaped(into, group);
    into.push(b'\t');
    put_escaped(into, topic);
    let numbers = format!(
        "\t{partition}\t{}\t{}\t",
        commit.offset, commit.leader_epoch
    );
    into.extend_from_slice(numbers.as_bytes());
    put_escaped(into, &commit.metadata);
    into.push(b'\n');
}

fn opened(path: &Path, mut visit: impl FnMut(String, String, i32, Commit)) -> io::Result<Written> {
    let nothing = Written {
        file: None,
        number: 0,
        length: 0,
        whole: 0,
    };
    let file = match options().read(true).append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        let text = "not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let (mut length, mut number) = (0, 0);
    let mut reader = BufReader::new(&file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line)? as u64;
        let is_whole = line.pop_if(|last| *last == b'\n').is_some();
        number += 1;
        // Only after a whole line. A file that never had one is not ours, and is left unchanged.
        if !is_whole && (count == 0 || length > 0) {
            break;
        }
        let parsed = std::str::from_utf8(&line).ok().filter(|_| is_whole);
        let Some((group, topic, partition, commit)) = parsed.and_then(parsed_line) else {
            let text = format!("line {number} is not a valid commit");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        length += count;
        visit(group, topic, partition, commit);
    }
    if length == 0 {
        return Ok(nothing);
    }
    file.set_len(length)?;
    Ok(Written {
        file: Some(file),
        number: 0,
        length,
        whole: length,
    })
}

fn parsed_line(line: &str) -> Option<(String, String, i32, Commit)> {
    let mut fields = line.split('\t');
    let mut text = || unescaped(fields.next()?);
    let (group, topic) = (text()?, text()?);
    let partition = text()?.parse().ok()?;
    let offset = text()?.parse().ok()?;
    let leader_epoch = text()?.parse().ok()?;
    let metadata = text()?.into();
    let commit = Commit {
        offset,
        leader_epoch,
        metadata,
    };
    fields
        .next()
        .is_none()
        .then_some((group, topic, partition, commit))
}

/// Replaces the file as a whole: a reader finds the old lines or the new ones. Returns the new file with its length.
fn replaced(
    path: &Path,
    write_all: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<(File, u64)> {
    let new = beside(path, ".new");
    // A file that a crash left, or a link that leads elsewhere.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = options().append(true).create_new(true).open(&new)?;
    let mut buffered = BufWriter::new(file);
    write_all(&mut buffered)?;
    let file = buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(parent(path))?.sync_all()?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// The lock of the file: another file beside it, because the file itself gets replaced. The lock file is removed at the
/// end.
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    fn take(commits: &Path) -> io::Result<Self> {
        let path = beside(commits, ".lock");
        loop {
            let opened = options().create(true).append(true).open(&path);
            let file = opened.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    let text = format!("{}: there is no such directory", commits.display());
                    io::Error::new(error.kind(), text)
                }
                _ => named(&path, error),
            })?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let text = "another server keeps its commits there";
                    let error = io::Error::new(io::ErrorKind::ResourceBusy, text);
                    return Err(named(commits, error));
                }
                Err(fs::TryLockError::Error(error)) => return Err(named(&path, error)),
            }
            let lock = Self {
                file,
                path: path.clone(),
            };
            // Another server may have removed its file after this one opened it: then a third one locks a new file.
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }

    fn is_in_place(&self) -> bool {
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        let there = fs::symlink_metadata(&self.path).map(place);
        let held = self.file.metadata().map(place);
        matches!((there, held), (Ok(there), Ok(held)) if there == held)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that has content is not ours.
        let is_ours = self.file.metadata().is_ok_and(|found| found.len() == 0);
        if is_ours && self.is_in_place() {
            // A leftover lock file is locked again by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    let path = path.display();
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    let text = match is_link {
        true => {
            format!("{path} is a link, and commits are not written through links: name the file")
        }
        false => format!("{path}: {error}"),
    };
    io::Error::new(error.kind(), text)
}

/// Refuses to open a file through a link, which may lead anywhere, and never waits for a named pipe.
fn options() -> fs::OpenOptions {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = File::options();
    options.custom_flags(flags.bits().cast_signed());
    options
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent();
    let named = parent.filter(|parent| !parent.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}

fn put_escaped(into: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'\\' => into.extend_from_slice(b"\\\\"),
            b'\t' => into.extend_from_slice(b"\\t"),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            other => into.push(other),
        }
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut found = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        found.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(found)
}
