//! Why a broker refuses an append: one kind per answer of Kafka's, with the record at fault where there is one.

use std::fmt;

use crate::base::error::Error;

/// Kafka's answer, by the name of its exception class without the ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The checksum or the framing is broken.
    CorruptRecord,
    /// A sequence that does not follow the producer's last one.
    OutOfOrderSequence,
    /// A newer producer of that id has been seen.
    InvalidProducerEpoch,
    /// A batch outside a transaction while one is open.
    InvalidTxnState,
    /// A newer transaction coordinator has written a marker.
    TransactionCoordinatorFenced,
    /// A batch above `max.message.bytes`.
    RecordTooLarge,
    /// More than a segment holds.
    RecordBatchTooLarge,
    /// The structure of a batch, or a record that the topic does not take.
    InvalidRecord,
    /// A timestamp out of the topic's range.
    InvalidTimestamp,
    /// Transactions and idempotence need magic 2.
    UnsupportedForMessageFormat,
    /// A codec that the topic's message format does not have.
    UnsupportedCompressionType,
    /// Last offsets within a call that do not increase.
    OffsetsOutOfOrder,
    /// Given offsets below the log end offset.
    UnexpectedAppendOffset,
    /// An offset too far from its segment's base.
    LogSegmentOffsetOverflow,
    /// What Kafka answers with "unknown server error".
    Append,
}

impl Refusal {
    /// The name.
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

/// A refused append. Nothing of it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Kafka's answer.
    pub refusal: Refusal,
    /// What is wrong, found against allowed: lower case.
    pub message: String,
    /// Byte position, in what was to be appended, of the batch at fault.
    pub position: u64,
    /// Offset field of that batch as it came, if it could be read.
    pub base_offset: Option<i64>,
    /// The records refused, by their index in the batch, with the reason of each.
    pub records: Vec<(i32, String)>,
}

impl Refused {
    /// A refusal whose place is not known yet.
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

    /// The same, for what `error` says.
    #[cold]
    pub(crate) fn of(refusal: Refusal, error: Error) -> Self {
        Self::new(refusal, error.message)
    }

    /// The same refusal, placed.
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
