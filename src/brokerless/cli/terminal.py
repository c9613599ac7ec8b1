"""Output with control characters escaped: of lines of text everywhere, of data on a terminal.

Names, keys and values are foreign data: a line end in a name would make up a line of output, and an escape sequence
could move the cursor, rename the window or overwrite earlier lines. Pipes and files get the data of records unchanged.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

# C0 except line ends and tabs, DEL, C1 (U+009B begins a sequence as ESC [ does), and bytes that are not UTF-8.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HINT = "\nhint: "


def escaped(text: str) -> str:
    r"""Return text with its control characters escaped. JSON stays JSON.

    >>> print(escaped("\x1b[2J"))
    \u001B[2J
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04X}" if code < 0xDC80 else f"\\x{code - 0xDC00:02x}"


def name(text: str) -> str:
    r"""Return a name for a line of text, with its control characters escaped, and its line ends and tabs too.

    Bytes that are not UTF-8 stay: only a terminal could be harmed by them.

    >>> print(name("t\nerror 0"))
    t\nerror 0
    """
    return _CONTROLS.sub(_written_out, text).replace("\n", "\\n").replace("\t", "\\t")


def say(line: object, *, err: bool = False) -> None:
    """Print a line of text on stdout or stderr, and the hint of an error on a line of its own."""
    parts = str(line).split(_HINT, 1)
    click.echo(_HINT.join(map(name, parts)), err=err)


class _Escaping(io.BufferedIOBase):
    """A stream of UTF-8 bytes to a terminal. No character is split between two writes."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self.terminal = terminal

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.terminal.fileno()

    def write(self, content: ReadableBuffer, /) -> int:
        text = bytes(content)
        self.terminal.buffer.write(escaped(text.decode(errors="surrogateescape")).encode())
        return len(text)

    def flush(self) -> None:
        self.terminal.flush()


@contextmanager
def harmless() -> Iterator[None]:
    """Escape control characters if stdout or stderr is a terminal; otherwise pass the bytes of names unchanged."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _stream(sys.stdout), _stream(sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream not in before:
                stream.flush()
        sys.stdout, sys.stderr = before


def _stream(stream: TextIO) -> TextIO:
    if stream.isatty():
        escaping: Any = _Escaping(stream)
        # Write through at once, like a terminal's line buffering.
        return io.TextIOWrapper(escaping, encoding="utf-8", errors="surrogateescape", write_through=True)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")
    return stream


def overwrite(text: str, width: int) -> None:
    """Overwrite a line of this width on stderr, and leave the cursor in it."""
    stream = sys.stderr
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, _Escaping):
        stream = stream.buffer.terminal
    stream.write(f"\r{escaped(text):<{width}}\r")
    stream.flush()
