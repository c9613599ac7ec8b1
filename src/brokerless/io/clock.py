"""The clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the current time in ms since the epoch."""
    return time.time_ns() // 1_000_000
