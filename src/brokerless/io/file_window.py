"""A file seen through one buffer that is used again and again: memory does not grow with the log.

`Window` holds the bytes that are not consumed yet, for natives that say how many they took and how many they need.
`sweep` is for natives that look at headers and say which position they want next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable


SIZE = 2 << 20
# Where bodies are larger than the leap, headers are read one by one; else reading all is faster than seeking.
_SWEEP_MIN, _SWEEP_MAX, _LEAP = 1 << 12, 1 << 20, 1 << 16
# Fewer bytes than any batch has: asking for so many more never brings in a second one.
_STEP = 16
HEADER = _native.BATCH_OVERHEAD
"""Bytes that a batch's header takes at most."""
# A batch larger than this is not read: its length is more likely damage, and would be taken as memory.
MAX_BATCH = 1 << 30
# A damaged index may point at bytes that claim to be a batch of 2 GiB: then it is not believed.
_MAX_PROBE = 16 << 20


class Readable(Protocol):
    """What is read here: a `storage.File`, or what stands in for one."""

    def size(self) -> int:
        """Return its length in bytes, now."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on and return how many bytes there were."""

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position` on."""


class Window:
    """The bytes of a file from `position` on, as far as they are in memory.

    Reads up to `end` only, unless a batch that starts before it goes on: then exactly as far as that batch.
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
        """What is there, `position` first. Valid until the next `fill`."""
        return self._buffer[self._from : self._to]

    def advance(self, count: int) -> None:
        """Let go of the first `count` bytes."""
        self.position += count
        self._from += count

    def seek(self, position: int) -> None:
        """Go on at a later position."""
        self.position, self._from = position, min(self._to, self._from + position - self.position)

    def fill(self, needed: int) -> bool:
        """Read on until there are `needed` bytes (0: not known, some more); False if there are not as many."""
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
        # A buffer that once grew for a large batch is given back.
        if length > len(buffer) or len(buffer) > self._length >= length:
            buffer = memoryview(bytearray(max(length, min(self._length, self._end - self.position))))
        buffer[:held] = self.data
        self._buffer, self._from = buffer, 0
        self._to = held + self._file.read_into(self.position + held, buffer[held:length])
        return self._to >= max(needed, held + 1)


def sweep(file: Readable, position: int, end: int, step: Callable[[memoryview, int, int], int]) -> None:
    """Feed `step(data, position, end)` from `position` on, each time with the position that it returned.

    Ends when it returns `end`, or wants bytes that the file does not have.
    """
    buffer = memoryview(bytearray(min(_SWEEP_MAX, max(0, end - position))))
    length = _SWEEP_MIN
    while position < end:
        length = min(length, end - position)
        if length > len(buffer):
            _check_length(length, position)
            buffer = memoryview(bytearray(length))
        count = file.read_into(position, buffer[:length])
        if count < length:  # truncated while we read
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
    """Tell whether there is nothing but zeros from `position` to the end of a file."""
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
    """Return the columns of `_native.scan` for the batch at `position`, None if there is none below `max_bytes`."""
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
