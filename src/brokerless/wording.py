"""Wording of a call's options in messages, as Python, the command line or Spark names them.

Code that detects an error names an option with `option`, or puts a `Remedy` into the error. The interface through which
the call came determines the form: `sole_replica`, `--sole-replica` or `soleReplica`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Face = Callable[[str, str | None], str]
    """Words an option, given by its name in Python, and perhaps its value."""


_MOST_QUOTED = 15


def python(name: str, value: str | None = None) -> str:
    """Word an option as in Python code.

    >>> python("sole_replica"), python("on_corrupt", "skip")
    ('sole_replica', 'on_corrupt="skip"')
    """
    return name if value is None else f'{name}="{value}"'


def spark(name: str, value: str | None = None) -> str:
    """Word an option as in Spark code.

    >>> spark("sole_replica"), spark("on_corrupt", "skip")
    ('soleReplica', '.option("onCorrupt", "skip")')
    """
    first, *others = name.split("_")
    camel_case = first + "".join(map(str.capitalize, others))
    return camel_case if value is None else f'.option("{camel_case}", "{value}")'


def excerpt(content: object) -> str:
    """Quote only the first few characters of a file's content, because the file may be a link to a secret file.

    >>> excerpt("x"), excerpt("-----BEGIN OPENSSH PRIVATE KEY-----")
    ("'x'", "'-----BEGIN OPEN'...")
    """
    text = content if isinstance(content, str) else repr(content)
    shown = text[:_MOST_QUOTED]
    quoted = repr(shown) if isinstance(content, str) else shown
    return quoted if shown == text else f"{quoted}..."


def printable(text: str) -> str:
    r"""Return text on one line, with every invisible character escaped as in `repr`.

    Names are foreign data. An escape sequence could rename the window of a terminal, a line end could forge a line of
    output, and U+202E could reverse a line. Invalid UTF-8 is a lone surrogate in Python text, which cannot be encoded.

    >>> print(printable("t\n\x1b[2J\u202e\udcff"))
    t\n\x1b[2J\u202e\udcff
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def moment(timestamp: int | None) -> str:
    """Return a time in ms as text, in UTC; "-" for none.

    >>> moment(1_700_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    if timestamp is None:
        return "-"
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "record"), counted(1200, "record")
    ('1 record', '1,200 records')
    """
    return f"{number:,} {noun}{'s'[: number != 1]}"


def conjoined(words: Sequence[str]) -> str:
    """Join words as in a sentence.

    >>> conjoined(["a"]), conjoined(["a", "b"]), conjoined(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), *words[-1:]][len(words) < 2 :])


def duration(milliseconds: int) -> str:
    """Return a duration in the largest unit that it fills.

    >>> duration(8 * 86_400_000), duration(3_600_000), duration(1_999)
    ('8 days', '1 hour', '1 second')
    """
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        count = milliseconds // length
        if count:
            return counted(count, unit)
    return f"{milliseconds} ms"


def in_bytes(count: int) -> str:
    """Return a number of bytes, rounded up, in the largest unit in which it has at least two digits.

    >>> in_bytes(512), in_bytes(12_500), in_bytes(2_000_000), in_bytes(2_300_000_000)
    ('512 bytes', '13 KB', '2 MB', '2300 MB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= 10 * size or (count >= size and count % size == 0):
            return f"{-(-count // size)} {unit}"
    return counted(count, "byte")


_FACE: ContextVar[Face] = ContextVar("brokerless.wording", default=python)


@contextmanager
def worded_for(face: Face) -> Iterator[None]:
    """Word messages for an interface in the `with` block."""
    token = _FACE.set(face)
    try:
        yield
    finally:
        _FACE.reset(token)


def option(name: str, value: str | None = None) -> str:
    """Word an option for the interface through which the call came.

    >>> with worded_for(spark):
    ...     option("start_offset")
    'startOffset'
    """
    return _FACE.get()(name, value)


def current_face() -> Face:
    """Return the interface through which the call came."""
    return _FACE.get()


class Remedy(NamedTuple):
    """The remedy for an error: a text with `{}` for each option, and the options with their values.

    >>> str(Remedy("a read can skip it ({})", [("on_corrupt", "skip")]))
    'a read can skip it (on_corrupt="skip")'
    """

    text: str
    options: list[tuple[str, str | None]] = []  # noqa: RUF012 - nothing changes it

    def worded(self, face: Face) -> str:
        """Return the text for an interface."""
        return self.text.format(*(face(*one) for one in self.options))

    def __str__(self) -> str:
        return self.worded(_FACE.get())
