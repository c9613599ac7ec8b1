"""The errors of this package: one class for each kind of failure.

BrokerlessError
|-- CorruptRecordError        the bytes violate the format
|-- UnsupportedFormatError    valid Kafka data that brokerless does not read (unknown magic, codec, size cap)
|-- OffsetOutOfRangeError     the requested offset is not in the log
|-- LogInUseError             a broker or another writer holds the directory's lock
|-- RecordDeserializationError  a key or value does not decode, and `on_error` is "raise"
`-- AppendError               a broker would refuse this append; the base class stands for "unknown server error"
    |-- OutOfOrderSequenceError           the producer's sequence does not follow its last one
    |-- InvalidProducerEpochError         a newer producer with the same id has taken over
    |-- InvalidTxnStateError              a non-transactional batch while the producer's transaction is open
    |-- TransactionCoordinatorFencedError a newer transaction coordinator has written a marker
    |-- RecordTooLargeError               a batch is larger than max_message_bytes
    |-- RecordBatchTooLargeError          one append is larger than a segment
    |-- InvalidRecordError                a batch is malformed, or the topic refuses one of its records
    |   `-- InvalidTimestampError         a timestamp is outside the topic's range
    |-- UnsupportedForMessageFormatError  transactions and idempotence need magic 2
    |-- UnsupportedCompressionTypeError   the topic's message format does not support the codec
    |-- OffsetsOutOfOrderError            last offsets within a call do not increase
    |-- UnexpectedAppendOffsetError       given offsets are below the log end offset
    `-- LogSegmentOffsetOverflowError     an offset is too far from its segment's base offset

All other errors are builtins: ValueError and TypeError are the caller's mistakes, OSError comes from the disk. The
native code knows positions but no paths. The code that opened the file wraps the call in `located`, which adds the
path.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokerless.wording import Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.wording import Face


__all__ = [
    "AppendError",
    "BrokerlessError",
    "CorruptRecordError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "LogInUseError",
    "LogSegmentOffsetOverflowError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "RecordBatchTooLargeError",
    "RecordDeserializationError",
    "RecordTooLargeError",
    "TransactionCoordinatorFencedError",
    "UnexpectedAppendOffsetError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedFormatError",
]


class BrokerlessError(Exception):
    """The base class of all errors of this package that are not builtins.

    >>> import brokerless as bl
    >>> try:
    ...     bl.Log(SAMPLE).read(start_offset=1000)
    ... except bl.BrokerlessError as error:
    ...     type(error).__name__
    'OffsetOutOfRangeError'
    """


class _PlacedError(BrokerlessError):
    """An error at a place in a file. The path and the positions may be unknown."""

    _of_logs: Remedy
    face: Face | None = None
    """The interface (Python, command line or Spark) that words the remedy; None: the interface in use at `str`."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        base_offset: int | None = None,
        next_position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.base_offset = base_offset
        self.next_position = next_position

    def __str__(self) -> str:
        what, colon, detail = str(self.args[0]).partition(": ")
        if self.path is not None and what.endswith(" are lost"):
            # They are not at a position of the file: the file ends before them.
            what += f" ({self.path})"
        elif self.path is not None:
            what += f" at {self.path}" + ("" if self.position is None else f":{self.position}")
        elif self.position is not None:
            what += f" at position {self.position}"
        if self.base_offset is not None:
            what += f" (base_offset {self.base_offset})"
        remedy = self.remedy
        hint = "" if remedy is None else f"\nhint: {remedy if self.face is None else remedy.worded(self.face)}"
        return what + colon + detail + hint

    @property
    def remedy(self) -> Remedy | None:
        """The remedy for the error; None if it depends on the use of the file."""
        if self.path is None or self.path.endswith(".log"):
            return None if self.path is None else self._of_logs
        text = remedy_for(self.path)
        return None if text is None else Remedy(text)


IMAGE_FIRST = "image the disk with ddrescue first, and work on the copy"
"""The remedy for a disk that cannot read some bytes: each attempt to read them may make it worse."""
# Disks and most file systems say EIO. Some file systems say EUCLEAN or EBADMSG if a checksum of theirs is wrong.
_DISK_ERRORS = (errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO))

_REPAIR = "run `brokerless repair`, or remove the file"
# Indexes are not listed, because reads work without them.
_OF_SMALL_FILES = {
    "leader-epoch-checkpoint": f"{_REPAIR}: a broker rebuilds it from the batches",
    "partition.metadata": "run `brokerless repair`, which writes it again. To only read the log, move it aside",
    "meta.properties": "write it again with version, cluster.id, node.id and directory.id: a broker needs them",
    "recovery-point-offset-checkpoint": f"{_REPAIR}: a broker then checks all segments",
    "log-start-offset-checkpoint": "run `brokerless repair`, which keeps deleted records deleted. Without the file, "
    "they become visible again",
    "cleaner-offset-checkpoint": f"{_REPAIR}: the log cleaner then starts over",
    "replication-offset-checkpoint": f"{_REPAIR}: a broker then determines the high watermarks again",
}


def remedy_for(path: str) -> str | None:
    """Return the remedy for a small file of a log directory that cannot be read; None for another file.

    >>> remedy_for("data/cleaner-offset-checkpoint")
    'run `brokerless repair`, or remove the file: the log cleaner then starts over'
    """
    return next((text for name, text in _OF_SMALL_FILES.items() if path.endswith(name)), None)


class CorruptRecordError(_PlacedError):
    """The bytes violate the format: framing, checksum or structure.

    Attributes:
        path: the file; None if the bytes are not from a file.
        position: byte position of the damaged batch or index entry; None in a text file.
        base_offset: the base offset field of that batch; None if it cannot be read.
        next_position: byte position of the next batch; None if the framing is lost.

    >>> str(CorruptRecordError("record batch crc mismatch: stored 0a, computed 0b", position=78, base_offset=5))
    'record batch crc mismatch at position 78 (base_offset 5): stored 0a, computed 0b'
    """

    _of_logs = Remedy(
        "a read can skip the damage and report the lost offsets ({}); a dump shows the batches before the damage",
        [("on_corrupt", "skip")],
    )


class UnsupportedFormatError(_PlacedError):
    """Valid Kafka data that brokerless does not read: an unknown magic or codec, or a batch above the size cap.

    The attributes are those of `CorruptRecordError`.
    """

    _of_logs = Remedy(
        'a read can skip the batch and report the lost offsets ({}); see "What is supported" in the documentation',
        [("on_corrupt", "skip")],
    )


class OffsetOutOfRangeError(BrokerlessError):
    """The requested offset is below the log start offset or above the log end offset.

    Attributes:
        log_start_offset: the lowest offset that can be read from this directory.
        log_end_offset: the offset after the last record.

    >>> import brokerless as bl
    >>> try:
    ...     bl.Log(SAMPLE).read(start_offset=1000)
    ... except bl.errors.OffsetOutOfRangeError as error:
    ...     error.log_start_offset, error.log_end_offset
    (0, 120)
    """

    def __init__(self, message: str, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(message)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset

    def __reduce__(self) -> tuple[object, ...]:
        # Spark pickles errors. The default pickling would call the class without its keyword-only arguments.
        return _out_of_range, (str(self), self.log_start_offset, self.log_end_offset)


def _out_of_range(message: str, log_start_offset: int, log_end_offset: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(message, log_start_offset=log_start_offset, log_end_offset=log_end_offset)


class LogInUseError(BrokerlessError):
    """The log directory is locked by a broker, by another process that writes to it, or by this process."""


class RecordDeserializationError(BrokerlessError):
    """A key or value does not decode, and `on_error` is "raise". The message has none of its content.

    Attributes:
        topic: the topic; None if it is not known.
        partition: the partition; None if it is not known.
        offset: the offset of the record.
        part: "key" or "value".
    """

    def __init__(self, message: str, *, topic: str | None, partition: int | None, offset: int, part: str) -> None:
        super().__init__(message)
        self.topic, self.partition, self.offset, self.part = topic, partition, offset, part


class AppendError(_PlacedError):
    """A broker would refuse this append. The log is unchanged.

    Each subclass is one of Kafka's own error codes. AppendError itself stands for "unknown server error". A wrong
    checksum or broken framing raises CorruptRecordError instead.

    Attributes:
        log: the partition; None if it is not known.
        path: None.
        position: byte position of the refused batch in the appended bytes.
        base_offset: the base offset field of that batch as passed; None if the refusal does not concern a single batch.
        next_position: None.

    >>> str(RecordTooLargeError("batch is 70 bytes: max_message_bytes is 69", position=0, base_offset=0))
    'batch is 70 bytes at position 0 (base_offset 0): max_message_bytes is 69'
    """

    log: str | None = None

    def __str__(self) -> str:
        refused = super().__str__()
        return refused if self.log is None else f"{self.log}: {refused}"


class OutOfOrderSequenceError(AppendError):
    """The producer's base sequence does not follow its last sequence: a batch is missing, or was stored long ago."""


class InvalidProducerEpochError(AppendError):
    """A newer producer with the same id has written to the log, so this producer is fenced and must stop."""


class InvalidTxnStateError(AppendError):
    """The batch is not transactional, but its producer has an open transaction."""


class TransactionCoordinatorFencedError(AppendError):
    """The marker comes from an older transaction coordinator than an earlier marker."""


class RecordTooLargeError(AppendError):
    """A batch is larger than `max_message_bytes`, as passed or after recompression with the topic's codec."""


class RecordBatchTooLargeError(AppendError):
    """One append is larger than `segment_bytes`."""


class InvalidRecordError(AppendError):
    """The batch is malformed, or the topic refuses one of its records. No record was appended.

    Attributes:
        record_errors: (index in the batch, reason) of each refused record; empty if the whole batch is refused.
    """

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        base_offset: int | None = None,
        record_errors: Iterable[tuple[int, str]] = (),
    ) -> None:
        super().__init__(message, position=position, base_offset=base_offset)
        self.record_errors = list(record_errors)


class InvalidTimestampError(InvalidRecordError):
    """A timestamp is outside the topic's range, or the batch has LogAppendTime, which only a broker may set.

    The attributes are those of `InvalidRecordError`.
    """


class UnsupportedForMessageFormatError(AppendError):
    """The batch is idempotent or transactional, but the topic's message format is 0 or 1."""


class UnsupportedCompressionTypeError(AppendError):
    """The codec is zstd, but the topic's message format is 0 or 1."""


class OffsetsOutOfOrderError(AppendError):
    """In an append with given offsets, the batches are not in offset order."""


class UnexpectedAppendOffsetError(AppendError):
    """In an append with given offsets, the first offset is below the log end offset."""


class LogSegmentOffsetOverflowError(AppendError):
    """In an append with given offsets, the offsets span more than 2^31-1, the limit of a segment."""


@contextmanager
def located(path: str) -> Iterator[None]:
    """Add `path` to errors raised in the `with` block that know only a position.

    >>> with located("00000000000000000000.index"):
    ...     raise UnsupportedFormatError("unknown magic: 7", position=0)
    Traceback (most recent call last):
    brokerless.errors.UnsupportedFormatError: unknown magic at 00000000000000000000.index:0: 7
    """
    try:
        yield
    except (CorruptRecordError, UnsupportedFormatError) as error:
        if error.path is None:
            error.path = os.fspath(path)
        raise


def is_disk_error(error: BaseException) -> bool:
    """Return whether an error means that the disk could not read bytes, or that the file system found them wrong."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def in_words(error: Exception) -> str:
    """Return an error as text; one of the operating system as its reason and its path, without its number.

    >>> in_words(FileNotFoundError(2, "No such file or directory", "data"))
    'No such file or directory: data'
    """
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {os.fsdecode(error.filename)}"
    return str(error)


def read_error(number: int | None, path: str | os.PathLike[str], position: int) -> OSError:
    """Return the error of a read of a file, from its number: with the position and the remedy if the disk failed."""
    number = errno.EIO if number is None else number
    reason = os.strerror(number)
    if number in _DISK_ERRORS:
        reason += f" at byte {position}; {IMAGE_FIRST}"
    return OSError(number, reason, os.fspath(path))
