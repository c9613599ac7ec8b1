"""Topics and state tables as views of DuckDB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, cast

from brokerless.arguments import check_paths
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.notes import note
from brokerless.query.usual_forms import usual_decoding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    import duckdb

    from brokerless.io.scanning import Scannable
    from brokerless.log.read_options import RangeOptions, ReadOptions
    from brokerless.values.decoding import Decoding

    Decode = Decoding | Mapping[str, object] | str | None

USUAL: Literal["usual"] = "usual"
"""Keys and values in the forms of `usual_decoding`."""


class Tables:
    """The tables of log directories: a topic each, and those of the cluster's state. Each is made when it is asked for.

    For DuckDB, names in upper and in lower case are the same. A topic whose name another has, or a state table, has the
    name `name_2`.

    Args:
        paths: log directories, partition directories or `.log` files.
        decode: how keys and values are decoded: as of `LogDirs.read`, or "usual".
        options: offsets, times, `isolation_level` and `on_corrupt`, as of `LogDirs.read`.

    Attributes:
        names: the names of all tables.
    """

    def __init__(self, *paths: str | os.PathLike[str], decode: Decode = USUAL, **options: Unpack[RangeOptions]) -> None:
        from brokerless.query.state_tables import state_tables  # noqa: PLC0415 - slow to import at every start

        self._directories, self._decode, self._options = LogDirs(*paths), decode, options
        self._paths = [os.fspath(path) for path in paths]
        self._topics: dict[str, str] = {}
        taken: set[str] = set()
        for topic in self._directories.topics():
            self._topics[_free(topic, taken)] = topic
        self._state = {_free(name, taken): table for name, table in state_tables(*self._paths).items()}
        self.names = [*self._topics, *self._state]

    def find(self, name: str) -> str | None:
        """Return the name of the table that DuckDB means; None for an unknown one."""
        return next((known for known in self.names if known.lower() == name.lower()), None)

    def table(self, name: str) -> Scannable:
        """Return a table by its name."""
        if name in self._state:
            return self._state[name]
        topic = self._topics[name]
        decode = usual_decoding(self._directories, topic) if self._decode == USUAL else self._decode
        options = cast("ReadOptions", {**self._options, "decode": decode})
        return self._directories.dataset([topic], **options)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    number, free = 2, name
    while free.lower() in taken:
        free, number = f"{name}_{number}", number + 1
    if free != name:
        note(f"the name {name} is taken, in upper or lower case: the table is {free}")
    taken.add(free.lower())
    return free


def register_duckdb(
    connection: duckdb.DuckDBPyConnection,
    *paths: str | os.PathLike[str],
    decode: Decode = USUAL,
    schema: str | None = None,
    **options: Unpack[RangeOptions],
) -> list[str]:
    """Make each topic a view of a connection to DuckDB, under its own name, and the cluster's state beside them.

    A view reads only the columns, and the rows, that a query needs. The state tables are `groups`, `commits` (the
    latest ones), `transactions`, `producers`, `topics`, `partitions`, `schemas` and `findings`; each is read when a
    query names it. `offset` is a word of SQL: write it in double quotes.

    Args:
        connection: the connection.
        paths: log directories, partition directories or `.log` files.
        decode: how keys and values are decoded: as of `LogDirs.read`, or "usual": by a registry's schemas where they
            are there, as text if the first records are text, else not.
        schema: the schema of DuckDB that the views are in; None: `main`.
        options: offsets, times, `isolation_level` and `on_corrupt`, as of `LogDirs.read`.

    Returns:
        The names of the views.

    Raises:
        ValueError: a path is no log directory.

    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> len(register_duckdb(connection, SAMPLE_DIR))
    13
    >>> connection.sql("select count(*) from headers where key = 'k1'").fetchall()
    [(2,)]
    """
    check_paths("register_duckdb", paths)
    tables = Tables(*paths, decode=decode, **options)
    for name in tables.names:
        register(connection, tables, name, schema)
    return tables.names


def register(connection: duckdb.DuckDBPyConnection, tables: Tables, name: str, schema: str | None) -> Scannable:
    """Make a table a view, and return it."""
    table = tables.table(name)
    if schema is None:
        connection.register(name, table)
        return table
    source, view = f"{schema}.{name}", f"{quoted(schema)}.{quoted(name)}"
    connection.register(source, table)
    connection.execute(f"create schema if not exists {quoted(schema)}")
    connection.execute(f"create or replace view {view} as select * from {quoted(source)}")  # noqa: S608 - quoted
    return table


def quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'
