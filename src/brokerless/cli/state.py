"""The forms in which the verbs of a cluster's state print a table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from brokerless.cli.exit_codes import DAMAGE, WARNINGS, exit_line
from brokerless.cli.options import LocalPath, Progress, as_json, existing_path, format_of, moment, size
from brokerless.cli.table import print_table
from brokerless.notes import LeftOut, collected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

_Command = TypeVar("_Command", bound="Callable[..., Any]")

STATE_EXITS = exit_line(damage="damage made the output incomplete")
# Of verbs whose rows are in several partitions of an internal topic.
COORDINATOR_EXITS = exit_line(
    damage="damage made the output incomplete",
    warnings="rows are left out: no PATH has their partition, or --memory is too small",
)

_ROWS_OF_TEXT = 10_000


def of_state(function: _Command) -> _Command:
    """Add PATH... and the options for the form of the output."""
    for decorate in (
        click.option(
            "--output",
            type=LocalPath(dir_okay=False, allow_dash=True),
            help="Write to this file, which appears when it is finished; - for stdout.",
        ),
        click.option(
            "--format",
            "file_form",
            type=click.Choice(["json", "arrow", "parquet"]),
            help="Format of the output.  [default: by the extension of FILE, else text]",
        ),
        as_json,
        click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path),
    ):
        function = decorate(function)
    return function


at_time = click.option("--as-of", type=moment(), help="Show the state at this time, as far as the logs still have it.")


state_memory = click.option(
    "--memory",
    type=size,
    default="500MB",
    show_default=True,
    help="Memory for records, in addition to one batch. Records that do not fit are left out, and a note names them.",
)


class Point(NamedTuple):
    """A point in a log: a time in ms, or an offset."""

    as_of: int | None = None
    as_of_offset: int | None = None


def point_of(text: str) -> Point:
    """Parse a time, or "offset:N"."""
    word, _, number = text.partition(":")
    if word == "offset":
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not an offset: give offset:N")
        return Point(as_of_offset=int(number))
    return Point(as_of=moment()(text))


def form_of(form: str, file_form: str | None, output: str | None) -> str:
    """Return the form of the output: "text", "json", "arrow" or "parquet"."""
    if form == "json" and file_form not in (None, "json"):
        raise click.UsageError(f"--json and --format {file_form} contradict each other")
    return format_of(output, file_form or ("json" if form == "json" else None)) if output or file_form else form


@contextmanager
def telling() -> Iterator[Sequence[object]]:
    """Show progress. Exit with a code of its own if a note reported that something is not known.

    Yields:
        The notes so far.
    """
    with Progress(prints=True) as progress, collected(forwards=True) as notes:
        progress("reading")
        yield notes
    if notes:
        raise SystemExit(WARNINGS if all(isinstance(one, LeftOut) for one in notes) else DAMAGE)


class TableForm(NamedTuple):
    """The form in which a table is printed.

    Attributes:
        schema: the schema of the rows.
        form: "text", "json", "arrow" or "parquet".
        output: a file; None for stdout.
        headings: the headings of the text table.
        row: returns the cells of a row of the text table.
        numbers: the headings of columns with numbers.
    """

    schema: pa.Schema
    form: str
    output: str | None
    headings: Sequence[str]
    row: Callable[[dict[str, Any]], Sequence[object]]
    numbers: Sequence[str] = ()

    def print_batches(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Print rows that come in batches."""
        from brokerless.cli.output import open_sink

        if self.form == "text":
            self._print_text(map(dicts, batches))
            return
        with open_sink(self.form, self.output, lambda batch: _lines(dicts(batch)), self.schema) as write:
            for batch in batches:
                write(batch)

    def print_rows(self, rows: list[dict[str, Any]]) -> None:
        """Print rows with times in ms. Text and JSON lines need no Arrow then, which is slow to import."""
        if self.form == "text":
            self._print_text([rows])
        elif self.form == "json" and self.output is None:
            click.echo(_lines({name: one.get(name) for name in self.schema.names} for one in rows), nl=False)
        else:
            import pyarrow as pa

            self.print_batches(pa.Table.from_pylist(rows, self.schema).to_batches())

    def _print_text(self, pieces: Iterable[list[dict[str, Any]]]) -> None:
        for rows in large(pieces):
            cells = [["-" if cell is None else str(cell) for cell in self.row(one)] for one in rows]
            print_table(self.headings, cells, numbers=self.numbers)


def large(pieces: Iterable[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in pieces that are large enough for a table with headings; one piece at least."""
    rows: list[dict[str, Any]] = []
    is_first = True
    for piece in pieces:
        rows += piece
        if len(rows) >= _ROWS_OF_TEXT:
            yield rows
            rows, is_first = [], False
    if rows or is_first:
        yield rows


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    from brokerless.metadata.schema import json_text

    return "".join(f"{json_text(one)}\n" for one in rows).encode(errors="surrogateescape")


def dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows with times in ms: a record may have a time that Python has no date for."""
    import pyarrow as pa

    columns = [_in_ms(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist()


def _in_ms(array: pa.Array[Any]) -> pa.Array[Any]:
    import pyarrow as pa

    if isinstance(array, pa.TimestampArray):
        return array.view(pa.int64())
    if isinstance(array, pa.ListArray):
        return pa.ListArray.from_arrays(array.offsets, _in_ms(array.values), mask=array.is_null())
    if isinstance(array, pa.StructArray):
        names = [field.name for field in array.type]
        fields = [_in_ms(array.field(name)) for name in names]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    return array
