"""The parts of a page: sections, charts, tables and their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from markupsafe import Markup

from brokerless.reporting.texts import count, finding, labelled, paragraphs, path, severity, shown, with_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_ROWS = 500
"""The most rows of a table: a page with more is slow to open."""

_TEXTS = (shown, Markup, finding, labelled, paragraphs, path, severity, with_code)
_PROSE = (labelled, paragraphs)
_MOST_IN_LINE = 48


class Column(NamedTuple):
    title: str
    is_number: bool = False
    is_prose: bool = False

    @property
    def kind(self) -> str:
        """The class of its cells in the style sheet."""
        return "number" if self.is_number else "prose" if self.is_prose else ""


class Cell(NamedTuple):
    text: str
    sort: object = None

    @property
    def is_long(self) -> bool:
        """True if the text may take several lines. The page never breaks the words of others."""
        text = self.text.striptags() if isinstance(self.text, Markup) else self.text
        return len(text) > _MOST_IN_LINE


class Table(NamedTuple):
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    more: str = ""
    has_cards: bool = False
    """True if a phone shows each row as a card. The script labels its cells, which keeps the page small."""

    folds: bool = False
    """True if a phone shows the table only after a click."""

    @property
    def has_prose(self) -> bool:
        """True if rows have sentences, so that a narrow screen shows each row as a card."""
        return any(column.is_prose for column in self.columns)

    @property
    def attributes(self) -> list[tuple[str, Markup]]:
        """The class and the label of the cells of each column."""
        labels = [Markup(' data-label="{}"').format(column.title) for column in self.columns]
        return [
            (column.kind, label if self.has_prose else Markup())
            for column, label in zip(self.columns, labels, strict=True)
        ]


class Chart(NamedTuple):
    """A chart, and the same as a wide one if it is alone in its section."""

    title: str
    svg: str
    legend: Sequence[str] = ()
    wide: str = ""


class Details(NamedTuple):
    """Tables that show after a click."""

    name: str
    title: str
    about: str
    tables: Sequence[Table]
    is_alarm: bool = False


class Section(NamedTuple):
    name: str
    title: str
    about: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    details: Sequence[Details] = ()
    more: str = ""
    short: str = ""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to show."""
        return not self.charts and not self.details and not any(table.rows for table in self.tables)


class Tile(NamedTuple):
    value: str
    what: str
    alarm: bool = False
    small: str = ""


def rows_of(
    table: pa.Table, columns: Sequence[tuple[str, Any, Callable[[Any], str]]], most: int | None = None
) -> tuple[list[Column], list[list[Cell]], int]:
    """Return the columns and the first rows of a table, and the number of all rows.

    Args:
        table: the table.
        columns: for each column, the title, a column or a function of a row, and the function that formats it as text.
        most: the most rows; None: `MOST_ROWS`.
    """
    head = table.slice(0, MOST_ROWS if most is None else most)
    for number, column in enumerate(head.columns):
        if isinstance(column.type, pa.TimestampType):
            head = head.set_column(number, head.schema.field(number).name, column.cast(pa.int64()))
    found = []
    for row in head.to_pylist():
        cells = []
        for _, value, text in columns:
            one = value(row) if callable(value) else row[value]
            is_number = text not in _TEXTS
            cells.append(Cell("-" if one is None else text(one), one if is_number else None))
        found.append(cells)
    titles = [Column(title, text not in _TEXTS, text in _PROSE) for title, _, text in columns]
    return titles, found, table.num_rows


def table_of(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], total: int = 0, *more: int
) -> Table:
    total = max(total, *more, len(rows)) if more else max(total, len(rows))
    rest = total - len(rows)
    return Table(title, columns, rows, f"{count(rest)} more are not shown." if rest else "")
