"""View `findings`: one row per fault of the logs. No rows: every batch and record can be read.

All replicas in the paths are checked, not only the one that a read uses.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.inspection.findings import findings
from brokerless.spark.source.tasks import plan_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.spark.source.options import Options
    from brokerless.spark.source.tasks import SegmentOf, Task

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
    pa.field("code", pa.string()),
]
# The rows of one Arrow batch.
_ROWS = 4096

SCHEMA = pa.schema(_FIELDS)


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns."""
    return SCHEMA.names


def plan(options: Options) -> list[Task[SegmentOf]]:
    """Plan the tasks: whole segments, in order, of every replica."""
    return plan_segments(options, all_replicas=True)


def read(task: Task[SegmentOf], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield the faults of a task's segments, in batches of 4096 rows: every Kafka batch may be damaged."""
    rows = (
        {"topic": topic, "partition": partition, **finding._asdict()}
        for topic, partition, segment, is_clean in task.work
        for finding in findings(segment, is_clean=is_clean)
    )
    while piece := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema=wanted)
