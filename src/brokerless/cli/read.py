"""`brokerless read`: records as JSON lines, or as an Arrow or Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.options import (
    LocalPath,
    Progress,
    decode_options,
    format_of,
    isolation_level,
    long_from,
    metadata,
    moment,
    offset_or,
    paths,
)
from brokerless.values.forms import PARTS
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from brokerless.log.defect import Defect
    from brokerless.log.log import Log
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.split import OnCorrupt
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.values.decoding import Decoding
    from brokerless.values.row_decoder import RowDecoder

_T = TypeVar("_T")

# The rows that decide the form of a column of bytes, and the memory after which fewer decide.
_DECIDING_ROWS, _DECIDING_BYTES = 1000, 16 << 20
_UNDECODED = ("keyBytes", "valueBytes")
_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers")


def _names(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [column.strip() for column in value.split(",")]


def _file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("the name is empty: name a file, or give - for stdout")
    return value


@click.command(short_help="Print records as JSON lines, or write a file.", epilog=exit_line())
@paths
@click.option(
    "--start-offset",
    type=offset_or("earliest", "latest", from_end=True),
    help="Start at this offset; -10 is ten offsets before the end of each partition.  [default: earliest]",
)
@click.option(
    "--end-offset",
    type=offset_or("latest", "high-watermark"),
    help="Stop before this offset.  [default: latest; high-watermark while a broker runs]",
)
@click.option(
    "--start-timestamp",
    type=moment(),
    help="Start at the first record at or after this time. With --start-offset too, the later start counts.",
)
@click.option("--end-timestamp", type=moment(), help="Stop before the first record at or after this time.")
@isolation_level
@click.option("--limit", type=long_from(0), help="Stop after this many records.")
@click.option(
    "--columns",
    callback=_names,
    help="Columns to show, separated by commas. Position, compression and others are not shown by default.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="skip leaves damaged batches out and reports the lost offsets.",
)
@decode_options
@click.option("--no-check-crcs", is_flag=True, help="Do not verify checksums.")
@click.option(
    "--bytes",
    "bytes_as",
    type=click.Choice(["utf8", "base64", "hex"]),
    help='Write keys, values and header values in this form. With utf8, bytes that are not UTF-8 become {"base64": '
    "...}.  [default: utf8, or that object for each field of a column with other bytes in the first records]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "arrow", "parquet"]),
    help="Format of the output.  [default: by the extension of FILE, else json]",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON lines, as `--format json`.")
@click.option(
    "--output",
    callback=_file,
    type=LocalPath(dir_okay=False, allow_dash=True),
    help="Write to this file, which appears when it is finished; - for stdout.",
)
@metadata
def read(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    start_offset: StartOffset | None,
    end_offset: EndOffset | None,
    start_timestamp: int | None,
    end_timestamp: int | None,
    isolation_level: IsolationLevel,
    limit: int | None,
    columns: list[str] | None,
    on_corrupt: OnCorrupt,
    decode: Decoding | None,
    no_check_crcs: bool,
    bytes_as: str | None,
    form: str | None,
    is_json: bool,
    output: str | None,
    metadata: str | None,
) -> None:
    """Print records as JSON lines, or write them to an Arrow or Parquet file.

    In a log directory, Kafka's internal topics are skipped unless --topic selects them. If a log is damaged, the output
    ends with the last record before the damage. With --output, an existing file then stays unchanged.

    \b
    brokerless read orders-0 --start-offset 1000 --limit 10
    brokerless read data --topic orders --isolation-level read_committed
    brokerless read data --topic orders --start-timestamp 2024-05-01 --end-timestamp 2024-05-02
    brokerless read data --topic 'orders*' --start-timestamp -1h
    brokerless read orders-0 --columns offset,key,compression,position
    brokerless read data --topic orders --output orders.parquet
    brokerless read data --topic orders --decode value=registry,key=utf8
    """
    import pyarrow as pa

    from brokerless.cli.output import open_sink
    from brokerless.log.reader import Reader
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.metadata.uncommitted import Uncommitted

    if is_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other")
    form = _format(output, "json" if is_json else form)
    log_dirs = LogDirs(*paths)
    logs = log_dirs.readable(topics or None, partitions or None)
    decoder = None if decode is None else _decoder(decode, columns, log_dirs, {log.topic for log in logs}, form)
    shown = columns or _COLUMNS
    schema = Reader([], shown, decode=decoder).schema
    uncommitted = Uncommitted(logs, paths, metadata)

    def rows_of_all(progress: Progress) -> Iterator[tuple[pa.RecordBatch, list[Defect]]]:
        """Yield batches of rows, each with all losses so far, and an empty batch at the end."""
        done = 0
        lost: list[Defect] = []
        for log in logs:
            if done == limit:
                break
            splits = log.plan(
                start_offset=start_offset,
                end_offset=end_offset,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation_level=isolation_level,
                target_bytes=None,
                on_corrupt=on_corrupt,
            )
            _note(uncommitted.of(log, splits))
            if end_offset is None:
                _note(_unread_end(log))
            left = None if limit is None else limit - done
            reader = Reader(splits, shown, check_crcs=not no_check_crcs, limit=left, decode=decoder)
            for rows in reader:
                done += rows.num_rows
                progress(f"{done:,} records, now in {log.name}")
                yield rows, [*lost, *reader.lost]
            lost += reader.lost
        yield pa.RecordBatch.from_pylist([], schema=schema), lost

    lines = _JsonLines(bytes_as)
    with Progress(prints=output in (None, "-")) as progress, open_sink(form, output, lines, schema) as write:
        met: list[Defect] = []
        written = 0
        found = _ahead(rows_of_all(progress))
        for rows, known in lines.decided(found) if form == "json" else found:
            if rows.num_rows:
                write(rows)
                written += rows.num_rows
            met = known
    _note([] if decoder is None else decoder.notes())
    _end(met, None if output in (None, "-") else output, written)


def _decoder(
    decode: Decoding, columns: list[str] | None, log_dirs: LogDirs, topics: set[str | None], form: str
) -> RowDecoder:
    from brokerless.values.row_decoder import RowDecoder, default_columns

    if form == "json":
        decode = decode.as_text()
    return RowDecoder(log_dirs.with_schemas(decode), columns or default_columns(decode, _COLUMNS), topics)


class _JsonLines:
    """Rows as JSON lines. If the user chose no form of bytes, the first rows decide, so that a column has one form."""

    def __init__(self, bytes_as: str | None) -> None:
        self._bytes_as = bytes_as
        self._objects: list[str] = []
        self._are_mixed: set[str] = set()

    def decided(
        self, found: Iterator[tuple[pa.RecordBatch, list[Defect]]]
    ) -> Iterator[tuple[pa.RecordBatch, list[Defect]]]:
        """Yield all rows, after the first ones have decided the forms: the same ones, however they come in batches."""
        first: list[tuple[pa.RecordBatch, list[Defect]]] = []
        count = size = 0
        try:
            while self._bytes_as is None and count < _DECIDING_ROWS and size < _DECIDING_BYTES:
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
        _note(_described(rows, found))

    def __call__(self, rows: pa.RecordBatch) -> bytes:
        from brokerless._native import binary_columns, json_lines

        if self._bytes_as is not None:
            return json_lines(rows, self._bytes_as)
        mixed = {name for name in binary_columns(rows) if name not in self._objects}
        _note(
            f'{name}: some bytes are not UTF-8. These fields are {{"base64": ...}}, the others are text; '
            "--bytes base64 gives all the same form"
            for name in sorted(mixed - self._are_mixed)
        )
        self._are_mixed |= mixed
        return json_lines(rows, "utf8", self._objects)


def _described(rows: pa.RecordBatch, binary: list[str]) -> Iterator[str]:
    """Yield notes on the keys and values that are no text."""
    import pyarrow as pa

    stored = [name for name in PARTS if name in rows.schema.names and pa.types.is_binary(rows.schema.field(name).type)]
    framed = [name for name in stored if _is_framed(rows, name)]
    if framed:
        options = ",".join(f"{name}=registry" for name in framed)
        names = " and ".join(framed)
        yield f"{names}: a schema registry's serializer may have written these bytes: add --decode {options}"
    for name in stored:
        if name in binary and name not in framed:
            yield f'{name}: not all bytes are UTF-8, so each field is {{"base64": ...}}; --bytes gives another form'


def _is_framed(rows: pa.RecordBatch, part: str) -> bool:
    """Return whether all keys or values look as if they name a schema. Registries count ids from 1."""
    from brokerless._native import schema_ids

    headers = rows["headers"] if "headers" in rows.schema.names else None
    ids = schema_ids(rows[part], headers, is_key=part == "key")
    framings = set(ids["framing"].drop_null().to_pylist())
    are_counted = all(int(one or 0) > 0 for one in ids["schemaId"].drop_null().to_pylist())
    return bool(framings) and "none" not in framings and are_counted


def _end(lost: list[Defect], output: str | None, written: int) -> None:
    """Print how many records a file has received, and what is lost. Exit with 1 if anything is lost."""
    if output is not None:
        terminal.say(f"{counted(written, 'record')} written to {output}", err=True)
    for loss in lost:
        terminal.say(loss, err=True)
    if lost:
        raise SystemExit(DAMAGE)


def _format(output: str | None, form: str | None) -> str:
    form = format_of(output, form)
    if form != "json" and output is None:
        raise click.UsageError(f"--format {form} needs --output FILE")
    return form


def _unread_end(log: Log) -> Iterator[str]:
    """Yield a note if a running broker's log has rows above its high watermark, where the read ends."""
    from brokerless.log.offset_range import visible_end

    end = visible_end(log.files)
    if end < log.log_end_offset:
        yield (
            f"the read of {log.name} stopped at offset {end}, the checkpointed high watermark, because a broker has "
            f"the log open. To read up to the log end offset {log.log_end_offset}, give --end-offset latest"
        )


def _note(texts: Iterable[str]) -> None:
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
