"""`brokerless serve`: any Kafka client reads a directory, with no broker."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import logging
import os
import time
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.next_command import say_next
from brokerless.cli.options import LocalPath, chosen_topics, existing_path, int_from, long_from, moment, size
from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The logs whose ends are looked at when the server starts. Each look opens files, and clients are waiting.
_MOST_LOOKED_AT = 1000
# In seconds. A signal just before a wait is only seen after it.
_WAIT = 0.5


@click.command(
    short_help="Serve directories to any Kafka client.",
    epilog=exit_line(done=None, damage="a client met damage, or damage hides what to serve"),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True, help="Where to listen.")
@click.option(
    "--advertised",
    metavar="HOST[:PORT]",
    help="The address of the server in its metadata responses.  [default: the address that the client connected to]",
)
@chosen_topics
@click.option(
    "--end-offset",
    type=long_from(0),
    metavar="OFFSET",
    help="End each partition at this offset.",
)
@click.option(
    "--as-of",
    type=moment(),
    help="End each partition before the first record at or after this time.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="With read_committed, clients get committed records only, even if they ask for read_uncommitted.",
)
@click.option(
    "--magic",
    type=click.Choice(["2"]),
    help="Send records of message formats 0 and 1 in format 2.  [default: as stored]",
)
@click.option(
    "--commits",
    metavar="FILE",
    type=LocalPath(dir_okay=False),
    help="Keep the offsets that groups commit in this file.  [default: only in memory]",
)
@click.option(
    "--tls",
    nargs=2,
    metavar="CERTIFICATE KEY",
    type=LocalPath(exists=True, dir_okay=False),
    help="Encrypt connections with these PEM files. Without TLS, records and PLAIN passwords cross the network "
    "unencrypted.",
)
@click.option(
    "--users",
    metavar="FILE",
    type=LocalPath(exists=True, dir_okay=False),
    help="Ask clients for a password (SASL PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512). The file has lines of "
    "user:password.",
)
@click.option(
    "--read-log",
    metavar="FILE",
    type=LocalPath(dir_okay=False),
    help="Add a JSON line to this file for each partition of each response: time, client, user, topic, partition, "
    "offset, bytes. A read that cannot be logged is refused.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve counters over HTTP, in the format of Prometheus.")
@click.option(
    "--max-connections",
    type=int_from(1),
    default=2000,
    show_default=True,
    help="The most connections at a time. At this limit, a new connection replaces one that has sent no request yet. "
    "If all have sent one, the new connection is closed.",
)
@click.option(
    "--max-connections-per-address",
    type=int_from(1),
    default=500,
    show_default=True,
    help="The most connections at a time from one address. Clients that share a proxy share this limit.",
)
@click.option(
    "--memory",
    type=size,
    default="128MiB",
    show_default=True,
    help="Memory for all requests and replies.",
)
def serve(
    paths: tuple[str, ...],
    *,
    listen: str,
    topics: tuple[str, ...],
    users: str | None,
    tls: tuple[str, str] | None,
    memory: int,
    magic: str | None,
    **options: Any,  # noqa: ANN401 - as given to `serve` of the library
) -> None:
    """Serve the log directories PATH to Kafka clients, until interrupted.

    Consumers, consoles and admin tools connect as to a broker, and see the topics, offsets, settings and groups of the
    directories. A group resumes at its offsets in the directory's __consumer_offsets. The directories are only read: a
    client that would write, create or delete gets an error.

    Damage that a client meets is named on stderr, once for each place. When it is interrupted, the server then exits
    with 1.

    \b
    brokerless serve /backup/data
    kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092 --topic orders --from-beginning
    """
    from brokerless.serving.serve import serve as of_directories

    _allow_open_files()
    host = listen.rpartition(":")[0].strip("[]")
    server = of_directories(
        *paths,
        listen=listen,
        topics=topics or None,
        users=users,
        tls=tls or None,
        memory=memory,
        magic=None if magic is None else 2,
        **options,
    )
    messages = _Messages()
    with messages.shown(), server as address:
        terminal.say(f"serving {', '.join(paths)} at {address}", err=True)
        if not _is_loopback(host) and users is None:
            terminal.say(
                f"warning: anyone who reaches {address} can read everything, because no password is needed (--users)",
                err=True,
            )
        if not _is_loopback(host) and not tls:
            terminal.say(f"warning: what {address} sends is not encrypted (--tls)", err=True)
        if users is not None and (mode := os.stat(users).st_mode & 0o077):
            what = "read" if mode & 0o044 else "change" if mode & 0o022 else "run"
            terminal.say(
                f"warning: other users of this machine may {what} the passwords in {users}: "
                f"run `{terminal.as_typed('chmod', '600', users)}`",
                err=True,
            )
        try:
            _warn_of_damage(paths, topics)
            while True:
                time.sleep(_WAIT)
        except KeyboardInterrupt:
            if not messages.has_damage:
                raise
            say_next("check", paths)
            raise SystemExit(DAMAGE) from None


class _Messages(logging.Handler):
    """The messages of the server on stderr: damage that a client has met, and other reasons for an error.

    Attributes:
        has_damage: whether a client has met damage.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_damage = False

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the messages while the `with` block runs."""
        logger = logging.getLogger("brokerless.serve")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        is_damage = record.levelno >= logging.ERROR
        self.has_damage |= is_damage
        # A closed stderr stops no server.
        with contextlib.suppress(OSError):
            terminal.say(f"{'damaged' if is_damage else 'warning'}: {record.getMessage()}", err=True)


def _warn_of_damage(paths: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Warn of damage that the small files and the ends of the logs show. Segments are not read."""
    from brokerless.io.remote import is_remote
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.notes import collected

    local = [path for path in paths if not is_remote(path)]
    warned = False
    with contextlib.suppress(CorruptRecordError, UnsupportedFormatError, OSError, ValueError), collected():
        logs = LogDirs(*local).logs(topics or None) if local else ()
        for log in itertools.islice(logs, _MOST_LOOKED_AT):
            try:
                damage = [log.files.lost_before, log.files.damage_at_end]
                found = [f"{log.name}: {defect}" for defect in damage if defect is not None]
            except (CorruptRecordError, UnsupportedFormatError) as error:
                found = [f"{log.name}: {str(error).splitlines()[0]}"]
            for text in found:
                terminal.say(f"warning: {text}", err=True)
                warned = True
    if warned:
        say_next("check", local)


def _allow_open_files() -> None:
    """Allow as many open files as the system lets us: each connection is one, and so is each segment."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
