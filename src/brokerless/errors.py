"""What can go wrong, one class a fact.

BrokerlessError
|-- CorruptRecordError        the bytes break the format
|-- UnsupportedFormatError    legal Kafka that is not read here (unknown magic, codec, size cap)
|-- OffsetOutOfRangeError     the offset asked for is not in the log
|-- LogInUseError             a broker, or another writer, holds the lock of the directory
`-- AppendError               a broker would refuse this append; by itself: with "unknown server error"
    |-- OutOfOrderSequenceError           the producer's sequence does not follow its last one
    |-- InvalidProducerEpochError         a newer producer of that id has taken over
    |-- InvalidTxnStateError              a batch outside a transaction while one is open
    |-- TransactionCoordinatorFencedError a newer transaction coordinator has written a marker
    |-- RecordTooLargeError               a batch is above max_message_bytes
    |-- RecordBatchTooLargeError          more at once than a segment holds
    |-- InvalidRecordError                the structure of a batch, or a record that the topic does not take
    |   `-- InvalidTimestampError         a timestamp out of the topic's range
    |-- UnsupportedForMessageFormatError  transactions and idempotence need magic 2
    |-- UnsupportedCompressionTypeError   a codec that the topic's message format does not have
    |-- OffsetsOutOfOrderError            last offsets within a call that do not increase
    |-- UnexpectedAppendOffsetError       given offsets below the log end offset
    `-- LogSegmentOffsetOverflowError     an offset too far from its segment's base

Everything else is a builtin: ValueError and TypeError are the caller's mistake, OSError is the disk's. The native
code knows positions but not files: whoever opened the file wraps the call in `located`, the one place that adds a path.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    "RecordTooLargeError",
    "TransactionCoordinatorFencedError",
    "UnexpectedAppendOffsetError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedFormatError",
]


class BrokerlessError(Exception):
    """The base of every error of this package that is not a builtin."""


class _PlacedError(BrokerlessError):
    """An error with a place in a file; any part of the place may be unknown."""

    hint = ""

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
        if self.path is not None:
            what += f" at {self.path}" + ("" if self.position is None else f":{self.position}")
        elif self.position is not None:
            what += f" at position {self.position}"
        if self.base_offset is not None:
            what += f" (base_offset {self.base_offset})"
        hint = self._hint()
        return what + colon + detail + hint

    def _hint(self) -> str:
        if self.path is None or not self.hint:
            return ""
        if self.path.endswith(".log"):
            return self.hint
        cure = next((cure for name, cure in _CURES.items() if self.path.endswith(name)), "")
        return f"\nhint: {cure}" if cure else ""


# What to do about the small files of a log directory. Indexes are not among them: no read needs them.
_CURES = {
    "leader-epoch-checkpoint": "move it aside; recovering the log finds the epochs again",
    "partition.metadata": "move it aside to read; a broker needs the topic's id in it",
    "meta.properties": "move it aside to read; a broker needs the ids in it",
    "recovery-point-offset-checkpoint": "move it aside; all segments are looked at then, as Kafka does without it",
    "log-start-offset-checkpoint": "move it aside; logs start at their first segment then: deleted records come back",
    "cleaner-offset-checkpoint": "move it aside; a cleaner begins anew without it",
    "replication-offset-checkpoint": "move it aside; a high watermark is found anew",
}


class CorruptRecordError(_PlacedError):
    """The bytes break the format: framing, checksum or structure.

    Attributes:
        path: the file, None while only bytes were at hand.
        position: byte position of the batch (or index entry, or None for a text file) at fault.
        base_offset: the offset field of that batch, None if it could not be read.
        next_position: where the next batch starts, None if the framing is lost.

    >>> str(CorruptRecordError("record batch crc mismatch: stored 0a, computed 0b", position=78, base_offset=5))
    'record batch crc mismatch at position 78 (base_offset 5): stored 0a, computed 0b'
    """

    hint = '\nhint: a read can skip it and report what is lost (on corrupt: "skip"); a dump shows the batches up to it'


_RAISE_THE_CAP = "; raise max_batch_bytes to read it"
_CONVERT_FIRST = ': Convert(compression="none") in Python, with a larger max_batch_bytes, makes a log that can be read'


class UnsupportedFormatError(_PlacedError):
    """Legal Kafka that is not read here: an unknown magic or codec, a batch beyond the size cap. Same attributes."""

    hint = (
        '\nhint: a read can skip it and report what is lost (on corrupt: "skip"); '
        'see "What is supported" in the documentation'
    )

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        base_offset: int | None = None,
        next_position: int | None = None,
    ) -> None:
        # The native advice is for its own callers: a read has no such argument, and its cap stays.
        message = message.replace(_RAISE_THE_CAP, _CONVERT_FIRST)
        super().__init__(message, path=path, position=position, base_offset=base_offset, next_position=next_position)


class OffsetOutOfRangeError(BrokerlessError):
    """The offset asked for is below the log start offset or above the log end offset.

    Attributes:
        log_start_offset: the lowest offset that can be read here.
        log_end_offset: one above the highest.

    >>> import brokerless as bl
    >>> try:
    ...     bl.Log(SAMPLE).read(start_offset=1000)
    ... except bl.errors.OffsetOutOfRangeError as error:
    ...     error.log_start_offset, error.log_end_offset
    (0, 150)
    """

    def __init__(self, message: str, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(message)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments: the default would call the class with the message alone. Spark pickles errors.
        return _out_of_range, (str(self), self.log_start_offset, self.log_end_offset)


def _out_of_range(message: str, log_start_offset: int, log_end_offset: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(message, log_start_offset=log_start_offset, log_end_offset=log_end_offset)


class LogInUseError(BrokerlessError):
    """Somebody holds the lock of the log directory: a broker, or another process that writes there, or this one."""


class AppendError(_PlacedError):
    """A broker would refuse this append. The log is as it was.

    A leaf is Kafka's own answer; AppendError itself stands for what Kafka answers with "unknown server error". A broken
    checksum or framing is a CorruptRecordError.

    Attributes:
        log: the partition appended to, None while only bytes were at hand.
        path: None.
        position: byte position of the batch at fault in what was to be appended.
        base_offset: the offset field of that batch as it came, None if it is no matter of one batch.
        next_position: None.

    >>> str(RecordTooLargeError("batch is 70 bytes: max_message_bytes is 69", position=0, base_offset=0))
    'batch is 70 bytes at position 0 (base_offset 0): max_message_bytes is 69'
    """

    log: str | None = None

    def __str__(self) -> str:
        refused = super().__str__()
        return refused if self.log is None else f"{self.log}: {refused}"


class OutOfOrderSequenceError(AppendError):
    """The producer's base_sequence does not follow its last sequence: a batch is missing, or was stored long before."""


class InvalidProducerEpochError(AppendError):
    """A newer producer of the same id has been seen (Kafka's fencing): this one must not write any more."""


class InvalidTxnStateError(AppendError):
    """The batch is not part of a transaction, but its producer's transaction is open."""


class TransactionCoordinatorFencedError(AppendError):
    """The marker comes from an older transaction coordinator than one seen before."""


class RecordTooLargeError(AppendError):
    """A batch, as it came or once rebuilt with the topic's codec, is larger than `max_message_bytes`."""


class RecordBatchTooLargeError(AppendError):
    """What is appended at once is larger than `segment_bytes`."""


class InvalidRecordError(AppendError):
    """The batch's structure is wrong, or the topic does not take one of its records. None of them was taken.

    Attributes:
        record_errors: (index in the batch, reason) of each record refused; empty where it is the batch.
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
    """A timestamp is out of the range that the topic takes, or the batch claims LogAppendTime. Same attributes."""


class UnsupportedForMessageFormatError(AppendError):
    """Idempotent or transactional batches, and the topic's message format is 0 or 1."""


class UnsupportedCompressionTypeError(AppendError):
    """zstd, and the topic's message format is 0 or 1."""


class OffsetsOutOfOrderError(AppendError):
    """The batches of an append with given offsets are not in the order of their offsets."""


class UnexpectedAppendOffsetError(AppendError):
    """The first offset of an append with given offsets is below the log end offset."""


class LogSegmentOffsetOverflowError(AppendError):
    """The offsets of one append with given offsets span more than a segment can: 2^31-1."""


@contextmanager
def located(path: str) -> Iterator[None]:
    """Add `path` to an error that knows only a position.

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
