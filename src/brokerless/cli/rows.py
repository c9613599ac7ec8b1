"""The records that `read` and `find` print or write: their options, and their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE
from brokerless.cli.options import LocalPath, Progress, decode_options, format_of, isolation_level, moment, offset_or
from brokerless.values.forms import PARTS
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.log.defect import Defect
    from brokerless.log.log import Log
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.values.decoding import Decoding

    Found = Iterator[tuple[pa.RecordBatch, list[Defect]]]

_T = TypeVar("_T")
_Command = TypeVar("_Command", bound="Callable[..., Any]")

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers")
"""The columns that are shown by default."""

# The rows that decide the form of a column of bytes, and the memory after which fewer decide.
_DECIDING_ROWS, _DECIDING_BYTES = 1000, 16 << 20
_UNDECODED = ("keyBytes", "valueBytes")


def _names(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [column.strip() for column in value.split(",")]


def _file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("the name is empty: name a file, or give - for stdout")
    return value


def _all(function: _Command, *decorators: Callable[[Any], Any]) -> _Command:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def range_options(function: _Command) -> _Command:
    """Add the options that choose the records of each partition."""
    return _all(
        function,
        click.option(
            "--start-offset",
            type=offset_or("earliest", "latest", from_end=True),
            help="Start at this offset; -10 is ten offsets before the end of each partition.  [default: earliest]",
        ),
        click.option(
            "--end-offset",
            type=offset_or("latest", "high-watermark"),
            help="Stop before this offset.  [default: latest; high-watermark while a broker runs]",
        ),
        click.option(
            "--start-timestamp",
            type=moment(),
            help="Start at the first record at or after this time. With --start-offset too, the later start counts.",
        ),
        click.option("--end-timestamp", type=moment(), help="Stop before the first record at or after this time."),
        isolation_level,
    )


def row_options(bytes_help: str) -> Callable[[_Command], _Command]:
    """Add the options for the columns, their forms and the output. `bytes_help` begins the help text of --bytes."""

    def add(function: _Command) -> _Command:
        return _all(
            function,
            click.option(
                "--columns",
                callback=_names,
                help="Columns to show, separated by commas. Position, compression and others are not shown by default.",
            ),
            click.option(
                "--on-corrupt",
                type=click.Choice(["raise", "skip"]),
                default="raise",
                show_default=True,
                help="skip leaves damaged batches out and reports the lost offsets.",
            ),
            decode_options,
            click.option("--no-check-crcs", is_flag=True, help="Do not verify checksums."),
            click.option(
                "--bytes",
                "bytes_as",
                type=click.Choice(["utf8", "base64", "hex"]),
                help=f'{bytes_help} With utf8, bytes that are not UTF-8 become {{"base64": ...}}.  '
                "[default: utf8, or that object for each field of a column with other bytes in the first records]",
            ),
            click.option(
                "--format",
                "form",
                type=click.Choice(["json", "arrow", "parquet"]),
                help="Format of the output.  [default: by the extension of FILE, else json]",
            ),
            click.option("--json", "is_json", is_flag=True, help="Print JSON lines, as `--format json`."),
            click.option(
                "--output",
                callback=_file,
                type=LocalPath(dir_okay=False, allow_dash=True),
                help="Write to this file, which appears when it is finished; - for stdout.",
            ),
        )

    return add


def decoding_of(decode: Decoding | None, log_dirs: LogDirs, form: str) -> Decoding | None:
    """Return a decoding with its schemas, for output of this form."""
    if decode is None:
        return None
    return log_dirs.with_schemas(decode.as_text() if form == "json" else decode)


def columns_of(columns: list[str] | None, decoding: Decoding | None) -> Sequence[str]:
    """Return the columns to show: those that are named, else the usual ones."""
    from brokerless.values.row_decoder import default_columns

    return columns or (COLUMNS if decoding is None else default_columns(decoding, COLUMNS))


def write_rows(
    found: Callable[[Progress], Found],
    schema: pa.Schema,
    *,
    form: str,
    output: str | None,
    bytes_as: str | None,
    waits: bool = True,
) -> tuple[int, list[Defect]]:
    """Write rows to stdout or to a file. Return their number, and the losses.

    Args:
        found: called with a progress line, it yields rows, each with all losses so far.
        schema: the schema of the rows.
        form: "json", "arrow" or "parquet".
        output: the file; None or "-" for stdout.
        bytes_as: the form of bytes in JSON; None: the first rows decide.
        waits: whether these are the first 1,000 rows, however they come; else those that come first.
    """
    from brokerless.cli.output import open_sink

    lines = _JsonLines(bytes_as, _DECIDING_ROWS if waits else 1)
    with Progress(prints=output in (None, "-")) as progress, open_sink(form, output, lines, schema) as write:
        met: list[Defect] = []
        written = 0
        rows_ahead = _ahead(found(progress))
        for rows, known in lines.decided(rows_ahead) if form == "json" else rows_ahead:
            if rows.num_rows:
                write(rows)
                written += rows.num_rows
            met = known
    return written, met


class _JsonLines:
    """Rows as JSON lines. If the user chose no form of bytes, the first rows decide, so that a column has one form."""

    def __init__(self, bytes_as: str | None, needed_rows: int) -> None:
        self._bytes_as, self._needed_rows = bytes_as, needed_rows
        self._objects: list[str] = []
        self._are_mixed: set[str] = set()

    def decided(self, found: Found) -> Found:
        """Yield all rows, after the first ones have decided the forms: the same ones, however they come in batches."""
        first: list[tuple[pa.RecordBatch, list[Defect]]] = []
        count = size = 0
        try:
            while self._bytes_as is None and count < self._needed_rows and size < _DECIDING_BYTES:
                if (pair := next(found, None)) is None:
                    break
                first.append(pair)
                count, size = count + pair[0].num_rows, size + pair[0].nbytes
        finally:
            # After damage, the rows before it are written, too.
            self._decide([rows for rows, _ in first])
            yield from first
        yield from found

    def _decide(self, batches: list[pa.RecordBatch]) -> None:
        import pyarrow as pa

        from brokerless._native import binary_columns

        if not any(rows.num_rows for rows in batches):
            return
        (rows,) = pa.Table.from_batches(batches).slice(0, _DECIDING_ROWS).combine_chunks().to_batches()
        found = binary_columns(rows)
        self._objects = [*found, *(name for name in rows.schema.names if name in _UNDECODED)]
        say_notes(_described(rows, found))

    def __call__(self, rows: pa.RecordBatch) -> bytes:
        from brokerless._native import binary_columns, json_lines

        if self._bytes_as is not None:
            return json_lines(rows, self._bytes_as)
        mixed = {name for name in binary_columns(rows) if name not in self._objects}
        say_notes(
            f'{name}: some bytes are not UTF-8. These fields are {{"base64": ...}}, the others are text; '
            "--bytes base64 gives all the same form"
            for name in sorted(mixed - self._are_mixed)
        )
        self._are_mixed |= mixed
        return json_lines(rows, "utf8", self._objects)


def _described(rows: pa.RecordBatch, binary: list[str]) -> Iterator[str]:
    """Yield notes on the keys and values that are no text."""
    import pyarrow as pa

    from brokerless.query.usual_forms import is_framed

    stored = [name for name in PARTS if name in rows.schema.names and pa.types.is_binary(rows.schema.field(name).type)]
    framed = [name for name in stored if is_framed(rows, name)]
    if framed:
        options = ",".join(f"{name}=registry" for name in framed)
        names = " and ".join(framed)
        yield f"{names}: a schema registry's serializer may have written these bytes: add --decode {options}"
    for name in stored:
        if name in binary and name not in framed:
            yield f'{name}: not all bytes are UTF-8, so each field is {{"base64": ...}}; --bytes gives another form'


def end(lost: list[Defect], output: str | None, written: int) -> None:
    """Print how many records a file has received, and what is lost. Exit with 1 if anything is lost."""
    if output not in (None, "-"):
        terminal.say(f"{counted(written, 'record')} written to {output}", err=True)
    for loss in lost:
        terminal.say(loss, err=True)
    if lost:
        raise SystemExit(DAMAGE)


def form_of(output: str | None, form: str | None, *, is_json: bool) -> str:
    """Return the format of the output: "json", "arrow" or "parquet".

    Raises:
        click.UsageError: the options contradict each other, or a file is needed.
    """
    if is_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other")
    form = format_of(output, "json" if is_json else form)
    if form != "json" and output is None:
        raise click.UsageError(f"--format {form} needs --output FILE")
    return form


def unread_end(log: Log) -> Iterator[str]:
    """Yield a note if a running broker's log has rows above its high watermark, where the read ends."""
    from brokerless.log.offset_range import visible_end

    end = visible_end(log.files)
    if end < log.log_end_offset:
        yield (
            f"the read of {log.name} stopped at offset {end}, the checkpointed high watermark, because a broker has "
            f"the log open. To read up to the log end offset {log.log_end_offset}, give --end-offset latest"
        )


def say_notes(texts: Iterable[str]) -> None:
    """Print notes on stderr."""
    for text in texts:
        terminal.say(f"note: {text}", err=True)


def _ahead(rows: Iterator[_T]) -> Iterator[_T]:
    """Decode one batch ahead in a second thread: both decoding and writing release the interpreter lock."""
    from brokerless.io.runner import Threads

    with Threads(1) as thread:
        following = thread.start(next, rows, None)
        while (batch := following.result()) is not None:
            following = thread.start(next, rows, None)
            yield batch
