"""Notes: information that a caller gets beside a result, such as a doubt about the records read.

Code calls `note` with the text. The innermost `collected` block around the call gets the text, and adds it to its list
of notes. Without such a block, the note becomes a Python warning at the line of the caller's code. Each thread has its
own collectors, which other threads do not affect.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

# The package, and the standard modules that call its properties and context managers.
_OURS = (os.path.join(os.path.dirname(os.path.abspath(__file__)), ""), functools.__file__, contextlib.__file__)
_TAKE: ContextVar[Callable[[str], None] | None] = ContextVar("brokerless.notes", default=None)


class LeftOut(str):
    """A note on rows that are left out although nothing is damaged: no path has them, or they take too much memory."""

    __slots__ = ()


def note(text: str) -> None:
    """Pass a note to the caller: a sentence that belongs to the result.

    >>> with collected() as notes:
    ...     note("orders-0: offsets 3 to 4 may be missing")
    >>> notes
    ['orders-0: offsets 3 to 4 may be missing']
    """
    take = _TAKE.get()
    if take is None:
        warnings.warn(text, stacklevel=_level_of_caller())
    else:
        take(text)


@contextmanager
def notes_to(take: Callable[[str], None] | None) -> Iterator[None]:
    """Pass each note of the `with` block to a function immediately; if `take` is None, make it a Python warning."""
    token = _TAKE.set(take)
    try:
        yield
    finally:
        _TAKE.reset(token)


@contextmanager
def collected(*, forwards: bool = False) -> Iterator[list[str]]:
    """Collect the notes of the `with` block. The block must not contain `yield`, so that it ends in the same call.

    Args:
        forwards: also pass each note to the collector around the block.
    """
    notes: list[str] = []
    outer = _TAKE.get()

    def take(text: str) -> None:
        notes.append(text)
        if forwards:
            with notes_to(outer):
                note(text)

    with notes_to(take):
        yield notes


def _level_of_caller() -> int:
    """Return the stack level, counted from `note`, of the first frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as `warnings` itself finds the line
    level = 1
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_OURS):
        frame, level = frame.f_back, level + 1
    return level
