"""Threads that say their notes where the thread that submitted their calls does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class Threads(ThreadPoolExecutor):
    """A pool of threads, in which `note` goes to the collector around `submit` or `map`."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as its base
        """Submit a call."""
        return super().submit(copy_context().run, call, *args, **kwargs)
