//! Errors with the same messages as in `brokerless.errors`, which explains them.

use std::fmt;
use std::io;

use brokerless_core::{Error, ErrorKind, ReadError};

/// An error of a task, with its file.
#[derive(Debug)]
pub struct TaskError(String);

impl TaskError {
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A value that Python would refuse with a `ValueError`.
    pub(crate) fn value(message: impl fmt::Display) -> Self {
        Self(format!("ValueError: {message}"))
    }

    /// The error of reading the file at `path`.
    pub(crate) fn of_read(error: ReadError<io::Error>, path: &str) -> Self {
        match error {
            ReadError::Format(error) => Self::of_format(&error, path),
            ReadError::File(error) => Self::of_file(&error, path),
        }
    }

    pub(crate) fn of_format(error: &Error, path: &str) -> Self {
        match error.kind {
            ErrorKind::Corrupt => {
                Self::corrupt(&error.message, path, error.position, error.base_offset)
            }
            ErrorKind::Unsupported => Self(format!(
                "brokerless.errors.UnsupportedFormatError: {}\nhint: a read can skip the batch and report the lost offsets \
                     (.option(\"onCorrupt\", \"skip\")); see \"What is supported\" in the documentation",
                placed(&error.message, path, error.position, error.base_offset)
            )),
            ErrorKind::Invalid => Self(format!("ValueError: {}", error.message)),
        }
    }

    /// Bytes that break the format, at a place of the file at `path`.
    pub(crate) fn corrupt(
        message: &str,
        path: &str,
        position: u64,
        base_offset: Option<i64>,
    ) -> Self {
        let hint = if path.ends_with(".log") {
            "\nhint: a read can skip the damage and report the lost offsets (.option(\"onCorrupt\", \"skip\")); a dump shows the batches before the damage"
        } else {
            ""
        };
        Self(format!(
            "brokerless.errors.CorruptRecordError: {}{hint}",
            placed(message, path, position, base_offset)
        ))
    }

    /// An error of the operating system, as Python words it.
    pub(crate) fn of_file(error: &io::Error, path: &str) -> Self {
        let class = match error.kind() {
            io::ErrorKind::NotFound => "FileNotFoundError",
            io::ErrorKind::PermissionDenied => "PermissionError",
            io::ErrorKind::IsADirectory => "IsADirectoryError",
            io::ErrorKind::NotADirectory => "NotADirectoryError",
            _ => "OSError",
        };
        let text = error.to_string();
        let what = text.split(" (os error").next().unwrap_or_default();
        Self(match error.raw_os_error() {
            Some(number) => format!("{class}: [Errno {number}] {what}: '{path}'"),
            None => format!("{class}: {what}: '{path}'"),
        })
    }

    /// The error for a planned file that no longer exists.
    pub(crate) fn gone(path: &str) -> Self {
        Self(format!(
            "FileNotFoundError: [Errno {}] a broker deleted, truncated or replaced the file after the read was planned: \
             read again: '{path}'",
            libc::ENOENT
        ))
    }
}

/// A message with its place, which is inserted before the details after a colon.
fn placed(message: &str, path: &str, position: u64, base_offset: Option<i64>) -> String {
    let (what, detail) = match message.split_once(": ") {
        Some((what, detail)) => (what, format!(": {detail}")),
        None => (message, String::new()),
    };
    let offset = base_offset.map_or(String::new(), |offset| format!(" (base_offset {offset})"));
    format!("{what} at {path}:{position}{offset}{detail}")
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TaskError {}

/// The error of a row that cannot be written.
impl From<Error> for TaskError {
    fn from(error: Error) -> Self {
        Self::value(error.message)
    }
}
