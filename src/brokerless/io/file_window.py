"""A file read through one reused buffer, so that memory does not grow with the log.

`Window` holds the bytes not consumed yet, for native calls that return the numbers of bytes that they consumed and
need. `sweep` is for native calls that read headers and return the position to continue at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable


SIZE = 2 << 20
# If batch bodies are larger than the leap, headers are read one by one. Otherwise it is faster to read everything than
# to seek.
_SWEEP_MIN, _SWEEP_MAX, _LEAP = 1 << 12, 1 << 20, 1 << 16
# Fewer bytes than any batch has, so that this many more bytes never complete a second batch.
_STEP = 16
HEADER = _native.BATCH_OVERHEAD
"""The maximum length of a batch header in bytes."""
# A larger batch is refused: its length is probably damaged, and a read would allocate that much memory.
MAX_BATCH = 1 << 30
# The limit for a probe. A damaged index may point at bytes that claim to be a batch of 2 GiB.
_MAX_PROBE = 16 << 20


class Readable(Protocol):
    """The interface of a file to read: a `storage.File` or a substitute."""

    def size(self) -> int:
        """Return the current length in bytes."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on and return the number of bytes read."""

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position` on."""


class Window:
    """A buffer with the bytes of a file from `position` on.

    The window reads up to `end`. If a batch starts before `end` and ends after it, the window reads to the end of that
    batch.
    """

    def __init__(self, file: Readable, position: int, end: int, length: int = SIZE) -> None:
        self.position = position
        self._file = file
        self._end = end
        self._size = file.size()
        self._length = length
        self._buffer = memoryview(bytearray(max(0, min(length, end - position))))
        self._from = self._to = 0

    @property
    def data(self) -> memoryview:
        """The buffered bytes, from `position` on. Valid until the next `fill`."""
        return self._buffer[self._from : self._to]

    def advance(self, count: int) -> None:
        """Consume the first `count` bytes."""
        self.position += count
        self._from += count

    def seek(self, position: int) -> None:
        """Move to a later position."""
        self.position, self._from = position, min(self._to, self._from + position - self.position)

    def fill(self, needed: int) -> bool:
        """Read until `needed` bytes are buffered (0: read some more); return False if the file has too few."""
        held = self._to - self._from
        room = self._end - self.position
        length = max(needed, min(max(self._length, 2 * held), room))
        if length <= held:
            length = held + _STEP
        length = min(length, self._size - self.position)
        if length <= held or length < needed:
            return False
        _check_length(length, self.position)
        buffer = self._buffer
        # Replace a buffer that grew for a large batch by one of the normal length.
        if length > len(buffer) or len(buffer) > self._length >= length:
            buffer = memoryview(bytearray(max(length, min(self._length, self._end - self.position))))
        buffer[:held] = self.data
        self._buffer, self._from = buffer, 0
        self._to = held + self._file.read_into(self.position + held, buffer[held:length])
        return self._to >= max(needed, held + 1)


def sweep(file: Readable, position: int, end: int, step: Callable[[memoryview, int, int], int]) -> None:
    """Call `step(data, position, end)` from `position` on, each time at the position that the last call returned.

    The calls end when `step` returns `end`, or requests bytes beyond the end of the file.
    """
    buffer = memoryview(bytearray(min(_SWEEP_MAX, max(0, end - position))))
    length = _SWEEP_MIN
    while position < end:
        length = min(length, end - position)
        if length > len(buffer):
            _check_length(length, position)
            buffer = memoryview(bytearray(length))
        count = file.read_into(position, buffer[:length])
        if count < length:  # truncated during the read
            end = position + count
        wanted = step(buffer[:count], position, end)
        if wanted == position:
            if count < length or position + length == end:
                return
            length *= 4
        elif wanted > position + length + _LEAP:
            length = _SWEEP_MIN
        else:
            length = min(2 * length, _SWEEP_MAX)
        position = wanted


def is_zero_from(file: Readable, position: int) -> bool:
    """Return whether all bytes from `position` to the end of a file are zeros."""
    zeros = bytes(_LEAP)
    buffer = memoryview(bytearray(zeros))
    while count := file.read_into(position, buffer):
        if bytes(buffer[:count]) != zeros[:count]:
            return False
        position += count
    return True


def _check_length(length: int, position: int) -> None:
    if length > MAX_BATCH:
        raise UnsupportedFormatError(f"batch is too large: {length} bytes, at most {MAX_BATCH}", position=position)


def batch_at(
    file: Readable, position: int, *, check_crcs: bool = False, max_bytes: int = _MAX_PROBE
) -> dict[str, Any] | None:
    """Return the columns of `_native.scan` for the batch at `position`; None without a batch of at most `max_bytes`."""
    length = 1 << 16
    while length <= max_bytes:
        data = file.read(position, length)
        try:
            batches, consumed = _native.scan(data, position, check_crcs=check_crcs, max_batches=1)
        except (CorruptRecordError, UnsupportedFormatError):
            return None
        if consumed:
            return batches.to_pylist()[0]
        if len(data) < length:
            return None
        length *= 4
    return None
