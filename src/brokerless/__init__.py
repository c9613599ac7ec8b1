"""Kafka logs at rest, with no broker: read log directories as Arrow.

>>> import brokerless as bl
>>> log = bl.Log(SAMPLE)
>>> rows = next(log.read(columns=["offset", "key"]))
>>> rows.column_names
['offset', 'key']
"""

from brokerless.errors import (
    AppendError,
    BrokerlessError,
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    LogInUseError,
    LogSegmentOffsetOverflowError,
    OffsetOutOfRangeError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    TransactionCoordinatorFencedError,
    UnexpectedAppendOffsetError,
    UnsupportedCompressionTypeError,
    UnsupportedFormatError,
    UnsupportedForMessageFormatError,
)
from brokerless.log.compact import Compact
from brokerless.log.convert import Convert
from brokerless.log.erase import Erase
from brokerless.log.log import Log
from brokerless.log.reader import KAFKA_COLUMNS, Lost, Reader, read_split
from brokerless.log.retain import Retain
from brokerless.log.root import Root
from brokerless.log.segment import Segment
from brokerless.log.settings import TopicSettings
from brokerless.log.split import Split
from brokerless.log.texts import LeaderEpoch
from brokerless.log.times import OffsetAndTimestamp
from brokerless.log.until import Until
from brokerless.log.writer import LogWriter
from brokerless.log_dir import Leftover, LogDir
from brokerless.log_dir_writer import LogDirWriter
from brokerless.producer import Producer
from brokerless.rewriting import Rewritten, rewrite

__all__ = [
    "KAFKA_COLUMNS",
    "AppendError",
    "BrokerlessError",
    "Compact",
    "Convert",
    "CorruptRecordError",
    "Erase",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "LeaderEpoch",
    "Leftover",
    "Log",
    "LogDir",
    "LogDirWriter",
    "LogInUseError",
    "LogSegmentOffsetOverflowError",
    "LogWriter",
    "Lost",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "Producer",
    "Reader",
    "RecordBatchTooLargeError",
    "RecordTooLargeError",
    "Retain",
    "Rewritten",
    "Root",
    "Segment",
    "Split",
    "TopicSettings",
    "TransactionCoordinatorFencedError",
    "UnexpectedAppendOffsetError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedFormatError",
    "Until",
    "read_split",
    "rewrite",
]
