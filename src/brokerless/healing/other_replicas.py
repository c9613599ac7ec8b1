"""What a log lacks, taken from another replica that has the same batches on both sides of it."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import CorruptRecordError
from brokerless.healing.damaged_range import covered
from brokerless.healing.pieces import first_batch, joined, last_batch, spans
from brokerless.log.damage import Run, survey
from brokerless.log.segment import NO_END, whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.healing.pieces import Batch, Piece
    from brokerless.layout.checkpoints import LeaderEpoch
    from brokerless.log.damage import Survey
    from brokerless.log.log import Log

_COLUMNS = ("position", "size", "base_offset", "last_offset", "partition_leader_epoch", "crc")
_SAME = _COLUMNS[2:]
# Mostly, little is missing.
_NEAR = 1 << 16


class _Seen(NamedTuple):
    """What is known of another replica, and of the log.

    Attributes:
        surveys: the survey of each of its segments.
        places: an offset in each, with the position of its batch.
        epochs: the leader epochs of the log that lacks batches.
    """

    surveys: dict[str, Survey]
    places: dict[str, tuple[int, int]]
    epochs: list[LeaderEpoch]


def filled(
    log: Log, pieces: list[Piece], ranges: list[DamagedRange], other: Log
) -> tuple[list[Piece], list[DamagedRange]]:
    """Take what is lost from another replica, where it has the same batches around it."""
    found: list[DamagedRange] = []
    seen = _Seen({}, {}, [])
    with suppress(CorruptRecordError):
        seen.epochs.extend(log.leader_epochs)
    pieces = list(pieces)
    for one in ranges:
        place = bisect_right(pieces, one.start_offset, key=lambda piece: piece.next_offset)
        before = last_batch(pieces[place - 1]) if place and one.state == "lost" else None
        after = first_batch(pieces[place]) if place < len(pieces) and one.state == "lost" else None
        is_alone = before is None and after is None
        taken = [] if one.state != "lost" or (is_alone and pieces) else _between(other, before, after, one, seen)
        pieces[place:place] = taken
        found += covered([one], taken, "recovered", other.path)
    return pieces, found


def _between(other: Log, before: Batch | None, after: Batch | None, lost: DamagedRange, seen: _Seen) -> list[Piece]:
    """Return the batches of another replica between two that both have; [] if it has others there."""
    start = lost.start_offset
    end = NO_END if lost.end_offset is None else lost.end_offset
    has_before, has_after = before is None, after is None
    pieces: list[Piece] = []
    # A wrapper's first offset may not be known; its last one is enough to find it.
    for path, batches in _headers(other, start if before is None else before["last_offset"], seen):
        for neighbour in (before, after):
            if neighbour is not None:
                same: Any = pa.array([True] * batches.num_rows, pa.bool_())
                for name in _SAME:
                    equal: Any = pc.equal(batches[name], pa.scalar(neighbour[name], batches[name].type))
                    same = pc.and_(same, pc.fill_null(equal, pa.scalar(neighbour[name] is None)))
                is_there = bool(pc.any(same, min_count=0).as_py())
                has_before |= is_there and neighbour is before
                has_after |= is_there and neighbour is after
        inside = batches.filter(
            pc.and_(
                # The log may start amid a batch.
                pc.greater_equal(batches["last_offset"], pa.scalar(start, pa.int64())),
                pc.less(batches["last_offset"], pa.scalar(end, pa.int64())),
            )
        )
        # A diverged end of another history has lower epochs than this log had there.
        end_of_first = inside["last_offset"][0].as_py() if inside.num_rows else None
        known = [one.epoch for one in seen.epochs if end_of_first is not None and one.start_offset <= end_of_first]
        lowest: Any = pc.min(inside["partition_leader_epoch"]).as_py()
        if inside.num_rows and 0 <= lowest < max(known, default=0):
            return []
        if inside.num_rows:
            pieces += spans(path, inside)
        if batches.num_rows and batches["last_offset"][-1].as_py() >= end and has_after:
            break
    return joined(pieces) if has_before and has_after else []


def _headers(log: Log, start: int, seen: _Seen) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the headers of a log's sound batches that end at `start` or above, with the path of their file."""
    for segment in log.segments:
        if segment.limit_offset <= start:
            continue
        path = segment.path
        with segment.open() as file:
            if path not in seen.surveys:
                following = segment.next_base_offset
                seen.surveys[path] = survey(file, path, segment.base_offset, following, file.size())
            for run in seen.surveys[path].parts:
                if not isinstance(run, Run) or run.next_offset <= start:
                    continue
                offset, near = seen.places.get(path, (start + 1, 0))
                begin = near if offset <= start and run.position <= near < run.end_position else run.position
                for batches, _ in whole_batches(file, begin, run.end_position, length=_NEAR):
                    wanted = batches.select(list(_COLUMNS))
                    first: Any = wanted["last_offset"][0].as_py()
                    if first <= start:
                        seen.places[path] = first, wanted["position"][0].as_py()
                    is_behind = pc.greater_equal(wanted["last_offset"], pa.scalar(start, pa.int64()))
                    yield path, wanted.filter(is_behind)
