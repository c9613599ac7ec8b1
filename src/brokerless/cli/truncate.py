"""`brokerless truncate`: a copy of logs as they were at an earlier time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from brokerless.cli.options import moment, offset_or
from brokerless.cli.rewriting import rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import RewriteTarget


@click.command(short_help="Copy logs as they were at some moment.")
@partial(rewriting, in_place=False)
@click.option("--timestamp", type=moment(), help="Leave out what was appended since: ms since 1970, or ISO 8601.")
@click.option("--offset", type=offset_or(), help="Leave out this offset and all behind it.")
@click.option(
    "--open-transactions",
    type=click.Choice(["abort", "cut"]),
    default="abort",
    show_default=True,
    help="End those open at that moment with ABORT markers, or end the copy before the first of them.",
)
def truncate(
    target: RewriteTarget, timestamp: int | None, offset: int | None, open_transactions: Literal["abort", "cut"]
) -> None:
    """Copy partitions as they were at some moment, without what came later.

    PATH is a log directory, with --topic, or one partition's directory. Truncation is for copies: --output or --dry-run
    is needed. With --timestamp the first batch that has a record of that time or later is left out, and all behind it.

    Without its coordinator, nobody would end a transaction that was open at that moment: --open-transactions says what
    becomes of it, and the report names its producer. One that was decided by then is committed, and a transaction over
    several of the partitions is kept as a whole, or not at all.

    \b
    brokerless truncate data --topic orders --timestamp 2024-05-01T12:00 --output as-of-noon
    brokerless truncate data --topic orders --offset 120000 --dry-run
    """
    from brokerless.rewriting.truncate import Truncation

    if timestamp is None and offset is None:
        raise click.UsageError("--timestamp or --offset is needed")
    if timestamp is not None and offset is not None:
        raise click.UsageError("--timestamp does not go with --offset: a second run cuts the copy further")
    if target.in_place:
        raise click.UsageError("truncate needs --output: what it leaves out are the newest records")
    if not (target.output or target.dry_run):
        raise click.UsageError("--output DIR or --dry-run is needed")
    target.run(Truncation(timestamp=timestamp, offset=offset, open_transactions=open_transactions))
