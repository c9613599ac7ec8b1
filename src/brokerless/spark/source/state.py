"""Views of a cluster's state: from its internal topics, from those of a registry, and from producer snapshots.

The records of a group, or of a partition's remote segments, are all in one partition of the internal topic. So each
task reads such a partition, or for `producers` a data partition. The rows are the same as from `brokerless.groups` and
similar functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.log.log import Log
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.image import SCHEMAS
from brokerless.metadata.topic_names import TopicNames
from brokerless.spark.source.spark_types import spark_rows, spark_type
from brokerless.spark.source.tasks import Task, WorkItem, pack, select_logs, target_bytes
from brokerless.state import groups, offset_commits, producers, remote_segments, schemas, transactions
from brokerless.state.cluster import cluster
from brokerless.state.internal_topic import OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, logs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.spark.source.options import Options

# Producer snapshots are small: what a task opens costs more than what it reads.
_PRODUCERS_BYTES = 64 << 10
_CLUSTER = "cluster."


_OWN = {
    "groups": groups.SCHEMA,
    "commits": offset_commits.SCHEMA,
    "transactions": transactions.SCHEMA,
    "producers": producers.SCHEMA,
    "remote_segments": remote_segments.SCHEMA,
    "schemas": schemas.SCHEMA,
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
        if self.name in ("transactions", "schemas") or self.name.startswith(_CLUSTER):
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
                yield spark_rows(spark, wanted)

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
        if self.name == "schemas":
            return schemas.Schemas(*task.work, as_of=as_of).table().to_batches()
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


VIEWS = {
    name: StateView(name, pa.schema([(field.name, spark_type(field.type)) for field in schema]))
    for name, schema in _OWN.items()
}
"""The views, by name."""
