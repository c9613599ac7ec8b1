"""Checks of arguments, and the errors for unknown names and numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import SupportsIndex, TypeVar

from brokerless.wording import option

_T = TypeVar("_T")

Time = int | str | datetime
"""A point in time: ms since 1970, a datetime, or ISO 8601 text. A time without a zone is UTC."""

_TIMES = "ms since 1970, a datetime, or ISO 8601 (2024-05-01T12:00)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_MAX = (1 << 63) - 1
# The maximum number of names that a message lists.
FEW = 5
# How similar a name is, from 0 to 1, to be what a typing mistake meant: a word of five letters with one wrong has 0.8.
_LIKE = 0.65
_SOME = 8
# The command that lists all names of a kind.
_LISTS = {"topic": "brokerless ls", "group": "brokerless groups", "finding": "brokerless finding"}


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """Build the ValueError for an unknown name, with the nearest known name as a suggestion.

    >>> unknown("topic", "ordres", ["orders", "users"])
    ValueError("unknown topic 'ordres': did you mean 'orders'?")
    >>> unknown("topic", "ORDERS", ["orders", "users"])
    ValueError("unknown topic 'ORDERS': did you mean 'orders'?")
    >>> unknown("topic", "multi", ["multi-partition", "users"])
    ValueError("unknown topic 'multi': did you mean 'multi-partition'?")
    >>> unknown("topic", "x", map(str, range(100)))
    ValueError("unknown topic 'x': there are 0, 1, 10, 11, 12, 13, 14, 15 and 92 others; `brokerless ls` lists them")
    """
    import difflib  # noqa: PLC0415 - slow to import, and needed only after a typing mistake

    names = sorted(set(known))
    # A name that differs only in case counts as the nearest.
    folded = {known_name.casefold(): known_name for known_name in names}
    nearest = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=_LIKE)
    if not nearest and len(name) > 2:
        # Somebody typed a part of it.
        whole = [one for one in folded if name.casefold() in one]
        nearest = whole if len(whole) == 1 else []
    if nearest:
        return ValueError(f"unknown {kind} {name!r}: did you mean {folded[nearest[0]]!r}?")
    # One more name is as short as "and 1 other".
    shown = len(names) if len(names) <= _SOME + 1 else _SOME
    some = ", ".join(names[:shown]) + (f" and {len(names) - shown} others" if shown < len(names) else "")
    lists = f"; `{_LISTS[kind]}` lists them" if kind in _LISTS and shown < len(names) else ""
    return ValueError(f"unknown {kind} {name!r}: {_there_are(len(names), some)}{lists}")


def unknown_partition(partition: int, known: Iterable[int]) -> ValueError:
    """Build the ValueError for an unknown partition, with a list of the known partitions.

    >>> unknown_partition(77, [0, 1, 2, 5])
    ValueError('unknown partition 77: there are 0 to 2, 5')
    """
    runs: list[range] = []
    for number in sorted(known):
        start = runs.pop().start if runs and runs[-1].stop == number else number
        runs.append(range(start, number + 1))
    texts = [str(run.start) if len(run) == 1 else f"{run.start} to {run[-1]}" for run in runs]
    some = ", ".join(texts[:_SOME]) + (", ..." if len(texts) > _SOME else "")
    return ValueError(f"unknown partition {partition}: {_there_are(sum(map(len, runs)), some)}")


def _there_are(count: int, some: str) -> str:
    return f"there {'is' if count <= 1 else 'are'} {some or 'none'}"


def check_several(name: str, values: object) -> None:
    """Refuse a string in place of a list, because iteration over it would yield single letters.

    >>> check_several("topics", "orders")
    Traceback (most recent call last):
    TypeError: topics: a list is expected, not the string 'orders'; give ['orders']
    """
    if isinstance(values, str | bytes):
        raise TypeError(f"{option(name)}: a list is expected, not the string {values!r}; give [{values!r}]")


def check_paths(function: str, paths: Iterable[object]) -> None:
    """Refuse a list of paths in place of paths as separate arguments.

    >>> check_paths("check", (["a", "b"],))
    Traceback (most recent call last):
    TypeError: check takes paths as separate arguments: check(*paths), not a list of paths
    """
    for path in paths:
        if not isinstance(path, str | bytes | os.PathLike):
            found = f"a {type(path).__name__}" if path is not None else "None"
            of_paths = " of paths" if isinstance(path, Iterable) else ""
            raise TypeError(f"{function} takes paths as separate arguments: {function}(*paths), not {found}{of_paths}")


def some_or_all(name: str, values: Iterable[_T] | None) -> list[_T] | None:
    """Return the values of an argument that selects some of several, such as topics; None selects all.

    An empty list is refused. It usually comes from a search that found nothing. If it meant "all", the caller would be
    surprised; if it meant "none", a check of nothing would report that all is well.

    Raises:
        TypeError: a string is given instead of a list.
        ValueError: the list is empty.

    >>> some_or_all("topics", ("orders",)), some_or_all("topics", None)
    (['orders'], None)
    >>> some_or_all("topics", [])
    Traceback (most recent call last):
    ValueError: topics: the list is empty; None selects all
    """
    if values is None:
        return None
    check_several(name, values)
    chosen = list(values)
    if not chosen:
        raise ValueError(f"{option(name)}: the list is empty; None selects all")
    return chosen


def check_partition(number: object) -> None:
    """Refuse a string in place of a partition number, because it would match no partition."""
    if isinstance(number, str):
        raise TypeError(f"partition: a number is expected, not the string {number!r}")


def check_number(name: str, value: object, lowest: int, hint: str = "") -> None:
    """Refuse a value that is not an integer or is below `lowest`.

    >>> check_number("memory", "512MiB", 1)
    Traceback (most recent call last):
    TypeError: memory: an integer is expected, not '512MiB'
    """
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"{option(name)}: an integer is expected, not {value!r}")
    if value.__index__() < lowest:
        raise ValueError(f"{option(name)}={value}: {lowest} or more needed{hint}")


def _prefix(name: str) -> str:
    return f"{option(name)}: " if name else ""


def to_ms(name: str, time: object, forms: str = _TIMES) -> int:
    """Return a `Time` as ms since 1970, rounded up, so that records within its millisecond are earlier.

    Integers are returned unchanged. Brokers give negative integers a meaning, such as -1 for the log end.

    Raises:
        ValueError: the time is before 1970, or the text is not a time.
        TypeError: the argument is of another type.

    >>> to_ms("start_timestamp", "2024-05-01T12:00")
    1714564800000
    >>> to_ms("start_timestamp", "soon")
    Traceback (most recent call last):
    ValueError: start_timestamp: 'soon' is not a time: give ms since 1970, a datetime, or ISO 8601 (2024-05-01T12:00)
    """
    if isinstance(time, SupportsIndex):
        return time.__index__()
    if isinstance(time, str):
        if re.fullmatch(r"-?\d{1,19}", time) and -_LONG_MAX <= int(time) <= _LONG_MAX:
            return int(time)
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            raise ValueError(f"{_prefix(name)}{time!r} is not a time: give {forms}") from None
    elif isinstance(time, datetime):
        moment = time
    else:
        raise TypeError(f"{option(name)}: ms since 1970, a datetime or ISO 8601 text is expected, not {time!r}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if moment < _EPOCH:
        # Kafka gives negative timestamps another meaning: -1 is the log end.
        raise ValueError(f"{_prefix(name)}{time!s} is before 1970: no record has such a time")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def listed_few(names: Iterable[str], count: int | None = None) -> str:
    """Return some names, separated by commas, and the number of other names.

    Args:
        names: all names, or at least the first `FEW` of them.
        count: the number of all names; None if `names` has all.

    >>> listed_few("abcdefg"), listed_few("abcde", 1000)
    ('a, b, c, d, e, and 2 more', 'a, b, c, d, e, and 995 more')
    """
    every = list(names)
    left = (len(every) if count is None else count) - FEW
    more = [f"and {left} more"] if left > 0 else []
    return ", ".join([*every[:FEW], *more])
