"""View `batches`: one row per Kafka batch, with its header fields under Kafka's names. No record is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native
from brokerless.spark.source.tasks import plan_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.spark.source.options import Options
    from brokerless.spark.source.tasks import SegmentOf, Task

_PLACE: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("path", pa.string()),
]
_ON_REQUEST = "is_valid"

SCHEMA = pa.unify_schemas([pa.schema(_PLACE), _native.batch_schema(check_crcs=True)])


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns except `is_valid`, which requires reading the bodies."""
    return tuple(column for column in SCHEMA.names if column != _ON_REQUEST)


def plan(options: Options) -> list[Task[SegmentOf]]:
    """Plan the tasks: whole segments, in order."""
    return plan_segments(options)


def read(task: Task[SegmentOf], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield the batches of a task's segments."""
    for topic, partition, segment in task.work:
        place = {"topic": topic, "partition": partition, "path": segment.path}
        for batches in segment.scan(check_crcs=_ON_REQUEST in wanted.names):
            arrays = [
                pa.repeat(pa.scalar(place[field.name], field.type), batches.num_rows)
                if field.name in place
                else batches[field.name]
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
