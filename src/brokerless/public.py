"""Where all that `import brokerless` offers comes from; imported when the first of it is used."""

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
