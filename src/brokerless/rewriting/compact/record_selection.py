"""`Verdicts`: which records of each segment stay, in a limited amount of memory.

The verdict of a segment is a bit for each of its records in the order of the file. The first record is the lowest bit
of the first byte; bits beyond the last byte are 0. Verdicts of several ranges of keys are merged by OR.
"""

from __future__ import annotations

import tempfile
from typing import Self

from brokerless.io import disk, storage

_PARTS = ("keep", "stamp", "txnindex")


class Verdicts:
    r"""The verdicts of segments. Picklable; must be closed.

    Args:
        max_bytes: larger verdicts go to a temporary file.

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
        """Delete the verdicts."""
        self._file.close()

    def add(self, base_offset: int, keep: bytes, stamp: bytes, txnindex: bytes = b"") -> None:
        """Add to the verdict of a segment.

        Args:
            base_offset: the segment's base offset.
            keep: the bits of the records that stay.
            stamp: the bits of the records that stay and give their batch a delete horizon.
            txnindex: the entries of the new transaction index; they replace earlier entries, unless they are empty.
        """
        if base_offset in self._places:
            known_keep, known_stamp, known_txnindex = self.of(base_offset)
            keep, stamp, txnindex = _or(known_keep, keep), _or(known_stamp, stamp), txnindex or known_txnindex
        places = []
        old = self._places.get(base_offset, ((0, 0),) * 3)
        for (position, length), content in zip(old, (keep, stamp, txnindex), strict=True):
            at = position if len(content) <= length else self._file.seek(0, 2)
            self._file.seek(at)
            self._file.write(content)
            places.append((at, len(content)))
        self._places[base_offset] = tuple(places)

    def of(self, base_offset: int) -> tuple[bytes, bytes, bytes]:
        """Return the merged verdict of a segment: `keep`, `stamp` and `txnindex`.

        Raises:
            KeyError: the segment has no verdict.
        """
        contents = []
        for position, length in self._places[base_offset]:
            self._file.seek(position)
            contents.append(self._file.read(length))
        return contents[0], contents[1], contents[2]

    def save(self, directory: str) -> None:
        """Write the verdicts into a directory, three files for each segment."""
        for base_offset in self._places:
            for part, content in zip(_PARTS, self.of(base_offset), strict=True):
                with disk.create(_path(directory, base_offset, part)) as file:
                    file.append(content)

    def add_saved(self, directory: str, base_offset: int) -> None:
        """Add the verdict of a segment that was saved in a directory."""
        keep, stamp, txnindex = (storage.read_all(_path(directory, base_offset, part)) for part in _PARTS)
        self.add(base_offset, keep, stamp, txnindex)


def _path(directory: str, base_offset: int, part: str) -> str:
    return f"{directory}/{base_offset:020d}.{part}"


def _or(left: bytes, right: bytes) -> bytes:
    bits = int.from_bytes(left, "little") | int.from_bytes(right, "little")
    return bits.to_bytes(max(len(left), len(right)), "little")


def count(bits: bytes) -> int:
    r"""Return the number of set bits.

    >>> count(b"\x81\x01")
    3
    """
    return int.from_bytes(bits, "little").bit_count()
