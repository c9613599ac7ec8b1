"""`Verdicts`: which records of which segments stay, and no more of it in memory than was asked for.

A segment's verdict is a bit for each of its records, in the order of the file, the first record the lowest bit of the
first byte; bits behind the last byte are 0. Verdicts of several ranges of keys are put together by OR.
"""

from __future__ import annotations

import tempfile
from typing import Self

from brokerless.io import disk, storage

_PARTS = ("keep", "stamp", "txnindex")


class Verdicts:
    r"""Verdicts by segment. Picklable; to be closed.

    Args:
        max_bytes: beyond these they are in a temporary file.

    >>> with Verdicts() as verdicts:
    ...     verdicts.add(42, b"\x01", b"")
    ...     verdicts.add(42, b"\x80", b"", b"one aborted transaction")
    ...     verdicts.of(42)
    (b'\x81', b'', b'one aborted transaction')
    """

    def __init__(self, max_bytes: int = 1 << 20) -> None:
        self._max_bytes = max_bytes
        self._file = tempfile.SpooledTemporaryFile(max_bytes)  # noqa: SIM115 - closed by `close`
        self._places: dict[int, tuple[tuple[int, int], ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was added."""
        self._file.close()

    def add(self, base_offset: int, keep: bytes, stamp: bytes, txnindex: bytes = b"") -> None:
        """Add to what is said of a segment.

        Args:
            base_offset: the segment's.
            keep: the bits of the records that stay.
            stamp: of those, the bits of the ones for which their batch gets a delete horizon.
            txnindex: the entries of its new transaction index; what was given last holds.
        """
        if base_offset in self._places:
            known_keep, known_stamp, known_txnindex = self.of(base_offset)
            keep, stamp, txnindex = _either(known_keep, keep), _either(known_stamp, stamp), txnindex or known_txnindex
        places = []
        old = self._places.get(base_offset, ((0, 0),) * 3)
        for (position, length), content in zip(old, (keep, stamp, txnindex), strict=True):
            at = position if len(content) <= length else self._file.seek(0, 2)
            self._file.seek(at)
            self._file.write(content)
            places.append((at, len(content)))
        self._places[base_offset] = tuple(places)

    def of(self, base_offset: int) -> tuple[bytes, bytes, bytes]:
        """Return what `add` was given for a segment, all of it together.

        Raises:
            KeyError: nothing was.
        """
        contents = []
        for position, length in self._places[base_offset]:
            self._file.seek(position)
            contents.append(self._file.read(length))
        return contents[0], contents[1], contents[2]

    def save(self, directory: str) -> None:
        """Write all of it into a directory, three files a segment."""
        for base_offset in self._places:
            for part, content in zip(_PARTS, self.of(base_offset), strict=True):
                with disk.create(_path(directory, base_offset, part)) as file:
                    file.append(content)

    def add_saved(self, directory: str, base_offset: int) -> None:
        """Add what was saved in a directory of a segment."""
        keep, stamp, txnindex = (storage.read_all(_path(directory, base_offset, part)) for part in _PARTS)
        self.add(base_offset, keep, stamp, txnindex)


def _path(directory: str, base_offset: int, part: str) -> str:
    return f"{directory}/{base_offset:020d}.{part}"


def _either(one: bytes, other: bytes) -> bytes:
    together = int.from_bytes(one, "little") | int.from_bytes(other, "little")
    return together.to_bytes(max(len(one), len(other)), "little")


def count(bits: bytes) -> int:
    r"""Return how many bits are set.

    >>> count(b"\x81\x01")
    3
    """
    return int.from_bytes(bits, "little").bit_count()
