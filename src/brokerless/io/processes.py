"""A `Runner` of processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.io.runner import SECONDS, Remote, Runner, surviving

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.queues import SimpleQueue
    from types import TracebackType

    from brokerless.io.runner import Call, Progress

_T = TypeVar("_T")
# In a worker: the queue for its progress. A queue cannot be sent with a call, but only be passed at the start.
_queues: list[SimpleQueue[tuple[str, int]]] = []


class Processes(Runner):
    """A `Runner` that makes calls in processes of this machine.

    Args:
        jobs: the number of processes. With 1, each call runs in this process when it is submitted.
        progress: see `Runner`.
    """

    def __init__(self, jobs: int, progress: Progress = lambda _name, _read: None) -> None:
        super().__init__(jobs, progress)
        if jobs == 1:
            self._executor = _ThisThread()
            return
        # Spawn, because a forked process would inherit locks of threads that do not exist in it.
        context = multiprocessing.get_context("spawn")
        self._counts = self._queue = context.SimpleQueue()
        # This pipe carries no data. Only this process holds one end: when it closes, in whatever way this process
        # ends, the workers end, too.
        self._watched, self._held = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(jobs, context, _start, (self._queue, self._watched))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.jobs > 1 and kind is not None and not issubclass(kind, Exception):
            self._held.close()
        super().__exit__(kind, error, at)
        if self.jobs > 1:
            self._held.close()
            self._watched.close()
            self._queue.close()

    def submit(self, name: str, call: Call[_T]) -> Future[_T]:
        """Submit a call; see `Runner`."""
        if self.jobs == 1:
            return self._executor.submit(call, progress=partial(self._progress, name))
        with surviving():
            # `first_completed` and `map` unwrap the result.
            noted: Any = self._executor.submit(_remote, name, Remote(call))
        return noted  # type: ignore[no-any-return]


class _ThisThread(Executor):
    """An executor that makes each call immediately, in this thread."""

    def submit(self, call: Callable[..., _T], /, *arguments: Any, **options: Any) -> Future[_T]:  # noqa: ANN401 - the call's own
        future: Future[_T] = Future()
        try:
            future.set_result(call(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - `first_completed` raises it
            future.set_exception(error)
        return future


def _start(queue: SimpleQueue[tuple[str, int]], parent: Connection) -> None:
    # A terminal sends interrupts to workers, too. Workers ignore them, because their parent ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _queues.append(queue)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """End this process as soon as its parent has ended: the output is then no longer protected by the parent's lock."""
    parent.poll(None)
    os._exit(1)


def _remote(name: str, call: Call[_T]) -> _T:
    """Run a call in a worker. Send its progress only at intervals, because a full pipe would block the call."""
    waiting, last = 0, time.monotonic()

    def progress(count: int) -> None:
        nonlocal waiting, last
        waiting += count
        if time.monotonic() - last >= SECONDS:
            _queues[0].put((name, waiting))
            waiting, last = 0, time.monotonic()

    result = call(progress=progress)
    _queues[0].put((name, waiting))
    return result
