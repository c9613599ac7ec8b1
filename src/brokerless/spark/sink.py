"""The sink: `df.write.format("brokerless")`.

Tasks write parts, the driver's commit puts them into the log directory (`brokerless.committing`). Spark makes the
writer in one Python process, runs tasks in others and commits in a third: what they share is pickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from brokerless.committing import begin
from brokerless.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from brokerless.committing import Write
    from brokerless.parts import Part
    from brokerless.spark.sink_options import SinkOptions

_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestampType": ("int",),
    "leaderEpoch": ("int",),
    "topic": ("string",),
}
# What rows only have if they keep their offsets.
_OF_COPIES = ("offset", "timestampType", "leaderEpoch")


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    parts: tuple[Part, ...]


class Writer(DataSourceArrowWriter):
    """Writes rows with these columns."""

    def __init__(self, write: Write, columns: Sequence[str]) -> None:
        self._write = write
        self._columns = list(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the parts of a task."""
        task = self._write.writer()
        for rows in iterator:
            task.send(rows.select(self._columns))
        return Written(task.finish())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let all rows come into force, in the order of the tasks."""
        self._write.commit(part for message in messages if isinstance(message, Written) for part in message.parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Remove what tasks have written."""
        self._write.abort()


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> Writer:
    """Begin a write, and return what Spark writes it with.

    Raises:
        LogInUseError: a broker, or another writer, has the log directory.
        ValueError: a column of another name or type, or options that do not fit what is there.
    """
    columns = _columns(schema, keeps_offsets=options.encoding.keep_offsets)
    write = begin(
        options.path,
        options.topic,
        overwrite=overwrite,
        partitions=options.partitions,
        topic_id=options.topic_id,
        segment_bytes=options.segment_bytes,
        encoding=options.encoding,
        sole_replica=options.sole_replica,
    )
    return Writer(write, columns)


def _columns(schema: StructType, *, keeps_offsets: bool) -> list[str]:
    """Check the columns, and return those that are written."""
    for column in schema:
        if column.name not in _TYPES:
            raise unknown("column", column.name, _TYPES)
        name = column.dataType.simpleString()
        if name not in _TYPES[column.name]:
            raise ValueError(f"column {column.name} is {name}, not {' or '.join(_TYPES[column.name])}: cast it")
    names = schema.fieldNames()
    for needed in ("value", "offset") if keeps_offsets else ("value",):
        if needed not in names:
            raise ValueError(f"there is no column {needed}: it is needed" + (" to keep offsets" * keeps_offsets))
    # The topic is the option's, as in Spark's own sink.
    left_out = ("topic",) if keeps_offsets else ("topic", *_OF_COPIES)
    return [name for name in names if name not in left_out]
