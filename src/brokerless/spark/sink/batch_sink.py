"""The sink of batch jobs: `df.write.format("brokerless")`.

Tasks write parts, and the driver's commit puts them into the log directory (`brokerless.staging.atomic_write`). Spark
creates the writer in one Python process, runs tasks in others and commits in a third: their shared state is pickled.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter

from brokerless.arguments import unknown
from brokerless.spark.sink.written import Written, reduced, task_of
from brokerless.spark.source.concise_errors import concise_errors
from brokerless.spark.source.tasks import keep_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from brokerless.staging.atomic_write import AtomicWrite
    from brokerless.staging.parts import Part, Staging

_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestampType": ("int",),
    "leaderEpoch": ("int",),
}
# Seconds that a job waits for another one: after all its rows are written, and before it begins.
PATIENCE, PATIENCE_BEFORE = 60, 1
# Columns that are written only if rows keep their offsets.
_OF_COPIES = ("offset", "timestampType", "leaderEpoch")


class Writer(DataSourceArrowWriter):
    """The writer of a batch job. Creating it begins the write.

    Raises:
        LogInUseError: a broker, or another writer, has the log directory open.
        ValueError: the options do not match an existing topic or the directory.
    """

    def __init__(self, write: AtomicWrite, columns: Sequence[str]) -> None:
        self._write = write
        self._columns = columns
        self._staging = write.begin(patience=PATIENCE_BEFORE)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduced(self, task_of(self._staging, self._columns, self._write.attempt), self.__dict__)

    @concise_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the parts of a task."""
        return Written(write_parts(self._staging, iterator, self._columns))

    @concise_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once, in the order of the tasks."""
        parts = (part for message in messages if isinstance(message, Written) for part in message.parts)
        self._write.commit(parts, patience=PATIENCE)

    @concise_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Remove the parts that tasks have written."""
        self._write.abort()


def write_parts(
    staging: Staging, batches: Iterable[pa.RecordBatch], columns: Sequence[str], query: str = ""
) -> tuple[Part, ...]:
    """Write the parts of one task from rows with these columns. `query` is the id of the streaming query, if any."""
    keep_modules()
    task = staging.writer(query)
    try:
        for rows in batches:
            task.send(rows.select(list(columns)))
        return task.finish()
    except BaseException:
        with contextlib.suppress(OSError):
            task.abort()
        raise


def written_columns(schema: StructType, write: AtomicWrite) -> list[str]:
    """Check the columns, and return the columns to write.

    Raises:
        ValueError: a column is unknown, has the wrong type, or is required and missing.
    """
    for column in schema:
        if column.name not in _TYPES:
            raise unknown("column", column.name, _TYPES)
        type_name, known = column.dataType.simpleString(), _TYPES[column.name]
        if type_name not in known:
            raise ValueError(f"column {column.name} is {type_name}, not {' or '.join(known)}: cast it")
    # Option topic has precedence over the column, as in Spark's Kafka sink.
    idle = {"topic"} if write.topics else set()
    needed = {"value": "it is needed"}
    if not write.topics:
        needed["topic"] = "it says where each row goes; or give option topic"
    if write.encoding.keep_offsets:
        needed["offset"] = "it is needed to keep offsets"
    else:
        idle.update(_OF_COPIES)
    names = schema.fieldNames()
    for name, why in needed.items():
        if name not in names:
            raise ValueError(f"there is no column {name}: {why}")
    return [name for name in names if name not in idle]
