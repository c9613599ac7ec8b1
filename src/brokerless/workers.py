"""Calls that are made here, or in other processes, several at a time; what they report meanwhile comes back too."""

from __future__ import annotations

import errno
import multiprocessing
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.queues import SimpleQueue

    Progress = Callable[[str, int], None]

_T = TypeVar("_T")
_SECONDS = 0.1
# In a worker: where its progress goes. A queue cannot be sent with a call, only be there from the start.
_queues: list[SimpleQueue[tuple[str, int]]] = []


class Workers(Generic[_T]):
    """Where calls are made. A context manager: leaving it waits for those that have begun, and makes no others.

    Args:
        jobs: how many at a time; 1: one after the other, in this process.
        progress: called here with a call's name and the bytes it did since the last time.
    """

    def __init__(self, jobs: int, progress: Progress) -> None:
        if jobs < 1:
            raise ValueError(f"{jobs} jobs: at least 1 needed")
        self.jobs = jobs
        self._progress = progress
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            # A forked process would have this one's threads' locks, held by nobody.
            context = multiprocessing.get_context("spawn")
            self._queue: SimpleQueue[tuple[str, int]] = context.SimpleQueue()
            self._pool = ProcessPoolExecutor(jobs, context, _start, (self._queue,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._queue.close()

    def submit(self, name: str, call: Callable[[Callable[[int], None]], _T]) -> Future[_T]:
        """Have a call made, with a function to report progress to; picklable unless it is made here."""
        if self._pool is not None:
            with _surviving():
                return self._pool.submit(_remote, name, call)
        future: Future[_T] = Future()
        try:
            future.set_result(call(lambda count: self._progress(name, count)))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)
        return future

    def first_done(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait until one of these calls has come to its end; return it, and its result.

        Raises:
            OSError: a worker died.
            And what the call raised.
        """
        while True:
            done, _ = wait(futures, _SECONDS if self._pool else None, FIRST_COMPLETED)
            while self._pool is not None and not self._queue.empty():
                self._progress(*self._queue.get())
            for future in done:
                with _surviving():
                    return future, future.result()


@contextmanager
def _surviving() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        what = (
            "a worker process ended: killed, perhaps for lack of memory (fewer jobs need less), or started by a script "
            'that does not say `if __name__ == "__main__"` before it begins its work'
        )
        raise OSError(errno.ECHILD, what) from error


def _start(queue: SimpleQueue[tuple[str, int]]) -> None:
    _queues.append(queue)


def _remote(name: str, call: Callable[[Callable[[int], None]], _T]) -> _T:
    """Make a call in a worker. Its progress is sent now and then: a full pipe would stop it."""
    waiting, last = 0, time.monotonic()

    def progress(count: int) -> None:
        nonlocal waiting, last
        waiting += count
        if time.monotonic() - last >= _SECONDS:
            _queues[0].put((name, waiting))
            waiting, last = 0, time.monotonic()

    result = call(progress)
    _queues[0].put((name, waiting))
    return result
