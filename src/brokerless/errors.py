"""What can go wrong, one class a fact.

BrokerlessError
|-- CorruptRecordError        the bytes break the format
|-- UnsupportedFormatError    legal Kafka that is not read here (unknown magic, codec, size cap)
`-- OffsetOutOfRangeError     the offset asked for is not in the log

Everything else is a builtin: ValueError and TypeError are the caller's mistake, OSError is the disk's. The native
code knows positions but not files: whoever opened the file wraps the call in `located`, the one place that adds a path.
"""

from __future__ import annotations

import difflib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
        hint = self.hint if self.path is not None and self.path.endswith(".log") else ""
        return what + colon + detail + hint


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


class UnsupportedFormatError(_PlacedError):
    """Legal Kafka that is not read here: an unknown magic or codec, a batch beyond the size cap. Same attributes."""

    hint = (
        '\nhint: a read can skip it and report what is lost (on corrupt: "skip"); '
        'see "What is supported" in the documentation'
    )


class OffsetOutOfRangeError(BrokerlessError):
    """The offset asked for is below the log start offset or above the log end offset.

    Attributes:
        log_start_offset: the lowest offset that can be read here.
        log_end_offset: one above the highest.
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
    except _PlacedError as error:
        if error.path is None:
            error.path = os.fspath(path)
        raise


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """Build the ValueError for a name that does not exist, with the nearest one that does.

    >>> unknown("topic", "ordres", ["orders", "users"])
    ValueError("unknown topic 'ordres': did you mean 'orders'?")
    """
    names = sorted(set(known))
    nearest = difflib.get_close_matches(name, names, n=1)
    if nearest:
        return ValueError(f"unknown {kind} {name!r}: did you mean {nearest[0]!r}?")
    some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return ValueError(f"unknown {kind} {name!r}: there is {some or 'none'}")
