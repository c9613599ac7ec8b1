"""The messages between a write's driver, its tasks and its commit, in forms that tasks in the JVM also use.

A writer is pickled as a call of `writer` with JSON, and a task's result as a call of `written` with JSON. The JVM reads
the JSON of the writer and writes the JSON of the result (`rust/jvm/src/write_task.rs`). Unpickling in Python gives the
same objects as without the JVM.
"""

from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from brokerless.staging.parts import Part, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerless.staging.parts import Staging

# The version of the JSON of a task.
_VERSION = 1


@dataclass
class Written(WriterCommitMessage):
    """The parts that a task wrote.

    Attributes:
        parts: the parts.
        query: the id of the streaming query; "" for a batch job.
        attempt: the `AtomicWrite.attempt` of the write. The commit of a streaming epoch runs in another process, and
            gets the value only from this message.
    """

    parts: tuple[Part, ...]
    query: str = ""
    attempt: str = ""


def written(text: bytes) -> Written:
    """Return the message of a task in the JVM, from its JSON."""
    message = json.loads(text)
    parts = tuple(Part(**part) for part in message.pop("parts"))
    return Written(parts, **message)


def task_of(staging: Staging | Exception, columns: Sequence[str], attempt: str) -> bytes | str:
    """Return the data that the tasks of a write need, as JSON; or the error to raise in each task, as text."""
    if isinstance(staging, Exception):
        return "".join(traceback.format_exception_only(staging)).strip()
    task = {
        "version": _VERSION,
        "attempt": attempt,
        "columns": list(columns),
        "staging": asdict(staging),
        "among": {topic: fingerprint(partitions) for topic, partitions in staging.partitions.items()},
        "among_of_others": fingerprint(range(staging.others or 0)),
    }
    return json.dumps(task).encode()


def reduced(sink: object, task: bytes | str, state: dict[str, object]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the value of a writer's `__reduce__`, given the writer's state."""
    return writer, (task, pickle.dumps((type(sink), state)))


def writer(_task: bytes | str, pickled: bytes) -> object:
    """Return the pickled writer. The JVM uses the other argument."""
    kind, state = pickle.loads(pickled)  # noqa: S301 - Spark's own processes pickled it
    sink = kind.__new__(kind)
    sink.__dict__.update(state)
    return sink
