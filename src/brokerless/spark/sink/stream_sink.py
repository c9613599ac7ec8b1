"""The sink of streams: `writeStream.format("brokerless")`. Each streaming epoch is committed exactly once.

The write of a streaming epoch also records the query and the epoch number (`brokerless.layout.streaming_epochs`). With
these, the commit detects an epoch that Spark repeats, and does not write its rows again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout.streaming_epochs import Epoch
from brokerless.spark.sink.batch_sink import PATIENCE, write_parts
from brokerless.spark.sink.written import Written, reduced, task_of
from brokerless.spark.source.concise_errors import concise_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

    from brokerless.staging.atomic_write import AtomicWrite
    from brokerless.staging.parts import Staging

# The local property with the query's id, which lives as long as its checkpoint (Spark's StreamExecution.QUERY_ID_KEY).
_QUERY_ID = "sql.streaming.queryId"


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a query's streaming epochs.

    For each epoch, Spark creates a writer and pickles it for the tasks. For the commit, Spark creates another writer in
    another process. So pickling a writer begins an epoch, and creating one does not.

    Args:
        write: the write of each epoch.
        columns: the columns of the rows.
        checkpoint: the path of the query's checkpoint; "" if unknown.
    """

    def __init__(self, write: AtomicWrite, columns: Sequence[str], checkpoint: str) -> None:
        self._write = write
        self._columns = columns
        self._checkpoint = checkpoint

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        state = {**self.__dict__, "_begun": self._begun}
        return reduced(self, task_of(self._begun, self._columns, self._write.attempt), state)

    @cached_property
    def _begun(self) -> Staging | Exception:
        """The staging area of the tasks, or the error to raise in each task. PySpark hides errors of pickling."""
        try:
            return self._write.begin(query=_query_id(self._checkpoint), patience=PATIENCE)
        except Exception as error:  # noqa: BLE001 - every task raises it
            return error

    @concise_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the parts of a task.

        Raises:
            LogInUseError: a broker, or another writer, had the log directory open when the epoch began.
            ValueError: the options do not match an existing topic or the directory, or rows cannot be written.
        """
        if isinstance(self._begun, Exception):
            raise self._begun
        context = TaskContext.get()
        query = context and context.getLocalProperty(_QUERY_ID)
        if not query:
            raise RuntimeError(f"Spark does not say which query this is: no local property {_QUERY_ID}")
        return Written(write_parts(self._begun, iterator, self._columns, query), query, self._write.attempt)

    @concise_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the rows of an epoch, in the order of the tasks, unless they were committed before."""
        tasks = [message for message in messages if isinstance(message, Written)]
        # Even an epoch without rows has a task.
        epoch = Epoch(tasks[0].query, batchId)
        write = replace(self._write, attempt=tasks[0].attempt)
        write.commit((part for task in tasks for part in task.parts), epoch=epoch, patience=PATIENCE)

    @concise_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the parts that tasks have written. If no task reported parts, the query's next epoch removes them."""
        for attempt in {message.attempt for message in messages if isinstance(message, Written)}:
            replace(self._write, attempt=attempt).abort()


def _query_id(checkpoint: str) -> str:
    """Return the id of the query with this checkpoint; "" if the checkpoint is not visible here."""
    if not checkpoint or is_remote(checkpoint):
        return ""
    try:
        return str(json.loads(storage.read_all(f"{checkpoint}/metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
