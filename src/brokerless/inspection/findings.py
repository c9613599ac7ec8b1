"""All damage in a segment: a check of checksums, framing, offsets and records, which continues after damage.

A crash leaves traces that are not damage: incomplete bytes at the end of the newest segment, with no sound batch after
them. A broker truncates them when it starts after an unclean shutdown. Zeros there are preallocated space.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from brokerless import _native
from brokerless.errors import located
from brokerless.log.defect import Defect
from brokerless.log.expected_end import LOST
from brokerless.log.partition_files import PartitionFiles
from brokerless.log.segment import NO_END, Segment, whole_batches
from brokerless.log.survey import Run, cut_short, is_lost, rows_and_defects, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.io.storage import File
    from brokerless.log.log import Log
    from brokerless.log.survey import Survey

# Record headers are in the list because only decoded headers are validated. Keys and values need not be copied.
_COLUMNS = ("offset", "position", "headers")
_OF_A_CRASH = ("tail-torn", "tail-zeros")


Count: TypeAlias = "Callable[[File, Run], None]"
"""Counts the contents of a run in an open file."""


class Contents(Protocol):
    """A receiver of the sound contents of a segment while `findings` checks it."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the rows."""

    def rows(self, rows: pa.RecordBatch) -> None:
        """Receive rows."""

    def batches(self, batches: pa.RecordBatch) -> None:
        """Receive the headers of batches, as `_native.scan` returns them."""


def findings(
    segment: Segment,
    *,
    is_clean: bool,
    contents: Contents | None = None,
    count: Count | None = None,
    decodes: bool = True,
    log: Log | None = None,
) -> Iterator[Defect]:
    """Check a whole segment and yield its defects in file order.

    Args:
        segment: a segment of a log whose files were just listed.
        is_clean: whether the log directory was shut down cleanly. If so, a broker truncates nothing.
        contents: the receiver of the sound contents.
        count: called with the file and each of its runs.
        decodes: whether to decode records. Otherwise only checksums, framing and offsets of batches are checked.
        log: the segment's log; None: list the segment's directory.

    >>> from brokerless.log.log import Log
    >>> [finding for segment in Log(SAMPLE).segments for finding in findings(segment, is_clean=True)]
    []
    """
    with segment.open() as file:
        size = file.size()
        found = survey(
            file,
            segment.path,
            segment.base_offset,
            segment.next_base_offset,
            size,
            is_clean=is_clean,
            limit_offset=exceeded_end(segment, log),
        )
        if count is not None:
            with located(segment.path):
                for part in found.parts:
                    if isinstance(part, Run):
                        count(file, part)
        yield from _of_runs(segment, file, found, contents, decodes=decodes)
    if is_clean and segment.is_last:
        yield from _zeros(segment, found, size)
    yield from missing_records(segment, found, size, log)


def _zeros(segment: Segment, found: Survey, size: int) -> Iterator[Defect]:
    """Yield a finding for zeros after the last batch. A broker that closes a log cuts off preallocated space."""
    last = found.parts[-1] if found.parts else None
    end = last.end_position if isinstance(last, Run) else 0
    if end < size and not isinstance(last, Defect):
        offset = found.next_offset
        yield Defect(segment.path, end, offset, offset, zeros_in_words(end, size), "tail-zeros")


def zeros_in_words(end: int, size: int) -> str:
    """Return the explanation for zeros after the last batch.

    >>> zeros_in_words(552, 560)
    'the batches end at 552, and zeros follow up to 560'
    """
    return f"the batches end at {end}, and zeros follow up to {size}"


def missing_records(segment: Segment, found: Survey, size: int, log: Log | None = None) -> Iterator[Defect]:
    """Yield the records that a segment, or its log, lacks according to other files.

    Args:
        segment: the segment.
        found: the segment's sound batches and damage.
        size: the length of its `.log`.
        log: the segment's log; None: list the segment's directory.
    """
    # If a cleaner has merged the lost segment into this one, or this one has grown, this segment has the offsets.
    if segment.lost is not None and found.next_offset <= segment.lost:
        path = Segment(os.path.dirname(segment.path), segment.lost).path
        if is_lost(path):
            yield Defect(path, 0, segment.lost, segment.next_base_offset, LOST, "segment-missing")
    if not (found.parts and isinstance(found.parts[-1], Defect)):
        missing = list(cut_short(segment, found.next_offset, size))
        if missing and _trusts_index(segment, log):
            yield from missing
    # If damage hides the end of the log, other missing records are not known. What a crash leaves hides nothing.
    damage = [part for part in found.parts if isinstance(part, Defect) and part.code not in _OF_A_CRASH]
    if segment.is_last and not any(part.end_offset is None for part in damage):
        yield from _around(segment, log)


def _of_runs(
    segment: Segment, file: File, found: Survey, contents: Contents | None, *, decodes: bool
) -> Iterator[Defect]:
    """Yield the findings of a survey and of the records in its runs, and pass the runs' contents on."""
    columns = _COLUMNS if contents is None else tuple(dict.fromkeys((*_COLUMNS, *contents.columns)))
    # Only the decoder sees the first offset of a wrapper.
    decoder = _native.Decoder(columns, order=(segment.base_offset, NO_END))
    headers = iter(()) if contents is None else _headers(file, found)
    ahead = next(headers, None)
    out_of_order = -1
    for part in rows_and_defects(found, file, segment.path, decoder) if decodes else found.parts:
        if isinstance(part, Defect):
            yield part
        elif not isinstance(part, Run):
            for defect in _of_records(part, segment.path):
                # A large batch comes in several parts.
                if defect.position > out_of_order:
                    yield defect
                out_of_order = max(out_of_order, defect.position)
            if contents is not None:
                contents.rows(part)
                # Pass batches on soon after their rows, so that `contents` need not remember the rows of a whole
                # segment.
                last = part["position"][-1].as_py()
                while ahead is not None and ahead["position"][-1].as_py() < last:
                    contents.batches(ahead)
                    ahead = next(headers, None)
    while contents is not None and ahead is not None:
        contents.batches(ahead)
        ahead = next(headers, None)


def _headers(file: File, found: Survey) -> Iterator[pa.RecordBatch]:
    for part in found.parts:
        if isinstance(part, Run):
            for batches, _ in whole_batches(file, part.position, part.end_position):
                yield batches


def _files_around(segment: Segment, log: Log | None) -> PartitionFiles:
    """Return the files of the whole directory.

    Raises:
        ValueError: the file lies outside a partition directory.
    """
    return PartitionFiles(os.path.dirname(segment.path)) if log is None or log.files.is_file else log.files


def exceeded_end(segment: Segment, log: Log | None = None) -> int | None:
    """Return the true log end offset if damage moved the last batch above it; see `PartitionFiles.exceeded_end`."""
    if segment.is_last:
        with contextlib.suppress(ValueError):
            return _files_around(segment, log).exceeded_end
    return None


def _trusts_index(segment: Segment, log: Log | None) -> bool:
    """Return whether the segment's index certainly belongs to it; see `PartitionFiles.trusts_index`."""
    # The file may lie outside a partition directory.
    with contextlib.suppress(ValueError):
        return _files_around(segment, log).trusts_index(segment)
    return True


def _around(segment: Segment, log: Log | None) -> Iterator[Defect]:
    """Yield the records missing after the newest segment or before the first one, according to other files."""
    # The file may lie outside a partition directory.
    with contextlib.suppress(ValueError):
        whole = _files_around(segment, log)
        lost = {other.lost for other in whole.segments}
        older = {other.path for other in whole.segments[:-1]}
        for missing in whole.missing:
            if missing.start_offset not in lost and missing.path not in older:
                yield missing


def _of_records(rows: pa.RecordBatch, path: str) -> Iterator[Defect]:
    """Yield a finding for each batch in which record offsets do not rise. No record is lost: reads return them."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import at every start of the command

    offsets, positions = rows["offset"], rows["position"]
    is_wrong = pc.and_(pc.less_equal(offsets[1:], offsets[:-1]), pc.equal(positions[1:], positions[:-1]))
    if pc.any(is_wrong).as_py():
        columns = {"position": positions[1:], "offset": offsets[1:], "before": offsets[:-1]}
        wrong = pa.RecordBatch.from_pydict(columns).filter(is_wrong)
        # Report only the first record of each batch, because all records of a batch may be wrong.
        is_next = pc.not_equal(wrong["position"][1:], wrong["position"][:-1])
        is_first: Any = pa.concat_arrays([pa.array([True]), is_next])
        for row in wrong.filter(is_first).to_pylist():
            position, offset = row["position"], row["offset"]
            reason = f"record {offset} follows record {row['before']}"
            yield Defect(path, position, offset, offset, reason, "record-order", offset, position)
