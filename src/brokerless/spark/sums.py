"""View `sums`: what is in the logs, in numbers. Each task has sums of its own: the job `profile` adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from brokerless.log.profile import FACTS, profile, together
from brokerless.spark.tasks import Piece, pack, select, target_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.segment import Segment
    from brokerless.spark.options import Options
    from brokerless.spark.tasks import Task

_TIME = pa.timestamp("us", "UTC")
_TIMES = ("hour", "first_timestamp", "last_timestamp")
_MS_PER_HOUR = 3_600_000
# Behind it, Spark has no time.
_MAX_MS = (1 << 63) // 1000
_FIELDS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("hour", _TIME),
    pa.field("magic", pa.int32()),
    pa.field("compression", pa.string()),
]
_ALL = pa.schema([*_FIELDS, *(pa.field(name, _TIME if name in _TIMES else pa.int64()) for name in FACTS)])

COLUMNS = _ALL.names


class Counted(NamedTuple):
    """A segment whose batches and records are counted."""

    topic: str | None
    partition: int | None
    segment: Segment


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns."""
    return tuple(COLUMNS)


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([_ALL.field(column) for column in columns])


def plan(options: Options) -> list[Task[Counted]]:
    """Plan the tasks: whole segments, in order."""
    pieces = [
        Piece(Counted(log.topic, log.partition, segment), segment.size)
        for log in select(options)
        for segment in log.segments
    ]
    return pack(pieces, target_bytes((piece.size for piece in pieces), options), options)


def read(task: Task[Counted], options: Options, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield the sums of each partition that a task has segments of."""
    tables: dict[tuple[str | None, int | None], list[pa.Table]] = {}
    for topic, partition, segment in task.work:
        tables.setdefault((topic, partition), []).append(profile(segment))
    for (topic, partition), found in tables.items():
        rows = [{"topic": topic, "partition": partition, **_timed(row)} for row in together(found).to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=schema(columns))


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    """Turn ms and hours into µs, as far as Spark has such times."""
    hour = None if row["hour"] is None else row["hour"] * _MS_PER_HOUR
    times = {"hour": hour, "first_timestamp": row["first_timestamp"], "last_timestamp": row["last_timestamp"]}
    return row | {name: None if ms is None or abs(ms) > _MAX_MS else ms * 1000 for name, ms in times.items()}
