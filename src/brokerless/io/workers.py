"""Calls that are made here, or elsewhere, several at a time; what they report meanwhile comes back too.

`Pool` is what they are handed to. `Workers` makes them in this process or in others on this machine.
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
# More would wait for one file.
_MAX_THREADS = 4
# In a worker: where its progress goes. A queue cannot be sent with a call, only be there from the start.
_queues: list[SimpleQueue[tuple[str, int]]] = []


def threads() -> int:
    """Return how many threads may share the work on a log here.

    A process that is one of several takes one. Else the cores that it may use, or what `OMP_NUM_THREADS` says: Spark
    sets that to the cores of a task.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MAX_THREADS, int(given) if given.isdecimal() and int(given) else cores)


class Call(Protocol[_T_co]):
    """Something to be done; `progress` takes the bytes that it did since the last time."""

    def __call__(self, *, progress: Callable[[int], None]) -> _T_co: ...


class Pool(Protocol[_T]):
    """Where calls are made. A context manager: leaving it waits for those that have begun, and makes no others.

    An interrupt need not wait: who has calls made removes what those wrote that came to no end.

    Attributes:
        jobs: how many at a time.
        repeats: a call may be made more than once, also at the same time: what it writes has to be apart each time.
    """

    jobs: int
    may_retry: bool

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Have a call made; picklable unless it is made here."""

    def first_completed(self, futures: Collection[Future[_T]]) -> tuple[Future[_T], _T]:
        """Wait until one of these calls has come to its end; return it, and its result.

        Raises:
            OSError: where it was made is gone.
            And what the call raised.
        """


class Workers(Generic[_T]):
    """A `Pool` on this machine.

    Args:
        jobs: how many at a time; 1: one after the other, in this process.
        progress: called here with a call's name and the bytes it did since the last time.
    """

    may_retry = False

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
            # Nothing is sent. One end is only here: that it is gone tells workers to end, however this process ended.
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
        """Have a call made; see `Pool`."""
        if self._pool is not None:
            with _surviving():
                return self._pool.submit(_remote, name, call)
        future: Future[_T] = Future()
        try:
            future.set_result(call(progress=lambda count: self._progress(name, count)))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
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
            "a worker process ended: killed, perhaps for lack of memory (fewer jobs need less), or started by a script "
            'that does not say `if __name__ == "__main__"` before it begins its work'
        )
        raise OSError(errno.ECHILD, what) from error


def _start(queue: SimpleQueue[tuple[str, int]], parent: Connection) -> None:
    # A terminal interrupts workers too, whose parent ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _queues.append(queue)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """End this process at once when its parent has gone, and with it the lock on what calls write."""
    parent.poll(None)
    os._exit(1)


def _remote(name: str, call: Call[_T]) -> _T:
    """Make a call in a worker. Its progress is sent now and then: a full pipe would stop it."""
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
