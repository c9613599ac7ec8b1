"""The sink of streams: `writeStream.format("brokerless")`. Each epoch's rows come into force once.

An epoch is a write like any other, that says whose it is (`brokerless.layout.streaming_epochs`): one that Spark repeats
is recognised when it is to be committed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout.streaming_epochs import Epoch
from brokerless.spark.sink.sink import PATIENCE, write_parts
from brokerless.spark.source.concise_errors import concise_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from brokerless.commit.atomic_write import AtomicWrite
    from brokerless.commit.parts import Part, Staging

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

    Args:
        write: of each epoch.
        columns: of the rows.
        checkpoint: where the query has its checkpoint; "": not known.

    For each epoch Spark makes one of these and pickles it for the tasks, and makes another one, in another process, for
    the commit. So an epoch begins where this is pickled.
    """

    def __init__(self, write: AtomicWrite, columns: Sequence[str], checkpoint: str) -> None:
        self._write = write
        self._columns = columns
        self._checkpoint = checkpoint

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_begun": self._begun}

    @cached_property
    def _begun(self) -> Staging | Exception:
        """What tasks write with, or why they cannot: PySpark covers up an error of whoever pickles this."""
        try:
            return self._write.begin(query=_query_id(self._checkpoint), patience=PATIENCE)
        except Exception as error:  # noqa: BLE001 - every task raises it
            return error

    @concise_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the parts of a task.

        Raises:
            LogInUseError: a broker, or another writer, had the log directory when the epoch began.
            ValueError: options that do not fit what is there, or rows that cannot be written.
        """
        if isinstance(self._begun, Exception):
            raise self._begun
        context = TaskContext.get()
        query = context and context.getLocalProperty(_QUERY_ID)
        if not query:
            raise RuntimeError(f"Spark does not say which query this is: no local property {_QUERY_ID}")
        return Written(query, self._write.attempt, write_parts(self._begun, iterator, self._columns, query))

    @concise_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Let the rows of an epoch come into force, in the order of the tasks, unless they are already."""
        tasks = [message for message in messages if isinstance(message, Written)]
        # An epoch without rows has a task, too.
        epoch = Epoch(tasks[0].query, batchId)
        write = replace(self._write, attempt=tasks[0].attempt)
        write.commit((part for task in tasks for part in task.parts), epoch=epoch, patience=PATIENCE)

    @concise_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what tasks have written. Where none says where, the query's next epoch does."""
        for attempt in {message.attempt for message in messages if isinstance(message, Written)}:
            replace(self._write, attempt=attempt).abort()


def _query_id(checkpoint: str) -> str:
    """Return the id of the query with this checkpoint; "": it is not to be seen here, as in a store."""
    if not checkpoint or is_remote(checkpoint):
        return ""
    try:
        return str(json.loads(storage.read_all(f"{checkpoint}/metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
