"""Output with control characters escaped: of lines of text everywhere, of data on a terminal. Colour on a terminal.

Names, keys and values are foreign data: see `wording.printable`, which all lines of text go through. Pipes and files
get the data of records unchanged.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from brokerless import errors
from brokerless.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

# C0 except line ends and tabs, DEL, C1 (U+009B begins a sequence as ESC [ does), bytes that are not UTF-8, and the
# categories Cf, Zl and Zp: characters that reverse the direction of a line, end it or are invisible.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufeff\ufff9-\ufffb\udc80-\udcff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
_HINT = "\nhint: "
_COLOURS = {
    **dict.fromkeys(("error", "lost", "damaged", "brokerless"), "red"),
    **dict.fromkeys(("warning", "perhaps lost", "doubt", "suspect"), "yellow"),
    **dict.fromkeys(("note", "hint"), "cyan"),
    **dict.fromkeys(("next", "cure"), "green"),
}
_FIRST_WORD = re.compile(rf"(?:{'|'.join(_COLOURS)})(?=[ :])")


def escaped(text: str) -> str:
    r"""Return lines of data with the characters escaped that a terminal would obey. JSON stays JSON.

    >>> print(escaped("\x1b[2J"))
    \u001B[2J
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))


def say(line: object, *, err: bool = False) -> None:
    """Print a line of text on stdout or stderr, and the hint of an error on a line of its own."""
    text = _HINT.join(map(printable, str(line).split(_HINT, 1)))
    stream = sys.stderr if err else sys.stdout
    behind = _terminal_behind(stream)
    first = _FIRST_WORD.match(text)
    if behind is None or first is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        click.echo(text, err=err)
        return
    stream.flush()
    behind.write(click.style(first[0], fg=_COLOURS[first[0]]) + text[first.end() :] + "\n")
    behind.flush()


def in_words(error: OSError) -> str:
    """Return the reason and the path of an operating system's error, with a hint if permission is missing."""
    text = errors.in_words(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        text += f"{_HINT}run it as the user of the broker, or as another user who may use this path"
    return text


def _terminal_behind(stream: TextIO) -> TextIO | None:
    """Return the terminal that a stream escapes for; None: it is a pipe or a file."""
    is_terminal = isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, _Escaping)
    return stream.buffer.terminal if is_terminal else None  # type: ignore[attr-defined] # an `_Escaping`


def as_typed(*words: str) -> str:
    """Return a command as it is typed in a shell."""
    import shlex

    return shlex.join(words)


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
        # Flush each line at once, as a terminal does.
        return io.TextIOWrapper(escaping, encoding="utf-8", errors="surrogateescape", write_through=True)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")
    return stream


def overwrite(text: str, width: int) -> None:
    """Overwrite a line of this width on stderr, and leave the cursor in it."""
    stream = _terminal_behind(sys.stderr) or sys.stderr
    stream.write(f"\r{printable(text):<{width}}\r")
    stream.flush()
