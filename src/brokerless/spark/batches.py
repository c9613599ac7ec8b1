"""View `batches`: one row a Kafka batch, its header fields in Kafka's names. No record is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from brokerless import _native
from brokerless.spark.tasks import Piece, pack, select, target_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.segment import Segment
    from brokerless.spark.options import Options
    from brokerless.spark.tasks import Task

_PLACE: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("path", pa.string()),
]
_ON_REQUEST = "is_valid"
_ALL = pa.unify_schemas([pa.schema(_PLACE), _native.batch_schema(check_crcs=True)])

COLUMNS = _ALL.names


class Headers(NamedTuple):
    """The batches of one segment."""

    topic: str | None
    partition: int | None
    segment: Segment


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns but `is_valid`, which costs reading the bodies."""
    return tuple(column for column in COLUMNS if column != _ON_REQUEST)


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([_ALL.field(column) for column in columns])


def plan(options: Options) -> list[Task[Headers]]:
    """Plan the tasks: whole segments, in order."""
    pieces = [
        Piece(Headers(log.topic, log.partition, segment), segment.size)
        for log in select(options)
        for segment in log.segments
    ]
    return pack(pieces, target_bytes((piece.size for piece in pieces), options), options)


def read(task: Task[Headers], options: Options, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Yield the batches of a task's segments."""
    wanted = schema(columns)
    for headers in task.work:
        for batches in headers.segment.scan(check_crcs=_ON_REQUEST in columns):
            place = {"topic": headers.topic, "partition": headers.partition, "path": headers.segment.path}
            arrays = [
                pa.repeat(pa.scalar(place[field.name], field.type), batches.num_rows)
                if field.name in place
                else batches[field.name]
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
