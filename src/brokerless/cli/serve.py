"""`brokerless serve`: any Kafka client reads a directory, with no broker."""

from __future__ import annotations

import ipaddress
import threading

import click

from brokerless.cli.options import existing_path


@click.command(short_help="Let any Kafka client read directories, with no broker.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True, help="Where to listen.")
@click.option(
    "--advertise",
    metavar="HOST",
    help="The host of the server for clients.  [default: the one at which they connect]",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic. Repeatable.")
@click.option(
    "--commits",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Keep what groups commit in this file.  [default: forget it at the end]",
)
def serve(
    paths: tuple[str, ...], listen: str, advertise: str | None, topics: tuple[str, ...], commits: str | None
) -> None:
    """Serve the log directories PATH to Kafka clients, until it is interrupted.

    Consumers, consoles and admin tools connect as to a broker. They see the topics, offsets, settings and groups of the
    directories. A group goes on where the directory's __consumer_offsets have it. Nothing is written to a directory: a
    client that would write, create or delete gets an error.

    \b
    brokerless serve /backup/data
    kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092 --topic orders --from-beginning
    """
    from brokerless.serving.serve import serve as of_directories

    host = listen.rpartition(":")[0].strip("[]")
    with of_directories(
        *paths, listen=listen, topics=topics or None, advertised_host=advertise, commits=commits
    ) as address:
        click.echo(f"serving {', '.join(paths)} at {address}", err=True)
        if not _is_loopback(host):
            click.echo(f"warning: who reaches {address} can read all of it: nobody is asked for a password", err=True)
        threading.Event().wait()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
