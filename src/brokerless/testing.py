"""Topics for the tests of an application that reads them with its own Kafka client, without a broker or a container.

With `pytest_plugins = ["brokerless.testing"]` in the top-level `conftest.py`, a test can use the fixture `kafka`. It is
a `Kafka` with a new directory for each test. Outside pytest, or for a fixture with another scope, use `Kafka` itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from brokerless import _native
from brokerless.io import disk
from brokerless.log_dir.writer import create_log_dir
from brokerless.produce.producer import Producer
from brokerless.serving.directory import ServedDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from brokerless.produce.rows import Rows

    Json: TypeAlias = str | bytes | int | float | bool | list[Any] | dict[str, Any] | None
    """A key or a value. A str becomes UTF-8, bytes stay as they are, None is Kafka's null; the rest becomes JSON."""

try:
    import pytest
except ModuleNotFoundError:
    pytest = None  # type: ignore[assignment]  # the fixture is for those who have it

# The columns of a row as a dict. With any other name, it is likely that the dict is meant as a value.
_COLUMNS = ("key", "value", "headers", "timestamp", "partition")
_LISTEN = "127.0.0.1:0"


class _Directory(ServedDirectory):
    why_read_only = "this server only reads: let the test write the records, with `kafka.send(topic, rows)`"


class Kafka:
    """A new log directory and a server for it, which runs until the end of the `with` block.

    Clients consume, seek, join groups and commit, as on a broker. Commits are kept in memory: `committed` returns them.
    A client that produces gets an error, and a warning of the logger `brokerless.serve` says why. A test writes with
    `send`.

    Args:
        directory: the log directory to create, which does not exist yet or is empty.

    Attributes:
        directory: the log directory.
        bootstrap_servers: host and port of the server, for `bootstrap.servers`.

    Raises:
        FileExistsError: the directory is not empty.

    >>> with Kafka(NEW_DIR) as kafka:
    ...     kafka.send("orders", [{"key": "a", "value": {"amount": 3}}])
    ...     print(kafka.bootstrap_servers.startswith("127.0.0.1:"))
    True
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        with create_log_dir(self.directory) as log_dir:
            self._cluster_id = log_dir.cluster_id
        self._server: _native.Server | None = None
        self.bootstrap_servers = self._start(_LISTEN)

    def _start(self, listen: str) -> str:
        directory = _Directory(self.directory)
        self._server = _native.Server(directory, listen, node_id=directory.node_id)
        return f"{self._server.host}:{self._server.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._server is None else self.bootstrap_servers
        return f"<Kafka {state}, directory {self.directory!r}>"

    def create_topic(self, topic: str, *, partitions: int = 1, **config: Any) -> None:  # noqa: ANN401 - see TopicConfig
        """Create a topic.

        Args:
            topic: the name.
            partitions: the number of its partitions.
            config: its settings, as keywords (`TopicConfig`).

        Raises:
            ValueError: the topic exists with other settings, or an argument is invalid.
        """
        Producer(self.directory, topic, partitions=partitions, sole_replica=True, **config).close()

    def send(self, topic: str, rows: Rows | Iterable[Json] | Mapping[str, Json]) -> None:
        """Append rows to a topic, which is created with one partition if missing. Clients see the rows immediately.

        A row is a dict with `value`, and optionally `key`, `headers`, `timestamp` and `partition`, as for
        `Producer.send`. A key or a value may be a str, which becomes UTF-8; bytes; None, Kafka's null; or a dict, a
        list, a number or a bool, which becomes compact JSON.

        Args:
            topic: the topic.
            rows: a list of rows, or one row. An element that is not a dict is the value of a row without a key. Arrow
                data and data frames are appended as by `Producer.send`.

        Raises:
            TypeError: `rows` has another type, or a key or value cannot be JSON.
            ValueError: a dict has no `value` or has an unknown column, a column's type is not supported, or a partition
                does not exist. A value that is a dict needs a row around it: `{"value": {...}}`.

        >>> import brokerless as bl
        >>> with Kafka(NEW_DIR) as kafka:
        ...     kafka.send("orders", [{"key": "a", "value": {"amount": 3}}, {"key": "b", "value": None}])
        ...     kafka.send("orders", {"key": "c", "value": "text", "headers": [{"key": "trace", "value": b"7"}]})
        ...     kafka.send("orders", ["text", b"bytes", 7, [1, 2]])
        ...     log = bl.Log(f"{kafka.directory}/orders-0")
        ...     print(log.read().read_all()["value"].to_pylist())
        [b'{"amount":3}', None, b'text', b'text', b'bytes', b'7', b'[1,2]']
        """
        with Producer(self.directory, topic, sole_replica=True) as producer:
            producer.send(_rows(rows))

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a group has committed, by topic and partition; an empty dict if it has none.

        As in Kafka, a committed offset is that of the next record to read.

        >>> with Kafka(NEW_DIR) as kafka:
        ...     kafka.committed("billing")
        {}
        """
        commits = [] if self._server is None else self._server.commits()
        return {
            (topic, partition): offset for of, topic, partition, offset, _, _ in commits if of == group and offset >= 0
        }

    def clear(self) -> None:
        """Delete all topics and commits, and end all connections. The address stays.

        For a fixture that several tests share. Close the clients of the last test first: a client that stays open
        connects again, and may ask for topics that no longer exist.

        Raises:
            OSError: another process has taken the port.
            ValueError: the server is closed.
        """
        if self._server is None:
            raise ValueError(f"{self!r} cannot be cleared: make a new one")
        self._server.stop()
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            disk.remove_tree(path) if os.path.isdir(path) else disk.remove(path)
        create_log_dir(self.directory, cluster_id=self._cluster_id).close()
        self._start(self.bootstrap_servers)

    def close(self) -> None:
        """Stop the server. The directory stays."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def _rows(rows: Any) -> Any:  # noqa: ANN401 - in and out: see Kafka.send
    """Return the rows of a test as rows for a producer.

    Raises:
        TypeError: the rows are a str or bytes, or a key or value cannot be JSON.
        ValueError: a dict is no row.
    """
    if isinstance(rows, Mapping):
        return [_row(rows)]
    if isinstance(rows, (str, bytes)):
        raise TypeError(f"rows: one {type(rows).__name__} was given; give a list of values, [{rows!r}]")
    if _is_arrow(rows) or not isinstance(rows, Iterable):
        return rows
    return (row if _is_arrow(row) else _row(row) for row in rows)


def _is_arrow(rows: object) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def _row(row: Any) -> dict[str, Any]:  # noqa: ANN401 - see Kafka.send
    if not isinstance(row, Mapping):
        return {"value": _bytes("value", row)}
    if "value" not in row or any(name not in _COLUMNS for name in row):
        shown = repr(row)
        raise ValueError(
            f"{shown if len(shown) < 100 else f'{shown[:100]}...'} is not a row: a row has value, and may have key, "
            'headers, timestamp and partition. To send the dict itself as JSON, give {"value": {...}}'
        )
    return {**row, **{name: _bytes(name, row[name]) for name in ("key", "value") if name in row}}


def _bytes(name: str, given: Any) -> bytes | None:  # noqa: ANN401 - see Json
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    try:
        return json.dumps(given, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise type(error)(f"a row's {name} cannot be JSON: {error}") from error


if pytest is not None:

    @pytest.fixture
    def kafka(tmp_path: Path) -> Iterator[Kafka]:
        """A `Kafka` for the test, which creates topics in it. The test's clients read these topics."""
        with Kafka(tmp_path / "kafka") as kafka:
            yield kafka
