"""The record of which offsets a repair could not keep, in the partition's directory: a check takes these gaps as known.

Brokers and reads ignore the file. It goes with the directory when a broker removes the topic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "brokerless-lost-offsets.json"

_VERSION = 1


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
            raise ValueError(f"found version {found['version']}, expected {_VERSION}")
        return [(int(start), int(end)) for start, end in found["ranges"]]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptRecordError(f"the record of lost offsets cannot be read: {error}") from error


def content(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of the file, with overlapping and adjacent ranges as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return json.dumps({"version": _VERSION, "ranges": merged}, separators=(",", ":")).encode() + b"\n"
