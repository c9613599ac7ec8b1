"""The file in a partition directory that records the offsets lost by a repair. Checks do not report these gaps.

Brokers and reads ignore the file. When a broker deletes the topic, the file is deleted with the directory.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.wording import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "brokerless-lost-offsets.json"

_VERSION = 1
_MAX_OFFSET = (1 << 63) - 1


def recorded(directory: str) -> list[tuple[int, int]]:
    """Return the ranges [start, end) in the file of a partition directory, ascending; none without the file.

    Raises:
        CorruptRecordError: the file cannot be read, or has a later version.
    """
    path = f"{directory}/{FILE}"
    with located(path), suppress(FileNotFoundError):
        return parse(storage.read_own(path))
    return []


def without(ranges: Iterable[tuple[int, int]], gone: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Subtract ranges from other ranges. The ranges of each list do not overlap.

    >>> without([(0, 10), (20, 30)], [(3, 5), (8, 25)])
    [(0, 3), (5, 8), (25, 30)]
    """
    left = []
    taken = sorted(gone)
    for start, end in ranges:
        begin = start
        # Ranges that end at the start or before it do not matter.
        for low, high in islice(taken, bisect_right(taken, start, key=lambda one: one[1]), None):
            if low >= end:
                break
            if begin < low:
                left.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            left.append((begin, end))
    return left


def parse(content: bytes) -> list[tuple[int, int]]:
    r"""Parse the file and return the ranges [start, end), ascending.

    Raises:
        CorruptRecordError: the file cannot be read, or has a later version.

    >>> parse(content([(7, 9), (3, 5), (4, 6)]))
    [(3, 6), (7, 9)]
    """
    try:
        found = json.loads(content)
        if found["version"] != _VERSION:
            raise ValueError(f"found version {excerpt(found['version'])}, expected {_VERSION}")
        ranges = [(int(start), int(end)) for start, end in found["ranges"]]
        bounds = [bound for each in ranges for bound in each]
        if any(before > after for before, after in pairwise([0, *bounds, _MAX_OFFSET])):
            raise ValueError("the offsets do not ascend")
        return ranges
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptRecordError(f"the record of lost offsets cannot be read: {error}") from error


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in ascending order. Merge overlapping and adjacent ranges.

    >>> merged([(7, 9), (3, 5), (4, 6)])
    [(3, 6), (7, 9)]
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def content(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of the file. Merge overlapping and adjacent ranges."""
    return json.dumps({"version": _VERSION, "ranges": merged(ranges)}, separators=(",", ":")).encode() + b"\n"
