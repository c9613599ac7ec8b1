"""A `Pool` that runs calls on a Spark cluster. Each call is a job of one task.

An error of the log or of the arguments would recur in every attempt: the task returns it as its result, and the driver
raises it. After other errors, such as the loss of an executor, Spark retries the task as often as its settings allow.
"""

from __future__ import annotations

import uuid
from concurrent.futures import FIRST_COMPLETED, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from brokerless.errors import BrokerlessError
from brokerless.io.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from brokerless.io.workers import Call, Progress

_T = TypeVar("_T")


class SparkPool(Generic[_T]):
    """A `Pool` of Spark tasks.

    Args:
        spark: a session, not one of Spark Connect.
        jobs: the number of tasks at a time; None: as many as Spark has cores.
        progress: called on the driver with a call's name and the bytes that it processed, when the call has finished.
    """

    may_retry = True

    def __init__(self, spark: SparkSession, jobs: int | None, progress: Progress) -> None:
        self._context = spark.sparkContext
        self.jobs = self._context.defaultParallelism if jobs is None else jobs
        if self.jobs < 1:
            raise ValueError(f"{self.jobs} jobs: at least 1 needed")
        self._progress = progress
        self._tag = f"brokerless-{uuid.uuid4().hex}"
        self._counts: SimpleQueue[tuple[str, int]] = SimpleQueue()
        self._threads = Threads(self.jobs, thread_name_prefix="brokerless-job")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(raised):
            self._context.cancelJobsWithTag(self._tag)
        self._threads.shutdown(cancel_futures=True)

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Start a call, and return its future."""
        return self._threads.submit(self._run, name, call)

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait until one of these calls has finished, and return its future and result."""
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        while not self._counts.empty():
            self._progress(*self._counts.get())
        future = next(iter(done))
        return future, future.result()

    def _run(self, name: str, call: Call[_T]) -> _T:
        self._context.addJobTag(self._tag)
        self._context.setJobDescription(f"brokerless: {name}")
        made: Any = self._context.parallelize([call], 1).map(_made).collect()[0]
        result, error, count = made
        if error is not None:
            raise error
        self._counts.put((name, count))
        done: _T = result
        return done


def _made(call: Call[object]) -> tuple[object, Exception | None, int]:
    """Run a call in a task; return its result or its error, and the bytes that it processed."""
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count

    try:
        return call(progress=progress), None, done
    except (BrokerlessError, ValueError) as error:
        return None, error, done
