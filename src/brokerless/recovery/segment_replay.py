"""Walks over a segment in a view of a directory, for its batch headers, its recovery and its producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.io.file_window import Window
from brokerless.layout import file_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.io.file_window import Readable
    from brokerless.recovery.file_changes import Changes


def headers(file: Readable) -> Iterator[dict[str, Any]]:
    """Yield `position`, `size`, `base_offset`, `last_offset`, and `max_timestamp` of each whole batch.

    The base offset of a wrapper (magic 0 and 1) is None if its payload cannot be decompressed.
    """
    window = Window(file, 0, file.size())
    window.fill(0)
    while window.position < file.size():
        batches, consumed = _native.scan(window.data, window.position)
        yield from batches.select(["position", "size", "base_offset", "last_offset", "max_timestamp"]).to_pylist()
        window.advance(consumed)
        if not consumed and not window.fill(0):
            return


def replay(changes: Changes, base_offset: int, start_offset: int, producers: _native.Producers) -> None:
    """Advance the producer state over one segment, from the first batch that reaches `start_offset`.

    Raises:
        CorruptRecordError: a broker would not start on the segment.
    """
    name = file_names.segment_file(base_offset, file_names.LOG)
    walk = _native.ProducerReplay(producers, start_offset)
    with changes.open(name) as file:
        position = feed(walk, file)
    if walk.ended == "failed":
        raise CorruptRecordError(
            f"a broker does not start: {name} has a fault ({walk.error}). Truncate the log there",
            position=position,
        )


def feed(
    walk: _native.SegmentRecovery | _native.SegmentEnd | _native.ProducerReplay,
    file: Readable,
    position: int = 0,
    end: int | None = None,
) -> int:
    """Feed a native walk with a file from `position` to `end`, until the walk ends or needs more than the file has.

    Returns:
        The position up to which the walk has read the file.
    """
    end = file.size() if end is None else end
    window = Window(file, position, end)
    window.fill(0)
    while walk.ended is None:
        consumed = walk.feed(window.data, window.position, end)
        window.advance(consumed)
        if walk.ended is None and not window.fill(walk.needed):
            break
    return window.position
