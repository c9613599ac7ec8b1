"""A `Runner` of tasks on a Spark cluster."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.errors import BrokerlessError
from brokerless.io.runner import Remote, Runner, say_notes
from brokerless.spark.source.concise_errors import hide_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from types import TracebackType

    from pyspark.sql import SparkSession

    from brokerless.io.runner import Call, Progress

_ArgumentT = TypeVar("_ArgumentT")
_T = TypeVar("_T")


class SparkTasks(Runner):
    """Spark tasks. Spark repeats a task after a failure, or runs two attempts at the same time.

    Args:
        spark: a session, not one of Spark Connect.
        jobs: the number of submitted calls at a time; None: as many as Spark has cores.
        progress: see `Runner`; the bytes of a call are reported when the call has finished.
    """

    may_retry = True

    def __init__(
        self, spark: SparkSession, jobs: int | None = None, progress: Progress = lambda _name, _read: None
    ) -> None:
        self._context = spark.sparkContext
        super().__init__(self._context.defaultParallelism if jobs is None else jobs, progress)
        self._tag = f"brokerless-{uuid.uuid4().hex}"
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="brokerless-job")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._context.cancelJobsWithTag(self._tag)
        super().__exit__(kind, error, at)

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call, which becomes a job of one task; see `Runner`."""
        return self._executor.submit(copy_context().run, self._run, name, call)

    def map(
        self,
        function: Callable[[_ArgumentT], _T],
        arguments: Iterable[_ArgumentT],
        *,
        ahead: int | None = None,  # noqa: ARG002 - all results return at once
    ) -> Iterator[_T]:
        """Call a function for each argument, in one job with a task for each; no `with` block is needed."""
        given = list(arguments)
        context: Any = self._context
        called = partial(_called, Remote(function))
        return map(say_notes, context.parallelize(given, len(given)).map(called).collect() if given else ())

    def _run(self, name: str, call: Call[_T]) -> _T:
        self._context.addJobTag(self._tag)
        self._context.setJobDescription(f"brokerless: {name}")
        made: Any = self._context.parallelize([Remote(call)], 1).map(_made).collect()[0]
        result, error, count = made
        if error is not None:
            raise error
        self._counts.put((name, count))
        done: _T = result
        return done


def _called(function: Callable[[_ArgumentT], _T], argument: _ArgumentT) -> _T:
    try:
        return function(argument)
    except (BrokerlessError, ValueError, OSError) as error:
        hide_traceback(error)
        raise


def _made(call: Call[object]) -> tuple[object, Exception | None, int]:
    """Run a call in a task; return its result or its error, and the bytes that it processed.

    An error in the log or the arguments would recur in every attempt, so the driver raises it. After other errors, such
    as the loss of an executor, Spark retries the task as often as its settings allow.
    """
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count

    try:
        return call(progress=progress), None, done
    except (BrokerlessError, ValueError) as error:
        return None, error, done
