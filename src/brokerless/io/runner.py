"""Calls that run several at a time. `Runner` is the interface, and `Threads` runs calls in this process.

`processes.py` runs calls in other processes, `brokerless.spark.jobs.spark_tasks` on a Spark cluster.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from brokerless.io.cores import cores
from brokerless.notes import collected, note
from brokerless.wording import current_face, worded_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from multiprocessing.queues import SimpleQueue as ProcessQueue
    from types import TracebackType

    Progress = Callable[[str, int], None]

_ArgumentT = TypeVar("_ArgumentT")
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
SECONDS = 0.1
"""The interval between reports of progress."""


class Call(Protocol[_T_co]):
    """A call to run. It calls `progress` with the number of bytes done since its last report."""

    def __call__(self, *, progress: Callable[[int], None]) -> _T_co: ...


class Runner(ABC):
    """Runs calls, several at a time. On exit from its `with` block, it waits for running calls and starts no others.

    An interrupt need not wait for calls, because the caller removes the output of unfinished calls.

    Args:
        jobs: the number of calls that run at the same time.
        progress: called in the thread of `first_completed` with a call's name and the bytes done since that call's last
            report.

    Attributes:
        jobs: the number of calls that run at the same time.
        may_retry: whether a call may run more than once, even at the same time. Each run must then write to a separate
            directory.

    Raises:
        ValueError: `jobs` is less than 1.
    """

    may_retry = False
    _executor: Executor

    def __init__(self, jobs: int, progress: Progress = lambda _name, _read: None) -> None:
        if jobs < 1:
            raise ValueError(f"{jobs} jobs: at least 1 needed")
        self.jobs = jobs
        self._progress = progress
        self._counts: SimpleQueue[tuple[str, int]] | ProcessQueue[tuple[str, int]] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Wait for running calls, and start no others."""
        self._executor.shutdown(cancel_futures=True)

    @abstractmethod
    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call. It must be picklable unless it runs in this process."""

    def start(self, function: Callable[..., _T], *arguments: object) -> Future[_T]:
        """Submit a call that reports no progress."""
        return self.submit("", partial(_without_progress, function, *arguments))

    def map(
        self, function: Callable[[_ArgumentT], _T], arguments: Iterable[_ArgumentT], *, ahead: int | None = None
    ) -> Iterator[_T]:
        """Call a function for each argument, and yield the results in the order of the arguments.

        After an error, or if the caller stops, no other calls are started.

        Args:
            function: the function.
            arguments: the arguments, one for each call.
            ahead: the number of calls that may be submitted, finished or not, beyond the call whose result is yielded
                next; None: all.

        Raises:
            OSError: a process that ran a call has died.
            Exception: the error of a call, raised after the results of all calls before it were yielded.
        """
        pending: deque[Future[_T]] = deque()
        try:
            for argument in arguments:
                pending.append(self.start(function, argument))
                if ahead is not None and len(pending) > ahead:
                    yield _result(pending.popleft())
            while pending:
                yield _result(pending.popleft())
        finally:
            for future in pending:
                future.cancel()

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait until one of these calls has ended; return its future and its result.

        Raises:
            OSError: the process that ran the call has died.
            Exception: the error that the call raised.
        """
        while True:
            done, _ = wait(futures, SECONDS, FIRST_COMPLETED)
            while not self._counts.empty():
                self._progress(*self._counts.get())
            for future in done:
                return future, _result(future)


class Threads(Runner):
    """A `Runner` of threads in this process. Notes reach the collector that is active at `submit`, `start` or `map`.

    Args:
        count: the number of threads; None: as many as there are cores.
    """

    def __init__(self, count: int | None = None) -> None:
        super().__init__(cores() if count is None else count)
        self._executor = ThreadPoolExecutor(self.jobs)

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call; see `Runner`."""
        return self._executor.submit(copy_context().run, partial(call, progress=partial(self._progress, name)))


def _without_progress(
    function: Callable[..., _T],
    *arguments: object,
    progress: Callable[[int], None],  # noqa: ARG001 - as `Call`
) -> _T:
    return function(*arguments)


class NotedResult(NamedTuple, Generic[_T]):
    """The result of a call in another process, and its notes."""

    result: _T
    notes: list[str]


class Remote(Generic[_T]):
    """A call for another process. Its messages suit the caller's interface, and its result includes its notes."""

    def __init__(self, function: Callable[..., _T]) -> None:
        self._function, self._face = function, current_face()

    def __call__(self, *arguments: Any, **options: Any) -> NotedResult[_T]:  # noqa: ANN401 - the function's own
        """Make the call."""
        with worded_for(self._face), collected() as notes:
            return NotedResult(self._function(*arguments, **options), notes)


def say_notes(noted: NotedResult[_T]) -> _T:
    """Pass on the notes of a call in another process, and return its result."""
    for text in noted.notes:
        note(text)
    return noted.result


def _result(future: Future[_T]) -> _T:
    with surviving():
        result = future.result()
    return say_notes(result) if isinstance(result, NotedResult) else result


@contextmanager
def surviving() -> Iterator[None]:
    """Report the end of a worker process as an error that names the remedy.

    Raises:
        OSError: a worker process has ended.
    """
    try:
        yield
    except BrokenExecutor as error:
        what = (
            "a worker process ended: it was killed, perhaps for lack of memory (fewer jobs need less), or the script "
            'that started it lacks `if __name__ == "__main__":` around its work'
        )
        raise OSError(errno.ECHILD, what) from error
