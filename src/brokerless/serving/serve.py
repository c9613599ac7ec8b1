"""`serve`: any Kafka client reads a directory, with no broker."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.serving.directory import ServedDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def serve(
    *paths: str | os.PathLike[str],
    listen: str = "127.0.0.1:0",
    topics: Iterable[str] | None = None,
    advertised_host: str | None = None,
    commits: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """Serve directories to Kafka clients as long as the `with` block runs.

    The directories are only read. A client that would write gets an error.

    Args:
        paths: log directories, partition directories or `.log` files.
        listen: host and port to listen at; port 0: a free one.
        topics: only these topics; None: all.
        advertised_host: the server's host for clients; None: the address at which they connect.
        commits: a file for the offsets that groups commit; None: they are forgotten at the end. Groups begin where the
            directory's `__consumer_offsets` have them, or this file.

    Yields:
        Host and port, for `bootstrap.servers`.

    Raises:
        FileNotFoundError: a path does not exist.
        OSError: the port is taken.

    >>> import brokerless as bl
    >>> with bl.serve(SAMPLE_DIR) as address:
    ...     print(address.startswith("127.0.0.1:"))
    True
    """
    directory = ServedDirectory(*paths, topics=topics)
    server = _native.Server(
        directory,
        listen,
        node_id=directory.node_id,
        advertised=advertised_host,
        commits=None if commits is None else os.path.abspath(os.fspath(commits)),
    )
    try:
        yield f"{server.host}:{server.port}"
    finally:
        server.stop()
