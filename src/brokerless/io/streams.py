"""Iterators that threads run ahead of their reader."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from brokerless.io.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

_T = TypeVar("_T")

# The items that each iterator may be ahead.
_ITEMS = 4
# The iterators that may run or wait for each thread: a slow first one must not keep the threads idle.
_STREAMS = 4


def in_order(
    sources: Iterable[Callable[[], Generator[_T, None, None]]], count: int, stop: Callable[[], None] = lambda: None
) -> Generator[_T, None, None]:
    """Yield the items of iterators, one after the other. Threads compute the items of later iterators meanwhile.

    Args:
        sources: called in a thread, each returns an iterator. The next one is taken as threads become free.
        count: the number of threads.
        stop: called if the reader stops early, to end a long step of an iterator.

    Raises:
        Exception: the error of an iterator or of `sources`, raised after all items before it.
    """
    remaining = _with_error(sources)
    running: deque[_Stream[_T]] = deque()
    with Threads(count) as threads:
        try:
            while True:
                while len(running) < _STREAMS * count and (source := next(remaining, None)) is not None:
                    stream = _Stream(source)
                    running.append(stream)
                    threads.start(stream.run)
                if not running:
                    return
                yield from running[0]
                running.popleft()
        finally:
            if running:
                stop()
            for stream in running:
                stream.close()


def _with_error(
    sources: Iterable[Callable[[], Generator[_T, None, None]]],
) -> Iterator[Callable[[], Generator[_T, None, None]]]:
    """Yield sources; after an error, one that raises it in its turn."""
    try:
        yield from sources
    except Exception as error:  # noqa: BLE001 - the reader raises it
        yield partial(_raising, error)


def _raising(error: Exception) -> Generator[Any, None, None]:
    return (_raised(error) for _ in (None,))


def _raised(error: Exception) -> NoReturn:
    raise error


class _Stream(Generic[_T]):
    """The items of an iterator that a thread runs."""

    def __init__(self, source: Callable[[], Generator[_T, None, None]]) -> None:
        self._source = source
        self._items: deque[_T] = deque()
        self._changed = threading.Condition()
        self._is_closed = self._has_ended = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the iterator in this thread, until its end or until the reader closes it."""
        try:
            if not self._is_closed:
                with contextlib.closing(self._source()) as items:
                    for item in items:
                        if not self._has_put(item):
                            break
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            self._error = error
        with self._changed:
            self._has_ended = True
            self._changed.notify()

    def _has_put(self, item: _T) -> bool:
        """Pass an item on as soon as there is room. Return False if the reader has closed the stream."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < _ITEMS or self._is_closed)
            self._items.append(item)
            self._changed.notify()
            return not self._is_closed

    def __iter__(self) -> Iterator[_T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._has_ended)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify()
            yield item
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the iterator after its present step."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
