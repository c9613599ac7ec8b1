"""Interrupts that wait for the end of a change, so that a signal leaves no file half done.

A signal handler calls `interrupt`. The call raises immediately or, if the main thread is in a `deferred` block, at the
end of the block. A handler that raises by itself, such as Python's handler for SIGINT, does not wait for the end of the
block. It may leave the directory as a crash would, and the next process that opens the directory recovers it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Deferred:
    """The blocks that the main thread is in, and the interrupt that waits for their end."""

    blocks = 0
    waiting: BaseException | None = None


def interrupt(error: BaseException) -> None:
    """Raise an error immediately, or after the block that defers it. Signal handlers call this function.

    Only the main thread handles signals, and other threads defer nothing.
    """
    if not _Deferred.blocks:
        raise error
    _Deferred.waiting = error


@contextmanager
def deferred() -> Iterator[None]:
    """Defer an interrupt to the end of the block. The block must be short, and wait for no other thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Deferred.blocks += 1
    try:
        yield
    finally:
        _Deferred.blocks -= 1
        if not _Deferred.blocks and _Deferred.waiting is not None:
            waiting, _Deferred.waiting = _Deferred.waiting, None
            raise waiting
