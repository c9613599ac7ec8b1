//! The error of the core: a reason and a position. Callers that open the file add its path.

use std::fmt;

/// The kinds of errors, like Kafka's exception classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The bytes break the format: framing, checksum or structure.
    Corrupt,
    /// The bytes may be valid in Kafka, but their form is not supported: magic, codec, size above the cap.
    Unsupported,
    /// An argument is invalid.
    Invalid,
}

/// The damaged part. In the findings of a check, each part has its own effect and cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// The header of a batch: its length or its magic.
    Framing,
    /// A batch that the end of the file cuts off.
    Cut,
    /// The checksum of a batch.
    Checksum,
    /// Compressed records that cannot be decompressed.
    Payload,
    /// Offsets.
    Order,
    /// Anything else: the records in a batch, an index, a snapshot.
    #[default]
    Structure,
}

/// An error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The damaged part.
    pub fault: Fault,
    /// The reason, in lower case, with the stored and the computed value if both are known.
    pub message: String,
    /// Byte position of the batch (or index entry) at fault, from the start of the file.
    pub position: u64,
    /// Offset field of that batch, if it could be read.
    pub base_offset: Option<i64>,
    /// The position of the next batch, if the framing of this one is intact.
    pub next_position: Option<u64>,
}

/// The result type of the core.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error for bytes that break the format.
    #[cold]
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message.into())
    }

    /// Creates an error for bytes in an unsupported form.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message.into())
    }

    /// Creates an error for an invalid argument.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message.into())
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            fault: Fault::default(),
            message,
            position: 0,
            base_offset: None,
            next_position: None,
        }
    }

    /// Sets the damaged part.
    pub fn of(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// Adds the position. Only the code that knows the batch calls this, once.
    pub fn at(mut self, position: u64, base_offset: Option<i64>) -> Self {
        self.position = position;
        self.base_offset = base_offset;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at position {}", self.message, self.position)?;
        match self.base_offset {
            Some(offset) => write!(f, " (base_offset {offset})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
