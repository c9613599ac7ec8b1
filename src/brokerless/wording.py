"""How messages word the options of a call: as Python, the command line or Spark takes them.

The code that finds something wrong names an option with `option`, or puts a `Remedy` into an error. The face through
which the call came words it: `sole_replica`, `--sole-replica` or `soleReplica`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Face = Callable[[str, str | None], str]
    """Words an option, given by its name in Python, and perhaps its value."""


_MOST_QUOTED = 15


def python(name: str, value: str | None = None) -> str:
    """Word an option as Python takes it.

    >>> python("sole_replica"), python("on_corrupt", "skip")
    ('sole_replica', 'on_corrupt="skip"')
    """
    return name if value is None else f'{name}="{value}"'


def spark(name: str, value: str | None = None) -> str:
    """Word an option as Spark takes it.

    >>> spark("sole_replica"), spark("on_corrupt", "skip")
    ('soleReplica', '.option("onCorrupt", "skip")')
    """
    first, *others = name.split("_")
    camel_case = first + "".join(map(str.capitalize, others))
    return camel_case if value is None else f'.option("{camel_case}", "{value}")'


def excerpt(content: object) -> str:
    """Quote what a file holds: a few letters, for the file may be a link to one that is not to be shown.

    >>> excerpt("x"), excerpt("-----BEGIN OPENSSH PRIVATE KEY-----")
    ("'x'", "'-----BEGIN OPEN'...")
    """
    text = content if isinstance(content, str) else repr(content)
    shown = text[:_MOST_QUOTED]
    quoted = repr(shown) if isinstance(content, str) else shown
    return quoted if shown == text else f"{quoted}..."


_FACE: ContextVar[Face] = ContextVar("brokerless.wording", default=python)


@contextmanager
def worded_for(face: Face) -> Iterator[None]:
    """Word messages for a face in the `with` block."""
    token = _FACE.set(face)
    try:
        yield
    finally:
        _FACE.reset(token)


def option(name: str, value: str | None = None) -> str:
    """Word an option for the face through which the call came.

    >>> with worded_for(spark):
    ...     option("start_offset")
    'startOffset'
    """
    return _FACE.get()(name, value)


def current_face() -> Face:
    """Return the face through which the call came."""
    return _FACE.get()


class Remedy(NamedTuple):
    """What to do about an error: a text with `{}` for each option, and the options with their values.

    >>> str(Remedy("a read can skip it ({})", [("on_corrupt", "skip")]))
    'a read can skip it (on_corrupt="skip")'
    """

    text: str
    options: list[tuple[str, str | None]] = []  # noqa: RUF012 - nothing changes it

    def worded(self, face: Face) -> str:
        """Return the text for a face."""
        return self.text.format(*(face(*one) for one in self.options))

    def __str__(self) -> str:
        return self.worded(_FACE.get())
