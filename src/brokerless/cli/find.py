"""`brokerless find`: the records that hold a text, as `read` prints them."""

from __future__ import annotations

import functools
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import Progress, long_from, metadata, parse_bytes, paths
from brokerless.cli.rows import (
    columns_of,
    decoding_of,
    end,
    form_of,
    range_options,
    row_options,
    say_notes,
    unread_end,
    write_rows,
)
from brokerless.notes import note
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.log.defect import Defect
    from brokerless.log.log import Log
    from brokerless.log.matches import Matches
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.search import Search, Texts
    from brokerless.log.split import OnCorrupt, Split
    from brokerless.values.decoding import Decoding

_PARTS = ("any", "key", "value")
_FLAGS = ("null_value", "exact", "regex", "ignore_case", "invert")
_GIVEN = ("anywhere", "key", "value", "headers", "texts_from", "producers", *_FLAGS)
_SECONDS = 0.2


def _texts_from(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Return the parts and the contents of files of texts, given as [PART=]FILE."""
    found = []
    for text in given:
        part, is_part, path = text.partition("=")
        if not is_part or part not in _PARTS:
            part, path = "any", text
        try:
            with click.open_file(path, "rb") as file:
                found.append((part, file.read()))
        except OSError as error:
            raise click.BadParameter(f"{path}: {error.strerror}") from error
    return found


_SEARCH = (
    click.option("--any", "anywhere", metavar="TEXT", multiple=True, help="Text in the key, the value or a header."),
    click.option("--key", metavar="TEXT", multiple=True, help="Text in the key."),
    click.option("--value", metavar="TEXT", multiple=True, help="Text in the value."),
    click.option(
        "--header",
        "headers",
        metavar="NAME[=TEXT]",
        multiple=True,
        help="Header with this name or, with TEXT, one whose value has this text.",
    ),
    click.option(
        "--texts-from",
        metavar="[PART=]FILE",
        multiple=True,
        callback=_texts_from,
        help="File with a text in each line, thousands at once, for the part any, key or value; - for stdin.  "
        "[default: any]",
    ),
    click.option(
        "--where",
        metavar="SQL",
        help='Condition on columns and decoded fields, with DuckDB: "value.customer.id = 42 and offset > 9".',
    ),
    click.option("--null-value", is_flag=True, help="The value is null."),
    click.option("--exact", is_flag=True, help="TEXT is the whole key, value or header value, not a part of it."),
    click.option("--regex", is_flag=True, help="TEXT is a regular expression, as Rust's regex reads it."),
    click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same."),
    click.option("--invert", is_flag=True, help="Print the records that do not meet all of this."),
    click.option(
        "--producer", "producers", type=long_from(0), metavar="ID", multiple=True, help="Only batches of this producer."
    ),
)


def _search_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what is sought; the command gets a `Search` as `search`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        given = {name: kwargs.pop(name) for name in _GIVEN}
        search = _search_of(kwargs["bytes_as"], has_condition=kwargs["where"] is not None, **given)
        function(*args, search=search, **kwargs)

    for decorate in reversed(_SEARCH):
        command = decorate(command)
    return command


def _search_of(
    bytes_as: str | None,
    *,
    has_condition: bool,
    anywhere: Sequence[str],
    key: Sequence[str],
    value: Sequence[str],
    headers: Sequence[str],
    texts_from: Sequence[tuple[str, bytes]],
    producers: Sequence[int],
    **flags: bool,
) -> Search:
    from brokerless.log.search import Search

    texts = {
        "any": _parsed(anywhere, bytes_as, "--any"),
        "key": _parsed(key, bytes_as, "--key"),
        "value": _parsed(value, bytes_as, "--value"),
    }
    for part, content in texts_from:
        lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
        texts[part] += [parse_bytes(line, bytes_as or "utf8", "--texts-from") for line in lines if line]
    if texts_from and not any(texts.values()):
        raise click.UsageError("--texts-from: the file has no text")
    sought = {part: of_part for part, of_part in texts.items() if of_part}
    of_headers = _of_headers(headers, bytes_as)
    if has_condition and flags["invert"]:
        raise click.UsageError("--invert does not apply to --where: write NOT in the condition")
    if not (sought or of_headers or producers or flags["null_value"]):
        if has_condition:
            return Search(())
        options = "--any, --key, --value, --header, --where, --null-value or --producer"
        raise click.UsageError(f"nothing is sought: give {options}; `brokerless read` prints all records")
    return Search.of(
        any=sought.get("any"),
        key=sought.get("key"),
        value=sought.get("value"),
        headers=of_headers,
        producer_ids=producers,
        **flags,
    )


@click.command(short_help="Print the records that hold a text.", epilog=exit_line())
@paths
@_search_options
@range_options
@click.option("--limit", type=long_from(1), help="Stop after this many matches.")
@click.option("--first", is_flag=True, help="Stop at the first match, as `--limit 1`.")
@click.option("--count", "is_count", is_flag=True, help="Print only the number of matches.")
@click.option("--around", type=long_from(1), help="Also print N records before and after each match.")
@row_options("Read TEXT in this form, and write keys, values and header values in it.")
@metadata
def find(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    search: Search,
    where: str | None,
    start_offset: StartOffset | None,
    end_offset: EndOffset | None,
    start_timestamp: int | None,
    end_timestamp: int | None,
    isolation_level: IsolationLevel,
    limit: int | None,
    first: bool,
    is_count: bool,
    around: int | None,
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
    """Print the records that hold a text, as `read` prints records.

    A record must meet all conditions. If an option is repeated, one of its texts suffices. Keys, values and headers are
    searched as they are stored. With --key and --exact, the partition to which the default partitioner sends the key is
    searched first. The last line has the number of records that were searched.

    \b
    brokerless find data --any A-1017
    brokerless find data --topic orders --key order-42 --exact --first
    brokerless find data --topic 'orders*' --value refused --start-timestamp -1h
    brokerless find data --texts-from ids.txt --count
    brokerless find orders-0 --regex --value '"total":[0-9]{6,}' --around 2
    brokerless find data --topic orders --where 'value.customer.id = 42'
    brokerless find orders-0 --null-value --columns offset,key
    """
    import pyarrow as pa

    from brokerless.log.log_reader import schema_of
    from brokerless.log.matches import Matches
    from brokerless.log_dir.key_partitions import likely_first
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.metadata.uncommitted import Uncommitted
    from brokerless.query.condition import SqlCondition
    from brokerless.query.usual_forms import registry_decoding

    form = form_of(output, form, is_json=is_json)
    if is_count and (output is not None or around is not None):
        raise click.UsageError("--count prints only a number: leave --output and --around out")
    if first and limit is not None:
        raise click.UsageError("--first is --limit 1: give one of them")
    log_dirs = LogDirs(*paths)
    logs, notes = likely_first(log_dirs.readable(topics or None, partitions or None), search.whole_keys)
    say_notes(notes)
    uncommitted = Uncommitted(logs, paths, metadata)

    def say_of(log: Log, splits: Sequence[Split]) -> None:
        say_notes(uncommitted.of(log, splits))
        if end_offset is None:
            say_notes(unread_end(log))

    topics_read = list(dict.fromkeys(log.topic for log in logs))
    if where is not None and decode is None:
        decode = registry_decoding(log_dirs, topics_read)
    decoding = decoding_of(decode, log_dirs, form) if where is not None or not is_count else None
    condition = None if where is None else SqlCondition(where, schema_of(decoding, topics_read))
    matches = Matches(
        logs,
        search,
        {
            "start_offset": start_offset,
            "end_offset": end_offset,
            "start_timestamp": start_timestamp,
            "end_timestamp": end_timestamp,
            "isolation_level": isolation_level,
            "on_corrupt": on_corrupt,
            "columns": ["partition"] if is_count else columns_of(columns, decoding),
            "check_crcs": not no_check_crcs,
            "limit": 1 if first else limit,
            "decode": decoding,
        },
        where=condition,
        around=around or 0,
        planned=say_of,
    )
    started = time.monotonic()
    found = 0

    def rows_of_all(progress: Progress) -> Iterator[tuple[pa.RecordBatch, list[Defect]]]:
        nonlocal found
        with _shown(matches, progress):
            for rows in matches:
                found += _matches_in(rows)
                yield rows, list(matches.lost)
        yield pa.RecordBatch.from_pylist([], schema=matches.schema), list(matches.lost)

    if is_count:
        with Progress(prints=False) as progress:
            for _ in rows_of_all(progress):
                pass
        written = 0
        terminal.say(str(found))
    else:
        written, _ = write_rows(rows_of_all, matches.schema, form=form, output=output, bytes_as=bytes_as, waits=False)
    _note_rest(matches)
    seconds = time.monotonic() - started
    terminal.say(f"{found:,} of {counted(matches.searched, 'record')} in {seconds:.1f} s", err=True)
    end(matches.lost, output, written)


def _note_rest(matches: Matches) -> None:
    """Print the notes that are not printed yet: a note is printed once, and `end` prints the losses."""
    lost = {str(loss) for loss in matches.lost}
    for text in matches.notes:
        if text not in lost:
            note(text)


def _parsed(texts: Sequence[str], bytes_as: str | None, option: str) -> list[bytes]:
    return [parse_bytes(text.encode(errors="surrogateescape"), bytes_as or "utf8", option) for text in texts]


def _of_headers(headers: Sequence[str], bytes_as: str | None) -> dict[str, Texts | None] | None:
    """Parse NAME[=TEXT] of each option. A name without text is that of a header with any value."""
    found: dict[str, list[bytes]] = {}
    for given in headers:
        name, has_text, text = given.partition("=")
        texts = found.setdefault(name, [])
        if has_text:
            texts += _parsed([text], bytes_as, "--header")
    return {name: texts or None for name, texts in found.items()} or None


def _matches_in(rows: pa.RecordBatch) -> int:
    from brokerless.log.matches import MATCH

    return rows[MATCH].to_pylist().count(True) if MATCH in rows.schema.names else rows.num_rows


@contextmanager
def _shown(matches: Matches, progress: Progress) -> Iterator[None]:
    """Show the progress of a search during the block."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_SECONDS):
            progress(f"{matches.searched:,} records searched")

    thread = threading.Thread(target=show, daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()
