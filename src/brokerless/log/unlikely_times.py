"""Timestamps that no producer intends: in the future, from an unset clock, or in another unit than Kafka's ms."""

from __future__ import annotations

from datetime import UTC, datetime

DAY_MS = 86_400_000
# Seconds since 1970 for the years 2001 to 2286, read as ms, fall in January to April 1970.
_SECONDS = range(10**9, 10**10)
_LEAST_MICROSECONDS, _LEAST_NANOSECONDS = 10**14, 10**17


def other_unit(timestamp: int) -> str | None:
    """Return the likely unit of a timestamp that is hardly in ms; None if it may be in ms.

    >>> other_unit(1_700_000_000), other_unit(1_700_000_000_000)
    ('seconds', None)
    """
    if timestamp in _SECONDS:
        return "seconds"
    if timestamp >= _LEAST_NANOSECONDS:
        return "nanoseconds"
    return "microseconds" if timestamp >= _LEAST_MICROSECONDS else None


def unlikely_time(timestamp: int, now: int) -> str | None:
    """Describe a timestamp in the future, in January 1970, or in another unit than ms; None for any other.

    >>> unlikely_time(1_700_000_000, 1_700_000_000_000)
    'of 1970-01-20, and may be in seconds'
    >>> unlikely_time(0, 1_700_000_000_000)
    'of 1970-01-01, as of a clock that was not set'
    >>> unlikely_time(1_700_000_000_000_000, 1_700_000_000_000)
    'in the future, and may be in microseconds'
    >>> unlikely_time(5_000_000_000_000, 1_700_000_000_000)
    'in the future, on 2128-06-11'
    """
    unit = other_unit(timestamp)
    if unit == "seconds":
        return f"of {_day(timestamp)}, and may be in seconds"
    if 0 <= timestamp < _SECONDS.start:
        return f"of {_day(timestamp)}, as of a clock that was not set"
    # Clocks differ between machines.
    if timestamp <= now + DAY_MS:
        return None
    if unit is not None:
        return f"in the future, and may be in {unit}"
    return f"in the future, on {_day(timestamp)}"


def _day(timestamp: int) -> str:
    return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%Y-%m-%d}"
