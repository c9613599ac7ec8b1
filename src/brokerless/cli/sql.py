"""`brokerless sql`: queries of topics and of a cluster's state, with DuckDB."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from brokerless.arguments import listed_few
from brokerless.cli import terminal
from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import LocalPath, decode_options, existing_path, isolation_level, moment
from brokerless.io.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import duckdb

    from brokerless.log.offset_range import IsolationLevel
    from brokerless.log.split import OnCorrupt
    from brokerless.query.duckdb import Tables
    from brokerless.values.decoding import Decoding

_FORMS = ("table", "json", "csv", "parquet")
_MOST_ROWS = 10_000
_WIDE = 1 << 16
# The first words of statements that are about tables, which DuckDB does not name before it runs them.
_ABOUT_TABLES = ("show", "describe", "desc", "summarize", "explain", "pragma", "call")
_MAIN = ""


def _places(_context: click.Context, _argument: click.Parameter, given: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths by the name that they are attached under."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, has_name, path = text.partition("=")
        if not has_name or not name.isidentifier() or os.path.exists(text):
            name, path = _MAIN, text
        found.setdefault(name, []).append(str(existing_path.convert(path, _argument, _context)))
    return found


@click.command(short_help="Query topics and state in SQL, with DuckDB.", epilog=exit_line())
@click.argument("places", metavar="[NAME=]PATH...", nargs=-1, required=True, callback=_places)
@click.option("-c", "--command", metavar="SQL", help="Statements to run.  [default: a prompt, or stdin]")
@click.option(
    "--start-timestamp", type=moment(), help="Start at the first record of each partition at or after this time."
)
@click.option("--end-timestamp", type=moment(), help="Stop before the first record at or after this time.")
@isolation_level
@click.option(
    "--on-corrupt",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="skip leaves damaged batches out and reports the lost offsets.",
)
@decode_options
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    help="Format of the result.  [default: by the extension of FILE, else table]",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON lines, as `--format json`.")
@click.option("--output", type=LocalPath(dir_okay=False), help="Write the result of the last statement to this file.")
def sql(
    places: dict[str, list[str]],
    command: str | None,
    start_timestamp: int | None,
    end_timestamp: int | None,
    isolation_level: IsolationLevel,
    on_corrupt: OnCorrupt,
    decode: Decoding | None,
    form: str | None,
    is_json: bool,
    output: str | None,
) -> None:
    """Query topics, and what a cluster knew, in SQL.

    Each topic is a table with the columns partition, offset, timestamp, key, value, headers. Beside them are groups,
    commits, transactions, producers, topics, partitions, schemas and findings. With NAME=PATH, all have names such as
    NAME.orders, so that a query may compare directories. Keys and values are decoded by a registry's schemas where they
    are there, and are text where the first records are. `offset` and `group` are words of SQL: write them in double
    quotes.

    \b
    brokerless sql data -c 'select partition, count(*) from orders group by all'
    brokerless sql data -c 'select "group", topic, sum(lag) from commits group by all having sum(lag) > 0'
    brokerless sql data --json -c "select value from orders where key = 'o-17'"
    brokerless sql old=/backup new=/data -c 'select key from old.orders except select key from new.orders'
    brokerless sql data
    """
    from brokerless.log.frames import library
    from brokerless.query.duckdb import USUAL, Tables

    if is_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other")
    form = _form_of(output, "json" if is_json else form)
    connection = library("duckdb", "brokerless sql", extra="sql").connect()
    tables = {
        name: Tables(
            *paths,
            decode=USUAL if decode is None else decode,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            on_corrupt=on_corrupt,
        )
        for name, paths in places.items()
    }
    session = _Session(connection, tables, form, output)
    if command is not None:
        session.run(command)
    elif sys.stdin.isatty():
        _prompt(session)
    else:
        session.run(sys.stdin.read())


def _form_of(output: str | None, form: str | None) -> str:
    suffix = os.path.splitext(output or "")[1].removeprefix(".").lower()
    form = form or (suffix if suffix in _FORMS else "table" if output is None else None)
    if form is None or (output is not None and form == "table"):
        raise click.UsageError(f"{output}: name the file .json, .csv or .parquet, or give --format")
    if output is None and form == "parquet":
        raise click.UsageError("--format parquet needs --output FILE")
    return form


class _Session:
    """A connection whose tables are made when a statement names them."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, tables: dict[str, Tables], form: str, output: str | None
    ) -> None:
        self.connection, self.tables, self.form, self.output = connection, tables, form, output
        self._made: set[tuple[str, str]] = set()
        self._watched: list[Any] = []

    @property
    def names(self) -> list[str]:
        """The names of all tables, as SQL writes them."""
        return [f"{place}.{name}" if place else name for place, of in self.tables.items() for name in of.names]

    def run(self, text: str) -> None:
        """Run statements, and show the result of each; with an output file, only write that of the last one."""
        import duckdb

        for table in self._watched:
            table.failed = None
        try:
            with _errors(self._watched):
                statements = self.connection.extract_statements(text)
                for number, statement in enumerate(statements, 1):
                    self._register(statement)
                    query = statement.query.strip().rstrip(";")
                    if len(statement.expected_result_type) == 1:
                        self._show(query, is_last=number == len(statements))
                    else:
                        # It changes a table, and its result is the number of rows.
                        self.connection.execute(query)
        except duckdb.Error as error:
            what = " ".join(str(error).split())
            tables = f"; the tables are {listed_few(self.names)}" if "Table with name" in what else ""
            raise click.UsageError(f"{what}{tables}") from None

    def _register(self, statement: Any) -> None:  # noqa: ANN401 - of DuckDB
        from brokerless.query.duckdb import register

        if not _is_about_tables(statement.query):
            names = self.connection.get_table_names(statement.query, qualified=True)
            used = [self._found(*[part.strip('"') for part in name.rpartition(".")[::2]]) for name in names]
        else:
            used = [(place, name) for place, of in self.tables.items() for name in of.names]
        for table in used:
            if table is not None and table not in self._made:
                place, name = table
                self._watched.append(register(self.connection, self.tables[place], name, place or None))
                self._made.add(table)

    def _target(self) -> AbstractContextManager[BinaryIO]:
        from brokerless.cli.output import whole_file

        return nullcontext(sys.stdout.buffer) if self.output is None else whole_file(self.output)

    def _found(self, place: str, name: str) -> tuple[str, str] | None:
        tables = self.tables.get(place)
        found = None if tables is None else tables.find(name)
        return None if found is None else (place, found)

    def _show(self, query: str, *, is_last: bool) -> None:
        if self.output is not None and not is_last:
            self.connection.execute(query)
            return
        if self.form == "table":
            width = os.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
            self.connection.sql(query).show(max_width=width, max_rows=_MOST_ROWS)
            sys.stdout.flush()
            return
        options = {"json": "format json", "csv": "format csv, header", "parquet": "format parquet"}[self.form]
        rows = f"from ({query})" if _is_about_tables(query) else query
        with self._target() as target, _piped(target) as path:
            self.connection.execute(f"copy ({rows}) to '{path}' ({options})")
        if self.output is not None:
            terminal.say(f"written to {self.output}", err=True)


def _is_about_tables(query: str) -> bool:
    return query.split(maxsplit=1)[0].lower() in _ABOUT_TABLES


@contextmanager
def _errors(watched: Sequence[Any]) -> Iterator[None]:
    """Raise the error of a table as it was, where DuckDB made an error of its own of it."""
    import duckdb

    try:
        yield
    except duckdb.Error:
        for table in watched:
            if table.failed is not None:
                raise table.failed from None
        raise


@contextmanager
def _piped(target: BinaryIO) -> Iterator[str]:
    """Return the path of a pipe to a file. DuckDB itself would cut off what a redirected file already has."""
    reading, writing = os.pipe()

    def copy() -> None:
        with open(reading, "rb") as source:
            shutil.copyfileobj(source, target)
        target.flush()

    with Threads(1) as thread:
        copied = thread.start(copy)
        try:
            yield f"/dev/fd/{writing}"
        finally:
            os.close(writing)
            # Where the file takes no more, DuckDB only knows that the pipe is broken.
            copied.result()


def _prompt(session: _Session) -> None:
    """Run statements that are typed, each up to its semicolon."""
    from brokerless.errors import BrokerlessError
    from brokerless.log.frames import library

    library("prompt_toolkit", "the prompt of brokerless sql", extra="sql")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    os.makedirs(os.path.join(state, "brokerless"), exist_ok=True)
    keywords = ["select", "from", "where", "group by", "order by", "limit", "count(*)", "join", "show tables"]
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(os.path.join(state, "brokerless", "sql_history")),
        completer=WordCompleter([*keywords, *session.names], ignore_case=True),
        complete_while_typing=False,
    )
    terminal.say("Statements end with a semicolon. show tables; lists the tables, Ctrl-D ends.", err=True)
    typed = ""
    while True:
        try:
            typed += prompt.prompt("... " if typed else "sql> ") + "\n"
        except KeyboardInterrupt:
            typed = ""
            continue
        except EOFError:
            return
        if not typed.rstrip().endswith(";"):
            typed = typed if typed.strip() else ""
            continue
        try:
            session.run(typed)
        except (BrokerlessError, OSError, ValueError, click.UsageError) as error:
            terminal.say(error, err=True)
        typed = ""
