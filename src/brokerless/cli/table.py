"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.cli import terminal
from brokerless.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str], err: bool = False
) -> None:
    """Print rows under their headings; columns of numbers are right-aligned."""
    table = [headings, *([printable(text) for text in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    for row in table:
        cells = (
            text.rjust(width) if heading in numbers else text.ljust(width)
            for heading, text, width in zip(headings, row, widths, strict=True)
        )
        terminal.say("  ".join(cells).rstrip(), err=err)


def in_words(milliseconds: int) -> str:
    """Return a duration in the largest unit that it fills.

    >>> in_words(8 * 86_400_000), in_words(3_600_000), in_words(1_999)
    ('8 days', '1 hour', '1 second')
    """
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        count = milliseconds // length
        if count:
            return counted(count, unit)
    return f"{milliseconds} ms"
