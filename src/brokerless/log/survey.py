"""Sound and damaged ranges of a segment, and the offsets lost between them: checks and reads share these rules.

A batch is sound if its checksum is right and its offsets follow those before it. A damaged batch's header gives its
length. If a sound batch starts where the damaged batch would end, scanning continues there. If not, the file is
searched byte by byte for a sound batch. The search has a budget, so that crafted bytes cannot prolong it.

No checksum covers base offsets. If batches contradict each other, as few as possible are dropped.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.errors import located
from brokerless.io import storage
from brokerless.layout import file_names
from brokerless.log.defect import Defect
from brokerless.log.expected_end import cut_short_in_words
from brokerless.log.segment import whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from brokerless.io.file_window import Readable
    from brokerless.log.segment import Segment

# The read size after damage, small because more damage may be near.
_NEAR = 1 << 18


class Run(NamedTuple):
    """Consecutive sound batches, whose offsets rise from `first_offset` up to, but not including, `next_offset`."""

    position: int
    end_position: int
    first_offset: int
    next_offset: int


class Survey(NamedTuple):
    """The runs of a segment and the defects between them, in file order, and the offset after the last run."""

    parts: list[Run | Defect]
    next_offset: int

    def within(self, start_offset: int, end_offset: int) -> Survey:
        """Return all defects, and the runs that may hold offsets of a range."""
        parts: list[Run | Defect] = []
        low = 0
        for part in self.parts:
            # A wrapper's first offset is inside it. It is at least the end of the run before; more is not known.
            if isinstance(part, Defect) or (part.next_offset > start_offset and low < end_offset):
                parts.append(part)
            low = part.next_offset if isinstance(part, Run) else low
        return self._replace(parts=parts)


def survey(
    file: Readable,
    path: str,
    base_offset: int,
    following_offset: int | None,
    end: int,
    *,
    check_crcs: bool = True,
    is_clean: bool = True,
    limit_offset: int | None = None,
) -> Survey:
    """Find the sound batches of a segment and the damage between them. Read the whole file, but decode no record.

    Args:
        file: the open `.log`.
        path: the path for the defects.
        base_offset: the lowest offset that a batch may have.
        following_offset: the base offset of the next segment; None for the last segment.
        end: the byte position at which the file ends.
        check_crcs: verify checksums.
        is_clean: whether the log was shut down cleanly. If so, a broker truncates nothing.
        limit_offset: all batches of the last segment must end below it; None: no limit.
    """
    with located(path):
        parts, next_offset = _native.survey(
            file,
            base_offset,
            following_offset,
            end,
            check_crcs=check_crcs,
            is_clean=is_clean,
            limit_offset=limit_offset,
        )
    return Survey([Run(*part) if len(part) == len(Run._fields) else _defect(part, path) for part in parts], next_offset)


def _defect(fields: tuple[Any, ...], path: str) -> Defect:
    return Defect(*fields)._replace(path=path)


def rows_and_defects(
    found: Survey, file: Readable, path: str, decoder: _native.Decoder
) -> Iterator[pa.RecordBatch | Defect]:
    """Decode the runs. Yield rows and defects, including those for sound batches with malformed records."""
    with located(path):
        for part in found.parts:
            if isinstance(part, Defect):
                yield part
                continue
            for rows in _native.RunReader(file, part, decoder):
                yield _defect(rows, path) if isinstance(rows, tuple) else rows


def is_lost(path: str) -> bool:
    """Return whether a `.log` that was missing from a listing is still missing while one of its indexes exists.

    A broker may have created or deleted the segment during the listing. It creates and renames the `.log` before the
    indexes.
    """
    # In this order of checks, no change by a broker in between looks like a loss.
    stem = path.removesuffix("log")
    has_index = storage.exists(f"{stem}index") or storage.exists(f"{stem}timeindex")
    is_there = storage.exists(path) and not storage.is_directory(path)
    return has_index and not (is_there or storage.exists(path + file_names.DELETED))


def cut_short(segment: Segment, next_offset: int | None, size: int) -> Iterator[Defect]:
    """Yield the records lost at the end of an older segment. Its `.log` has no damage, but ends before the index does.

    Args:
        segment: a segment of a log at rest.
        next_offset: the offset after its last batch; None if it has no batch.
        size: the length of the `.log`.
    """
    start = segment.base_offset if next_offset is None else next_offset
    entry = segment.entry_behind(start, size)
    if entry is not None:
        reason = cut_short_in_words(size, entry)
        yield Defect(segment.path, size, start, segment.next_base_offset, reason, "segment-cut")


def by_offset(file: storage.File, found: Survey) -> list[Run | Defect]:
    """Return the parts of a survey in offset order, so that a moved batch appears at its original place."""
    moved = [part.start_offset for part in found.parts if isinstance(part, Defect) and part.code == "batch-order"]
    parts: list[Run | Defect] = []
    for part in found.parts:
        if isinstance(part, Defect):
            parts.append(part)
            continue
        cuts = sorted({offset for offset in moved if part.first_offset < offset < part.next_offset})
        bounds = [(part.position, part.first_offset), *((position_in(file, part, cut), cut) for cut in cuts)]
        for (position, first), (end, following) in pairwise([*bounds, (part.end_position, part.next_offset)]):
            parts.append(Run(position, end, first, following))

    def place(part: Run | Defect) -> tuple[int, bool]:
        # At equal offsets, damage sorts first, because the run begins after it.
        return (part.first_offset, True) if isinstance(part, Run) else (part.start_offset, False)

    return sorted(parts, key=place)


def position_in(file: storage.File, run: Run, offset: int) -> int:
    """Return the position of the first batch in a run that ends at `offset` or above; without one, the run's end."""
    if offset >= run.next_offset:
        return run.end_position
    for batches, _ in whole_batches(file, run.position, run.end_position):
        for position, last_offset in tuples(batches, "position", "last_offset"):
            if last_offset >= offset:
                return int(position)
    return run.end_position


def tuples(columns: pa.RecordBatch, *names: str) -> list[Any]:
    """Return the rows of these columns as tuples."""
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))
