"""View `findings`: what is wrong with the logs, a row each. No row: every batch and record of them can be read.

All replicas that the paths hold are checked, not only the one that a read would take.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from brokerless.log.findings import findings
from brokerless.spark.tasks import Piece, pack, select, target_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.segment import Segment
    from brokerless.spark.options import Options
    from brokerless.spark.tasks import Task

_FIELDS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("kind", pa.string()),
    pa.field("path", pa.string()),
    pa.field("position", pa.int64()),
    pa.field("base_offset", pa.int64()),
    pa.field("next_position", pa.int64()),
    pa.field("start_offset", pa.int64()),
    pa.field("end_offset", pa.int64()),
    pa.field("reason", pa.string()),
]
_ALL = pa.schema(_FIELDS)
# In memory at a time, and sent to Spark as one.
_ROWS = 4096

COLUMNS = _ALL.names


class Checked(NamedTuple):
    """A segment to be checked."""

    topic: str | None
    partition: int | None
    segment: Segment
    is_clean: bool


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns."""
    return tuple(COLUMNS)


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([_ALL.field(column) for column in columns])


def plan(options: Options) -> list[Task[Checked]]:
    """Plan the tasks: whole segments, in order."""
    pieces = [
        Piece(Checked(log.topic, log.partition, segment, log.root.is_clean), segment.size)
        for log in select(options, all_replicas=True)
        for segment in log.segments
    ]
    return pack(pieces, target_bytes((piece.size for piece in pieces), options), options)


def read(task: Task[Checked], options: Options, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield what is wrong with a task's segments, some thousand rows at a time: it may be every batch of them."""
    rows = (
        {"topic": checked.topic, "partition": checked.partition, **finding._asdict()}
        for checked in task.work
        for finding in findings(checked.segment, is_clean=checked.is_clean)
    )
    while piece := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema=schema(columns))
