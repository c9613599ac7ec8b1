"""`brokerless erase`: records of given keys or headers, or their values."""

from __future__ import annotations

import codecs
import os
from typing import IO, TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.options import bytes_option, parse_bytes
from brokerless.cli.rewriting import REWRITE_EXITS, rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import RewriteTarget


@click.command(short_help="Erase records by key or header.", epilog=REWRITE_EXITS)
@rewriting
@click.option("--key", "keys", multiple=True, help="Records with this key. Repeatable.")
@click.option("--keys-from", type=click.File("rb"), help="A file of keys, one per line; - for stdin.")
@click.option("--key-prefix", "key_prefixes", multiple=True, help="Records whose key starts with this. Repeatable.")
@click.option("--header", "headers", multiple=True, help="Records with this header, as NAME=VALUE. Repeatable.")
@click.option("--blank", is_flag=True, help="Keep the records, but empty their values. Keys and headers stay.")
@bytes_option("Form of keys, prefixes and header values.")
@click.option("--local-only", is_flag=True, help="Erase only in the local segments of a tiered log.")
@click.option("--sole-replica", is_flag=True, help="Do not warn about replicas, because no other broker has one.")
def erase(
    target: RewriteTarget,
    keys: tuple[str, ...],
    keys_from: IO[bytes] | None,
    key_prefixes: tuple[str, ...],
    headers: tuple[str, ...],
    blank: bool,
    bytes_as: str,
    local_only: bool,
    sole_replica: bool,
) -> None:
    """Erase the records of partitions that match a key, a key prefix or a header.

    PATH is a log directory, with --topic, or a partition's directory. Offsets, markers and producers stay: consumers
    see gaps, as after compaction. The active segment is rewritten too. Then the new segments are searched once more,
    and replace the old ones only if nothing is found. The report says how many records are gone and where, and has the
    SHA-256 of the request.

    On a compacted topic, erasing the newest record of a key by a header brings back an older record of the key; --blank
    does not.

    Erasing does not reach other brokers' replicas, backups, or deleted files that a file system keeps. A tiered log is
    refused, since its remote segments keep their records; --local-only erases in local segments, and the report names
    the offsets that are remote.

    \b
    brokerless erase data --topic orders --key customer-17 --dry-run
    brokerless erase data --topic orders --keys-from requests.txt --in-place --json
    brokerless erase data --topic orders --header user=anna --blank --in-place --sole-replica
    """
    from brokerless.rewriting.erase import Erasure

    if not (keys or keys_from or key_prefixes or headers):
        raise click.UsageError("nothing to erase: one of --key, --keys-from, --key-prefix, --header is needed")
    lines = [] if keys_from is None else _lines(keys_from, bytes_as)
    verb = Erasure(
        keys=tuple(
            [parse_bytes(os.fsencode(key), bytes_as, "--key") for key in keys]
            + [
                parse_bytes(line.removesuffix(b"\r"), bytes_as, "--keys-from")
                for line in lines
                if line.removesuffix(b"\r")
            ]
        ),
        key_prefixes=tuple(parse_bytes(os.fsencode(prefix), bytes_as, "--key-prefix") for prefix in key_prefixes),
        headers=tuple(_header(header, bytes_as) for header in headers),
        blank=blank,
        local_only=local_only,
    )
    reports = target.run(verb)
    if target.in_place and not sole_replica and any(report.may_have_replicas for report in reports):
        terminal.say(
            "warning: replicas on other brokers may still have these records, and a broker that becomes leader would "
            "serve them. Erase the records there too, or give --sole-replica if no other broker has a replica",
            err=True,
        )


def _lines(file: IO[bytes], bytes_as: str) -> list[bytes]:
    content = file.read()
    if content.startswith(codecs.BOM_UTF8) and bytes_as == "utf8":
        # A key may begin with a BOM: do not guess which records to erase.
        raise click.BadParameter(
            f"{file.name} begins with a byte order mark. Remove the mark from the file. If the mark belongs to the "
            "first key, give the keys in hex (--bytes hex)",
            param_hint="--keys-from",
        )
    return content.removeprefix(codecs.BOM_UTF8).split(b"\n")


def _header(text: str, bytes_as: str) -> tuple[bytes, bytes]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise click.BadParameter(f"{text!r} is not a header: give NAME=VALUE")
    return os.fsencode(name), parse_bytes(os.fsencode(value), bytes_as, "--header")
