"""A `Pool` that makes calls on a Spark cluster: each is a job of one task, which Spark makes again where one fails.

What is wrong with a log, or with what was asked for, is wrong each time: such an error is handed back as what the task
came to, and raised here. Of other errors, an executor that is gone among them, Spark makes the attempts that its
settings say.
"""

from __future__ import annotations

import uuid
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from brokerless.errors import BrokerlessError

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from brokerless.io.workers import Call, Progress

_T = TypeVar("_T")


class SparkPool(Generic[_T]):
    """A `Pool`: see there.

    Args:
        spark: a session, with a driver of its own (not Spark Connect).
        jobs: how many tasks at a time; None: as many as Spark has cores for.
        progress: called here with a call's name and the bytes that it did, when it is over.
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
        self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="brokerless-job")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(raised):
            self._context.cancelJobsWithTag(self._tag)
        self._threads.shutdown(cancel_futures=True)

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Have a call made."""
        return self._threads.submit(self._run, name, call)

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait for one of these calls."""
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
    """Make a call, in a task: return its result, or what was wrong, and the bytes that it did."""
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count

    try:
        return call(progress=progress), None, done
    except (BrokerlessError, ValueError) as error:
        return None, error, done
