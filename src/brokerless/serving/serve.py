"""`serve`: any Kafka client reads a directory, with no broker."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from brokerless import _native
from brokerless.arguments import check_paths, unknown
from brokerless.serving.address import host_and_port
from brokerless.serving.directory import ServedDirectory
from brokerless.serving.metrics import metrics_at
from brokerless.serving.users import read_users
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from brokerless.arguments import Time
    from brokerless.log.offset_range import IsolationLevel

_Path = str | os.PathLike[str]
_PATH = (str, os.PathLike)
# The files that a server keeps beside a file of commits: see `groups/journal.rs`.
_BESIDE_COMMITS = ("", ".lock", ".new")


@contextmanager
def serve(
    *paths: _Path,
    listen: str = "127.0.0.1:0",
    advertised: str | None = None,
    topics: Iterable[str] | None = None,
    end_offset: int | None = None,
    as_of: Time | None = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    magic: Literal[2] | None = None,
    commits: _Path | None = None,
    tls: tuple[_Path, _Path] | None = None,
    users: _Path | Mapping[str, str] | None = None,
    read_log: _Path | None = None,
    metrics: str | None = None,
    max_connections: int | None = None,
    max_connections_per_address: int | None = None,
    memory: int | None = None,
) -> Iterator[str]:
    """Serve directories to Kafka clients as long as the `with` block runs.

    The directories are only read. A client that tries to write gets an error. New records of a growing log are served.

    Args:
        paths: log directories, partition directories or `.log` files, also in object stores.
        listen: host and port to listen at; port 0 selects a free port.
        advertised: the server's host, or host and port, in its metadata responses; None for the address to which the
            client connects.
        topics: only these topics; None: all.
        end_offset: the offset at which each partition ends; None for the end of its log. A batch that contains this
            offset is left out as a whole, as in `truncate`.
        as_of: a time. The batch of the first record at or after it is left out, with all following batches.
        isolation_level: with "read_committed", clients get committed records only, even if they request
            read_uncommitted.
        magic: 2 to send records of message formats 0 and 1 in format 2; None to send records as stored.
        commits: a file for the offsets that groups commit; None to keep them in memory only. Groups resume at the
            offsets in this file. Without an offset there, they resume at the offset in the directory's
            `__consumer_offsets`.
        tls: files in PEM form, a certificate and its private key; None for no encryption.
        users: the users who may read, with passwords (SASL/PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), or a file of lines
            `user:password`; None for no authentication.
        read_log: a file to which a JSON line is added for each read, with its user; None for no such file.
        metrics: host and port of an HTTP server with counters in the format of Prometheus; None for no such server.
        max_connections: the maximum number of connections at a time; None for 2000. A further connection replaces a
            connection that has sent no request yet; without such a connection, it is closed.
        max_connections_per_address: the maximum number of connections at a time from one address; None for 500. Clients
            that share a proxy share this limit.
        memory: the maximum number of bytes for all requests and replies; None for 128 MiB. A request or reply that does
            not fit closes its connection.

    Yields:
        Host and port, for `bootstrap.servers`.

    Raises:
        FileNotFoundError: a path does not exist.
        OSError: the port is taken, or a file cannot be used.
        ValueError: an argument is wrong; or `commits` or `read_log` lies in a served directory, or is a file that the
            server uses for another purpose.

    >>> import brokerless as bl
    >>> with bl.serve(SAMPLE_DIR) as address:
    ...     print(address.startswith("127.0.0.1:"))
    True
    """
    check_paths("serve", paths)
    if isolation_level not in ("read_uncommitted", "read_committed"):
        raise unknown("isolation level", isolation_level, ["read_uncommitted", "read_committed"])
    if magic not in (None, 2):
        raise ValueError(f"{option('magic')} is {magic!r}: a server sends records as stored (None), or in format 2")
    known = None if users is None else read_users(users)
    directory = ServedDirectory(*paths, topics=topics, end_offset=end_offset, as_of=as_of)
    for name, address in (("listen", listen), ("metrics", metrics)):
        if address is not None:
            host_and_port(name, address)
    if advertised is not None:
        host_and_port("advertised", advertised, needs_port=False)
    _check_written(directory, commits, read_log, [*(tls or ()), *([users] if isinstance(users, _PATH) else [])])
    try:
        server = _native.Server(
            directory,
            listen,
            node_id=directory.node_id,
            advertised=advertised,
            commits=None if commits is None else os.path.abspath(os.fspath(commits)),
            tls=None if tls is None else (os.fspath(tls[0]), os.fspath(tls[1])),
            users=known,
            read_log=None if read_log is None else os.fspath(read_log),
            as_v2=magic == 2,
            only_committed=isolation_level == "read_committed",
            max_connections=max_connections,
            max_connections_per_address=max_connections_per_address,
            max_memory_bytes=memory,
        )
    except OSError as error:
        if "cannot listen" not in str(error):
            raise
        raise OSError(f"{error}: choose another address with {option('listen', 'HOST:PORT')}") from error
    with ExitStack() as stack:
        stack.callback(server.stop)
        if metrics is not None:
            stack.enter_context(metrics_at(metrics, server))
        yield f"{server.host}:{server.port}"


def _check_written(
    directory: ServedDirectory, commits: _Path | None, read_log: _Path | None, read: Iterable[_Path]
) -> None:
    """Refuse to write to a file that is used for another purpose.

    Args:
        directory: the directories that are served.
        commits: the file of commits.
        read_log: the file of lines that record each read and its user.
        read: other files that the server reads.

    Raises:
        ValueError: a file is in a served directory, or has two purposes.
    """
    for name, path in (("commits", commits), ("read_log", read_log)):
        if path is None:
            continue
        if directory.holds(os.fspath(path)):
            raise ValueError(
                f"{option(name)}: {os.fspath(path)} is in a directory that is served, and the server writes nothing "
                "there: choose a file elsewhere"
            )
        for other in read:
            if _are_one(os.fspath(path), os.fspath(other)):
                raise ValueError(f"{option(name)}: {os.fspath(path)} is a file that the server reads: choose another")
    if commits is not None and read_log is not None:
        of_commits = (f"{os.fspath(commits)}{ending}" for ending in _BESIDE_COMMITS)
        if any(_are_one(os.fspath(read_log), one) for one in of_commits):
            raise ValueError(
                f"{option('read_log')}: {os.fspath(read_log)} is already used for {option('commits')}: choose another"
            )


def _are_one(path: str, other: str) -> bool:
    """Return whether two paths, which need not exist, are the same file, even through links."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
