//! The reasons why a broker refuses an append: one for each error of Kafka, with the refused records.

use std::fmt;

use crate::base::error::Error;

/// Kafka's answer, named like its exception class without `Exception`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A wrong checksum or broken framing.
    CorruptRecord,
    /// A sequence that does not follow the producer's last one.
    OutOfOrderSequence,
    /// A newer producer with that id has been seen.
    InvalidProducerEpoch,
    /// A batch outside a transaction while one is open.
    InvalidTxnState,
    /// A newer transaction coordinator has written a marker.
    TransactionCoordinatorFenced,
    /// A batch above `max.message.bytes`.
    RecordTooLarge,
    /// More bytes than a segment holds.
    RecordBatchTooLarge,
    /// An invalid batch, or a record that the topic does not accept.
    InvalidRecord,
    /// A timestamp outside the topic's range.
    InvalidTimestamp,
    /// Transactions or idempotence in magic 0 or 1.
    UnsupportedForMessageFormat,
    /// A codec that the topic's message format does not support.
    UnsupportedCompressionType,
    /// Last offsets within a request that do not increase.
    OffsetsOutOfOrder,
    /// Given offsets below the log end offset.
    UnexpectedAppendOffset,
    /// An offset too far from its segment's base.
    LogSegmentOffsetOverflow,
    /// The cases that Kafka answers with "unknown server error".
    Append,
}

impl Refusal {
    /// The name of the answer.
    pub fn name(self) -> &'static str {
        match self {
            Self::CorruptRecord => "CorruptRecord",
            Self::OutOfOrderSequence => "OutOfOrderSequence",
            Self::InvalidProducerEpoch => "InvalidProducerEpoch",
            Self::InvalidTxnState => "InvalidTxnState",
            Self::TransactionCoordinatorFenced => "TransactionCoordinatorFenced",
            Self::RecordTooLarge => "RecordTooLarge",
            Self::RecordBatchTooLarge => "RecordBatchTooLarge",
            Self::InvalidRecord => "InvalidRecord",
            Self::InvalidTimestamp => "InvalidTimestamp",
            Self::UnsupportedForMessageFormat => "UnsupportedForMessageFormat",
            Self::UnsupportedCompressionType => "UnsupportedCompressionType",
            Self::OffsetsOutOfOrder => "OffsetsOutOfOrder",
            Self::UnexpectedAppendOffset => "UnexpectedAppendOffset",
            Self::LogSegmentOffsetOverflow => "LogSegmentOffsetOverflow",
            Self::Append => "Append",
        }
    }
}

/// A refused append. Nothing of it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Kafka's answer.
    pub refusal: Refusal,
    /// The reason, in lower case, with the value found and the value allowed.
    pub message: String,
    /// Byte position of the batch at fault, counted from the start of the request.
    pub position: u64,
    /// Offset field of that batch as sent, if it could be read.
    pub base_offset: Option<i64>,
    /// The refused records: index in the batch, and reason.
    pub records: Vec<(i32, String)>,
}

impl Refused {
    /// Creates a refusal without a position.
    #[cold]
    pub(crate) fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self {
            refusal,
            message: message.into(),
            position: 0,
            base_offset: None,
            records: Vec::new(),
        }
    }

    /// Creates a refusal with the message of `error`.
    #[cold]
    pub(crate) fn of(refusal: Refusal, error: Error) -> Self {
        Self::new(refusal, error.message)
    }

    /// Adds the position.
    pub(crate) fn at(mut self, position: u64, base_offset: i64) -> Self {
        self.position = position;
        self.base_offset = Some(base_offset);
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} at position {}",
            self.refusal.name(),
            self.message,
            self.position
        )
    }
}

impl std::error::Error for Refused {}
