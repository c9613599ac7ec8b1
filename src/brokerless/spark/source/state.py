"""Views of internal topics: `groups`, `commits`, `transactions`, `producers`, `remote_segments`, `cluster.*`.

The records of a group, or of a partition's remote segments, are all in one partition of the internal topic. So each
task reads such a partition, or for `producers` a data partition. The rows are the same as from `brokerless.groups` and
similar functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.log.log import Log
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.image import SCHEMAS
from brokerless.metadata.topic_names import TopicNames
from brokerless.spark.source.tasks import Task, WorkItem, pack, select_logs, target_bytes
from brokerless.state import groups, offset_commits, producers, remote_segments, transactions
from brokerless.state.cluster import cluster
from brokerless.state.internal_topic import OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, logs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.spark.source.options import Options

# Producer snapshots are small: what a task opens costs more than what it reads.
_PRODUCERS_BYTES = 64 << 10
_CLUSTER = "cluster."
# The last time that Spark can hold.
_MAX_MS = (1 << 63) // 1000 - 1


def _in_spark(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type for an Arrow type."""
    if isinstance(kind, pa.TimestampType):
        return pa.timestamp("us", "UTC")
    if isinstance(kind, pa.ListType):
        return pa.list_(_in_spark(kind.value_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([(field.name, _in_spark(field.type)) for field in kind.fields])
    return kind


_OWN = {
    "groups": groups.SCHEMA,
    "commits": offset_commits.SCHEMA,
    "transactions": transactions.SCHEMA,
    "producers": producers.SCHEMA,
    "remote_segments": remote_segments.SCHEMA,
    **{f"{_CLUSTER}{subject}": schema for subject, schema in SCHEMAS.items()},
}


@dataclass(frozen=True)
class StateView:
    """A view of the data source; see `_View` there.

    Attributes:
        name: the name of the view.
        SCHEMA: the columns of the view.
    """

    name: str
    SCHEMA: pa.Schema

    def default_columns(self, options: Options) -> Sequence[str]:  # noqa: ARG002 - those of `records` depend on them
        """Return all columns."""
        return self.SCHEMA.names

    def plan(self, options: Options) -> list[Task[str]]:
        """Plan the tasks: each has the paths of the partitions that it reads."""
        if self.name == "transactions" or self.name.startswith(_CLUSTER):
            return [Task(options.paths)]
        directories = LogDirs(*options.paths)
        if self.name == "producers":
            items = [WorkItem(log.path, _PRODUCERS_BYTES) for log in select_logs(options)]
        else:
            topic = REMOTE_LOG_METADATA_TOPIC if self.name == "remote_segments" else OFFSETS_TOPIC
            logs = logs_of(directories, topic)
            items = [WorkItem(log.path, sum(segment.size for segment in log.segments)) for log in logs]
        return pack(items, target_bytes((item.size for item in items), options), options)

    def read(self, task: Task[str], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task with these columns."""
        for batch in self._batches(task, options):
            spark = batch.select(wanted.names) if options.topics is None else self._chosen(batch, options, wanted)
            if spark.num_rows:
                yield pa.RecordBatch.from_arrays(
                    [_cast(spark[field.name], field.type) for field in wanted], schema=wanted
                )

    @staticmethod
    def _chosen(batch: pa.RecordBatch, options: Options, wanted: pa.Schema) -> pa.RecordBatch:
        topics = pa.array(sorted(options.topics or ()), pa.string())
        return batch.filter(pc.is_in(batch["topic"], value_set=topics)).select(wanted.names)

    def _batches(self, task: Task[str], options: Options) -> Iterable[pa.RecordBatch]:
        as_of = options.as_of
        if self.name == "transactions":
            if options.history:
                return transactions.transaction_states(*task.work, as_of=as_of)
            return transactions.transactions(*task.work, as_of=as_of).to_batches()
        if self.name.startswith(_CLUSTER):
            return cluster(*task.work, as_of=as_of).table(self.name.removeprefix(_CLUSTER)).to_batches()
        logs = [Log(path) for path in task.work]
        if self.name == "producers":
            return (batch for log in logs for batch in producers.producers_of(log, as_of=as_of).to_batches())
        directories = LogDirs(*options.paths)
        if self.name == "commits":
            lags = offset_commits.Lags(directories, as_of)
            found = (
                batch for log in logs for batch in offset_commits.commits_of(log, as_of=as_of, history=options.history)
            )
            return lags.each(found)
        if self.name == "groups":
            names = TopicNames(directories)
            if options.history:
                return (batch for log in logs for batch in groups.changes_of(log, names, as_of=as_of))
            rows = [row for log in logs for row in groups.groups_of(log, names, as_of=as_of)]
            return pa.Table.from_pylist(rows, groups.SCHEMA).to_batches()
        rows = [row for log in logs for row in remote_segments.segments_of(log, as_of=as_of, history=options.history)]
        return pa.Table.from_pylist(rows, remote_segments.SCHEMA).to_batches()


def _cast(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return a column in Spark's type; a time beyond the range of that type becomes null."""
    cast: pa.Array[Any]
    if isinstance(kind, pa.TimestampType):
        ms = column.cast(pa.int64())
        fits = pc.less_equal(pc.abs(ms), pa.scalar(_MAX_MS, pa.int64()))
        cast = pc.multiply(pc.if_else(fits, ms, pa.scalar(None, pa.int64())), pa.scalar(1000)).cast(kind)
    elif isinstance(column, pa.ListArray) and isinstance(kind, pa.ListType):
        values = _cast(column.values, kind.value_type)
        cast = pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=column.is_null())
    elif isinstance(column, pa.StructArray) and isinstance(kind, pa.StructType):
        fields = [_cast(column.field(field.name), field.type) for field in kind.fields]
        cast = pa.StructArray.from_arrays(fields, fields=kind.fields, mask=column.is_null())
    else:
        cast = column.cast(kind)
    return cast


VIEWS = {
    name: StateView(name, pa.schema([(field.name, _in_spark(field.type)) for field in schema]))
    for name, schema in _OWN.items()
}
"""The views, by name."""
