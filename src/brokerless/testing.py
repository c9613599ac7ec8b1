"""Topics for the tests of an application that reads them with its own Kafka client, without a broker or a container.

With `pytest_plugins = ["brokerless.testing"]` in the top-level `conftest.py`, a test can use the fixture `kafka`. It is
a `Kafka` with a new directory for each test. Outside pytest, use `Kafka` itself.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from brokerless.log_dir.writer import create_log_dir
from brokerless.produce.producer import Producer
from brokerless.serving.serve import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from brokerless.produce.rows import Rows

try:
    import pytest
except ModuleNotFoundError:
    pytest = None  # type: ignore[assignment]  # the fixture is for those who have it


class Kafka:
    """A new log directory and a server for it, which runs until the end of the `with` block.

    Clients consume, seek, join groups and commit, as on a broker. Commits are kept in memory. Writes by clients are
    refused, so a test writes with `send`.

    Args:
        directory: the log directory to create, which does not exist yet or is empty.

    Attributes:
        directory: the log directory.
        bootstrap_servers: host and port of the server, for `bootstrap.servers`.

    Raises:
        FileExistsError: the directory is not empty.

    >>> with Kafka(NEW_DIR) as kafka:
    ...     kafka.send("orders", [{"key": "a", "value": "1"}])
    ...     print(kafka.bootstrap_servers.startswith("127.0.0.1:"))
    True
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        create_log_dir(self.directory).close()
        self._stack = ExitStack()
        self.bootstrap_servers = self._stack.enter_context(serve(self.directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def send(self, topic: str, rows: Rows) -> None:
        """Append rows to a topic, which is created with one partition if missing. Clients see the rows immediately.

        Args:
            topic: the topic.
            rows: dicts, Arrow data or data frames with `value`, and optionally `key`, `headers`, `timestamp` and
                `partition`, as for `Producer.send`.

        Raises:
            TypeError: `rows` has another type.
            ValueError: a column's type is not supported, or a partition does not exist.
        """
        with Producer(self.directory, topic, sole_replica=True) as producer:
            producer.send(rows)

    def close(self) -> None:
        """Stop the server. The directory stays."""
        self._stack.close()


if pytest is not None:

    @pytest.fixture
    def kafka(tmp_path: Path) -> Iterator[Kafka]:
        """A `Kafka` for the test, which creates topics in it. The test's clients read these topics."""
        with Kafka(tmp_path / "kafka") as kafka:
            yield kafka
