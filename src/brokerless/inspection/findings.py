"""All damage in a segment: a check of checksums, framing, offsets and every record that continues after damage.

The traces of a crash are not damage. They lie at the end of the newest segment, with no sound batch after them, and a
broker truncates them when it starts after an unclean shutdown. Zeros there are preallocated space.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.log.damage import Defect, Run, Survey, is_lost, rows_and_defects, survey
from brokerless.log.expected_records import LOST
from brokerless.log.log import Log
from brokerless.log.segment import NO_END, Segment, whole_batches
from brokerless.log.split import cut_short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.io.storage import File

# Headers are validated only if they are decoded. Keys and values need not be copied.
_COLUMNS = ("offset", "position", "headers")
# Index entries hold 31 bits: no segment reaches further from its base offset.
_REACH = 1 << 31


class Contents(Protocol):
    """What takes the sound contents of a segment while `findings` checks it."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the rows."""

    def rows(self, rows: pa.RecordBatch) -> None:
        """Take rows."""

    def batches(self, batches: pa.RecordBatch) -> None:
        """Take the headers of batches, as `_native.scan` returns them."""


def findings(
    segment: Segment, *, is_clean: bool, contents: Contents | None = None, decodes: bool = True
) -> Iterator[Defect]:
    """Check a whole segment and yield its defects in file order.

    Args:
        segment: a segment of a freshly listed log.
        is_clean: whether the log directory was shut down cleanly. A broker then truncates nothing.
        contents: takes what is sound.
        decodes: whether to decode records. Otherwise only checksums, framing and offsets of batches are checked.

    >>> from brokerless.log.log import Log
    >>> [finding for segment in Log(SAMPLE).segments for finding in findings(segment, is_clean=True)]
    []
    """
    with segment.open() as file:
        size = file.size()
        limit = _limit_offset(segment) if segment.is_last else None
        taken = 0
        found = None
        if contents is not None and not decodes:
            taken, next_offset = _sound_start(segment, file, size, limit, contents)
            if taken == size:
                found = Survey([Run(0, size, segment.base_offset, next_offset)] if size else [], next_offset)
        if found is None:
            found = survey(
                file,
                segment.path,
                segment.base_offset,
                segment.next_base_offset,
                size,
                is_clean=is_clean,
                limit_offset=limit,
            )
            yield from _of_runs(segment, file, found, contents, taken, decodes=decodes)
    # A cleaner may have merged the lost segment into this one, or this one may have grown: then the offsets are here.
    if segment.lost is not None and found.next_offset <= segment.lost:
        path = Segment(os.path.dirname(segment.path), segment.lost).path
        if is_lost(path):
            yield Defect("damage", path, 0, None, None, segment.lost, segment.next_base_offset, LOST, "segment-missing")
    if not (found.parts and isinstance(found.parts[-1], Defect)) and _trusts_index(segment):
        for path, start, end, reason, _ in cut_short(segment, found.next_offset, size):
            yield Defect("damage", path, size, None, None, start, end, reason, "segment-cut")
    # If damage hides the end of the log, nothing more is known to be missing.
    if segment.is_last and not any(isinstance(part, Defect) and part.end_offset is None for part in found.parts):
        yield from _around(segment)


def _sound_start(
    segment: Segment, file: File, size: int, limit_offset: int | None, contents: Contents
) -> tuple[int, int]:
    """Pass on batches from the start of a segment as long as a survey would find nothing, in a single pass.

    Returns:
        The position behind them, and the offset. Batches of magic 0 and 1 are left to the survey.
    """
    position, next_offset = 0, segment.base_offset
    limit = segment.next_base_offset or limit_offset or segment.base_offset + _REACH
    try:
        with located(segment.path):
            for batches, end in whole_batches(file, 0, size, check_crcs=True):
                first, last = batches["base_offset"], batches["last_offset"]
                ends = pa.concat_arrays([pa.array([next_offset - 1], pa.int64()), last[:-1]])
                conditions: list[Any] = [
                    batches["is_valid"],
                    pc.equal(batches["magic"], pa.scalar(2, pa.int8())),
                    pc.greater(first, ends),
                    pc.less(pc.subtract(first, ends), pa.scalar(_REACH, pa.int64())),
                    pc.greater_equal(last, first),
                    pc.less(last, pa.scalar(limit, pa.int64())),
                ]
                if not all(pc.all(condition).as_py() for condition in conditions):
                    break
                contents.batches(batches)
                position, next_offset = end, last[-1].as_py() + 1
    except (CorruptRecordError, UnsupportedFormatError):
        # The survey tells what it is.
        pass
    return position, next_offset


def _of_runs(
    segment: Segment, file: File, found: Survey, contents: Contents | None, taken: int, *, decodes: bool
) -> Iterator[Defect]:
    """Yield the findings of a survey and those in the records of its runs, and pass on the runs' contents.

    Batches before the position `taken` were passed on.
    """
    columns = _COLUMNS if contents is None else tuple(dict.fromkeys((*_COLUMNS, *contents.columns)))
    # Only the decoder sees the first offset of a wrapper.
    decoder = _native.Decoder(columns, order=(segment.base_offset, NO_END))
    parts = rows_and_defects(found, file, segment.path, decoder) if decodes else found.parts
    for part in parts:
        if isinstance(part, Defect):
            yield part
        elif not isinstance(part, Run):
            yield from _of_records(part, segment.path)
            if contents is not None:
                contents.rows(part)
    runs = [part for part in found.parts if isinstance(part, Run)]
    if contents is not None:
        for run in runs:
            start = max(run.position, taken)
            for batches, _ in whole_batches(file, start, run.end_position) if start < run.end_position else ():
                contents.batches(batches)


def _limit_offset(segment: Segment) -> int | None:
    """Return the log end offset if the last batch was moved above it; see `Log.limit_offset`."""
    with contextlib.suppress(ValueError):
        return Log(os.path.dirname(segment.path)).limit_offset
    return None


def _trusts_index(segment: Segment) -> bool:
    """Return whether the segment's index certainly belongs to it; see `Log.trusts_index`."""
    # The file may lie outside a partition directory.
    with contextlib.suppress(ValueError):
        return Log(os.path.dirname(segment.path)).trusts_index(segment)
    return True


def _around(segment: Segment) -> Iterator[Defect]:
    """Yield the records missing after the newest segment or before the first one, according to other files."""
    # The file may lie outside a partition directory.
    with contextlib.suppress(ValueError):
        log = Log(os.path.dirname(segment.path))
        lost = {other.lost for other in log.segments}
        older = {other.path for other in log.segments[:-1]}
        for path, start, end, reason, position in log.missing:
            if start not in lost and path not in older:
                code = "segment-missing" if reason == LOST else "records-missing"
                yield Defect("damage", path, position, None, None, start, end, reason, code)


def _of_records(rows: pa.RecordBatch, path: str) -> Iterator[Defect]:
    """Yield a finding for each batch in which record offsets do not rise. No record is lost: reads return them."""
    offsets, positions = rows["offset"], rows["position"]
    is_wrong = pc.and_(pc.less_equal(offsets[1:], offsets[:-1]), pc.equal(positions[1:], positions[:-1]))
    if pc.any(is_wrong).as_py():
        columns = {"position": positions[1:], "offset": offsets[1:], "before": offsets[:-1]}
        wrong = pa.table(columns).filter(is_wrong).to_pylist()
        for first in {row["position"]: row for row in reversed(wrong)}.values():
            position, offset = first["position"], first["offset"]
            reason = f"record {offset} follows record {first['before']}"
            yield Defect("order", path, position, offset, position, offset, offset, reason, "record-order")
