"""`brokerless retain`: old segments go, by a broker's rules; or what was appended since some moment, in a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from brokerless.cli.options import long_from, moment, offset_or, release
from brokerless.cli.rewriting import rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import Where

_HIGH_WATERMARK = -1


@click.command(short_help="Delete what is too old, too much, or too new.")
@rewriting
@click.option("--retention-ms", type=long_from(0), help="Delete segments older than this, by their records.")
@click.option("--retention-bytes", type=long_from(0), help="Keep at least so many bytes of each partition.")
@click.option("--before-offset", type=offset_or("latest"), help="Delete the records before it (a number, or latest).")
@click.option(
    "--cleanup-policy",
    type=click.Choice(["delete", "compact", "compact,delete"]),
    help="In place of the topic's setting: without delete, --retention-ms and --retention-bytes delete nothing.",
)
@release
@click.option("--until", type=moment(), help="Leave out what was appended since: ms since 1970, or ISO 8601.")
@click.option("--until-offset", type=offset_or(), help="Leave out this offset and what follows.")
@click.option(
    "--open-transactions",
    type=click.Choice(["abort", "cut"]),
    default="abort",
    show_default=True,
    help="Of those open at --until: end them with ABORT markers, or end the copy before the first of them.",
)
def retain(
    where: Where,
    retention_ms: int | None,
    retention_bytes: int | None,
    before_offset: int | str | None,
    cleanup_policy: str | None,
    release: str,
    until: int | None,
    until_offset: int | None,
    open_transactions: Literal["abort", "cut"],
) -> None:
    """Delete the oldest records of partitions, or make a copy of them as they were at some moment.

    PATH is a log directory, with --topic, or one partition's directory. --retention-ms and --retention-bytes do what a
    broker does with them: whole segments go, from the oldest on, and where all go an empty one is left. --before-offset
    does what its DeleteRecords does: the log starts there, and the segments before it go. (Brokers before 4.2 refuse it
    where cleanup.policy is empty, and so does --release 4.1.) A limit that is not given is none; those of the topic,
    and Kafka's own of a week, are not looked at.

    --until and --until-offset, only with --to or --dry-run, take from a copy what came later: from the first batch on
    with a record of that time or later. No coordinator knows the transactions that were open then, so nobody would end
    them; --open-transactions says what becomes of them, and the report how many there were.

    \b
    brokerless retain data --topic clicks --retention-ms 86400000 --dry-run
    brokerless retain data --topic clicks --before-offset 120000 --in-place
    brokerless retain data --topic orders --until 2024-05-01T12:00 --to as-of-noon
    """
    from brokerless.rewriting.retain import Retain
    from brokerless.rewriting.truncate_to import TruncateTo

    given = (retention_ms, retention_bytes, before_offset)
    if until is not None or until_offset is not None:
        if (*given, cleanup_policy) != (None,) * 4 or None not in (until, until_offset):
            raise click.UsageError("--until and --until-offset stand alone: cut the copy further in a second run")
        if where.in_place:
            raise click.UsageError("--until and --until-offset need --to: what they leave out is what is newest")
        where.run(TruncateTo(timestamp=until, offset=until_offset, open_transactions=open_transactions))
        return
    if given == (None, None, None):
        raise click.UsageError("no limit: one of --retention-ms, --retention-bytes, --before-offset, --until is needed")
    before = _HIGH_WATERMARK if isinstance(before_offset, str) else before_offset
    limits = {"retention_ms": retention_ms, "retention_bytes": retention_bytes, "before_offset": before}
    where.run(Retain(**limits, cleanup_policy=cleanup_policy, release=release))
