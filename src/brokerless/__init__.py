"""Kafka logs at rest, with no broker: read log directories as Arrow.

>>> import brokerless as bl
>>> log = bl.Log(SAMPLE)
>>> rows = next(log.read(columns=["offset", "key"]))
>>> rows.column_names
['offset', 'key']
"""

from brokerless.errors import (
    BrokerlessError,
    CorruptRecordError,
    OffsetOutOfRangeError,
    UnsupportedFormatError,
)
from brokerless.log.log import Log
from brokerless.log.reader import KAFKA_COLUMNS, Lost, Reader, read_split
from brokerless.log.root import Root
from brokerless.log.segment import Segment
from brokerless.log.split import Split
from brokerless.log.texts import LeaderEpoch
from brokerless.log.times import OffsetAndTimestamp
from brokerless.log_dir import Leftover, LogDir

__all__ = [
    "KAFKA_COLUMNS",
    "BrokerlessError",
    "CorruptRecordError",
    "LeaderEpoch",
    "Leftover",
    "Log",
    "LogDir",
    "Lost",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "Reader",
    "Root",
    "Segment",
    "Split",
    "UnsupportedFormatError",
    "read_split",
]
