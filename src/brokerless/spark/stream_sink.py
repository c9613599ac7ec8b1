"""The sink of streams: `writeStream.format("brokerless")`. Each epoch's rows come into force once.

An epoch is a write like any other, that says whose it is (`brokerless.log.streaming_epochs`): one that Spark repeats is
recognised when it is to be committed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from brokerless.log.streaming_epochs import Epoch
from brokerless.spark.sink import PATIENCE, write_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from brokerless.committing import Write
    from brokerless.parts import Part, Staging

# Where tasks find the id that a query has as long as its checkpoint (Spark's StreamExecution.QUERY_ID_KEY).
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote, and what the commit cannot know from elsewhere: of which query, and where to."""

    query: str
    attempt: str
    parts: tuple[Part, ...]


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the epochs of a query, rows with these columns.

    For each epoch Spark makes one of these and pickles it for the tasks, and makes another one, in another process, for
    the commit. So an epoch begins where this is pickled.
    """

    def __init__(self, write: Write, columns: Sequence[str]) -> None:
        self._write = write
        self._columns = columns

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_staging": self._staging}

    @cached_property
    def _staging(self) -> Staging:
        return self._write.begin(patience=PATIENCE)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the parts of a task."""
        context = TaskContext.get()
        query = context and context.getLocalProperty(_QUERY_ID)
        if not query:
            raise RuntimeError(f"Spark does not say which query this is: no local property {_QUERY_ID}")
        return Written(query, self._write.attempt, write_parts(self._staging, iterator, self._columns, query))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Let the rows of an epoch come into force, in the order of the tasks, unless they are already."""
        tasks = [message for message in messages if isinstance(message, Written)]
        # An epoch without rows has a task, too.
        epoch = Epoch(tasks[0].query, batchId)
        write = replace(self._write, attempt=tasks[0].attempt)
        write.commit((part for task in tasks for part in task.parts), epoch=epoch, patience=PATIENCE)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what tasks have written. Where none says where, the query's next commit does."""
        for attempt in {message.attempt for message in messages if isinstance(message, Written)}:
            replace(self._write, attempt=attempt).abort()
