"""View `sums`: counts and sizes of the records in logs. Each task has its own sums, and job `profile` adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.inspection.profile import FACTS, MS_PER_HOUR, profile
from brokerless.spark.source.tasks import plan_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.segment import Segment
    from brokerless.spark.source.options import Options
    from brokerless.spark.source.tasks import SegmentOf, Task

_TIME = pa.timestamp("us", "UTC")
_TIMES = ("hour", "first_timestamp", "last_timestamp")
# The last time that Spark can hold.
_MAX_MS = (1 << 63) // 1000
_FIELDS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("hour", _TIME),
    pa.field("magic", pa.int32()),
    pa.field("compression", pa.string()),
]

SCHEMA = pa.schema([*_FIELDS, *(pa.field(name, _TIME if name in _TIMES else pa.int64()) for name in FACTS)])


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns."""
    return SCHEMA.names


def plan(options: Options) -> list[Task[SegmentOf]]:
    """Plan the tasks: whole segments, in order."""
    return plan_segments(options)


def read(task: Task[SegmentOf], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield the sums of each partition in a task."""
    segments: dict[tuple[str | None, int | None], list[Segment]] = {}
    for topic, partition, segment in task.work:
        segments.setdefault((topic, partition), []).append(segment)
    for (topic, partition), found in segments.items():
        rows = [{"topic": topic, "partition": partition, **_timed(row)} for row in profile(*found).to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=wanted)


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    """Convert ms and hours to µs. Times beyond Spark's range become null."""
    hour = None if row["hour"] is None else row["hour"] * MS_PER_HOUR
    times = {"hour": hour, "first_timestamp": row["first_timestamp"], "last_timestamp": row["last_timestamp"]}
    return row | {name: None if ms is None or abs(ms) > _MAX_MS else ms * 1000 for name, ms in times.items()}
