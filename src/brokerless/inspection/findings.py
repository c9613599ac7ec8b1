"""Damage in a segment, all of it: checksums, framing, offsets and every record are checked, and the walk goes on.

What a crash leaves is told from damage: at the end of the newest segment, with no good batch behind it, a broker cuts
it off when it starts after an unclean shutdown. Zeros there were preallocated, and nothing is wrong.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.log.damage import Finding, is_lost, rows_and_findings, survey
from brokerless.log.expected_records import LOST
from brokerless.log.log import Log
from brokerless.log.segment import NO_END, Segment
from brokerless.log.split import cut_short

if TYPE_CHECKING:
    from collections.abc import Iterator

# Headers are looked into only where they are asked for; keys and values need not be copied.
_COLUMNS = ("offset", "position", "headers")


def findings(segment: Segment, *, is_clean: bool) -> Iterator[Finding]:
    """Check all of a segment, and yield what is wrong with it, in the order of the file.

    Args:
        segment: of the log as it is now.
        is_clean: its log directory was shut down cleanly: then a broker cuts nothing off.

    >>> from brokerless.log.log import Log
    >>> [finding for segment in Log(SAMPLE).segments for finding in findings(segment, is_clean=True)]
    []
    """
    with segment.open() as file:
        found = survey(
            file,
            segment.path,
            segment.base_offset,
            segment.next_base_offset,
            size := file.size(),
            is_clean=is_clean,
            limit_offset=_limit_offset(segment) if segment.is_last else None,
        )
        # Where a wrapper begins only the decoder sees.
        decoder = _native.Decoder(_COLUMNS, order=(segment.base_offset, NO_END))
        for part in rows_and_findings(found, file, segment.path, decoder):
            if isinstance(part, Finding):
                yield part
            else:
                yield from _of_records(part, segment.path)
    # Where a cleaner has merged it with this one, or this one was written on, its offsets are here.
    if segment.lost is not None and found.next_offset <= segment.lost:
        path = Segment(os.path.dirname(segment.path), segment.lost).path
        if is_lost(path):
            yield Finding("damage", path, 0, None, None, segment.lost, segment.next_base_offset, LOST)
    if not (found.parts and isinstance(found.parts[-1], Finding)) and _trusts_index(segment):
        for path, start, end, reason, _ in cut_short(segment, found.next_offset, size):
            yield Finding("damage", path, size, None, None, start, end, reason)
    # Behind damage where the log ends, nothing is known to be missing.
    if segment.is_last and not any(isinstance(part, Finding) and part.end_offset is None for part in found.parts):
        yield from _around(segment)


def _limit_offset(segment: Segment) -> int | None:
    """Return where the log ends, if its last batch was moved above that; see `Log.limit_offset`."""
    with contextlib.suppress(ValueError):
        return Log(os.path.dirname(segment.path)).limit_offset
    return None


def _trusts_index(segment: Segment) -> bool:
    """Return whether the segment's index certainly belongs to it; see `Log.trusts_index`."""
    # A file may lie where no partition is.
    with contextlib.suppress(ValueError):
        return Log(os.path.dirname(segment.path)).trusts_index(segment)
    return True


def _around(segment: Segment) -> Iterator[Finding]:
    """Yield what other files tell of behind the newest segment of a log, or before its first one, and is not there."""
    # A file may lie where no partition is.
    with contextlib.suppress(ValueError):
        log = Log(os.path.dirname(segment.path))
        lost = {one.lost for one in log.segments}
        older = {one.path for one in log.segments[:-1]}
        for path, start, end, reason, position in log.missing:
            if start not in lost and path not in older:
                yield Finding("damage", path, position, None, None, start, end, reason)


def _of_records(rows: pa.RecordBatch, path: str) -> Iterator[Finding]:
    """Yield the batches with records whose offsets do not rise. Nothing is lost: they are read."""
    offsets, positions = rows["offset"], rows["position"]
    is_wrong = pc.and_(pc.less_equal(offsets[1:], offsets[:-1]), pc.equal(positions[1:], positions[:-1]))
    if pc.any(is_wrong).as_py():
        columns = {"position": positions[1:], "offset": offsets[1:], "before": offsets[:-1]}
        wrong = pa.table(columns).filter(is_wrong).to_pylist()
        for first in {row["position"]: row for row in reversed(wrong)}.values():
            position, offset = first["position"], first["offset"]
            reason = f"record {offset} is behind record {first['before']}"
            yield Finding("order", path, position, offset, position, offset, offset, reason)
