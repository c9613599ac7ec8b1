"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.cli import terminal
from brokerless.wording import printable

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
