"""Pools that run calls in parallel, here or elsewhere, and bring back their progress.

`Pool` is the interface. `Workers` runs calls in this process or in others on this machine.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.queues import SimpleQueue

    Progress = Callable[[str, int], None]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_SECONDS = 0.1
# More threads would wait for the same file.
_MAX_THREADS = 4
# In a worker: the queue for its progress. A queue cannot be sent with a call, only passed at the start.
_queues: list[SimpleQueue[tuple[str, int]]] = []


def threads() -> int:
    """Return the number of threads that may share the work on one log in this process.

    A worker process uses one thread. Other processes use `OMP_NUM_THREADS`, which Spark sets to the cores of a task, or
    the available cores, but at most 4.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MAX_THREADS, int(given) if given.isdecimal() and int(given) else cores)


class Call(Protocol[_T_co]):
    """A call to run. It passes the bytes done since the last report to `progress`."""

    def __call__(self, *, progress: Callable[[int], None]) -> _T_co: ...


class Pool(Protocol[_T]):
    """A pool that runs calls. On exit from its `with` block, it waits for running calls and starts no others.

    An interrupt need not wait: the caller removes the output of unfinished calls.

    Attributes:
        jobs: the number of calls that run at the same time.
        may_retry: whether a call may run more than once, even at the same time. Each run must then write to its own
            place.
    """

    jobs: int
    may_retry: bool

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call. It must be picklable unless it runs in this process."""

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait until one of these calls has ended; return its future and its result.

        Raises:
            OSError: the process that ran the call has died.
            Exception: the call's own error.
        """


class Workers(Generic[_T]):
    """A `Pool` on this machine.

    Args:
        jobs: the number of calls that run at the same time; 1: one after the other, in this process.
        progress: called in this process with a call's name and the bytes done since its last report.
    """

    may_retry = False

    def __init__(self, jobs: int, progress: Progress) -> None:
        if jobs < 1:
            raise ValueError(f"{jobs} jobs: at least 1 needed")
        self.jobs = jobs
        self._progress = progress
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            # Spawn, because a forked process would inherit locks of threads that do not exist in it.
            context = multiprocessing.get_context("spawn")
            self._queue: SimpleQueue[tuple[str, int]] = context.SimpleQueue()
            # This pipe carries no data. Only this process holds one end: when it closes, in whatever way this process
            # ends, the workers end, too.
            self._watched, self._held = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(jobs, context, _start, (self._queue, self._watched))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is not None:
            if kind is not None and not issubclass(kind, Exception):
                self._held.close()
            self._pool.shutdown(cancel_futures=True)
            self._held.close()
            self._watched.close()
            self._queue.close()

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call; see `Pool`."""
        if self._pool is not None:
            with _surviving():
                return self._pool.submit(_remote, name, call)
        future: Future[_T] = Future()
        try:
            future.set_result(call(progress=lambda count: self._progress(name, count)))
        except Exception as error:  # noqa: BLE001 - `first_completed` raises it
            future.set_exception(error)
        return future

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait for one of these calls; see `Pool`."""
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
            "a worker process ended: it was killed, perhaps for lack of memory (fewer jobs need less), or the script "
            'that started it lacks `if __name__ == "__main__":` around its work'
        )
        raise OSError(errno.ECHILD, what) from error


def _start(queue: SimpleQueue[tuple[str, int]], parent: Connection) -> None:
    # A terminal sends interrupts to workers, too. They ignore them: their parent ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _queues.append(queue)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """End this process as soon as its parent has ended. The parent's lock on the output ends with the parent."""
    parent.poll(None)
    os._exit(1)


def _remote(name: str, call: Call[_T]) -> _T:
    """Run a call in a worker. Send its progress at intervals only: a full pipe would block the call."""
    waiting, last = 0, time.monotonic()

    def progress(count: int) -> None:
        nonlocal waiting, last
        waiting += count
        if time.monotonic() - last >= _SECONDS:
            _queues[0].put((name, waiting))
            waiting, last = 0, time.monotonic()

    result = call(progress=progress)
    _queues[0].put((name, waiting))
    return result
