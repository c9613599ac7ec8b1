"""`brokerless truncate`: a copy of logs as they were at an earlier time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from brokerless.cli.options import moment, offset_or
from brokerless.cli.rewriting import REWRITE_EXITS, rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import RewriteTarget


@click.command(short_help="Cut logs, or copies of them, at a time or an offset.", epilog=REWRITE_EXITS)
@rewriting
@click.option("--timestamp", type=moment(), help="Cut before the first batch with a record of this time or later.")
@click.option("--offset", type=offset_or(), help="Cut before this offset.")
@click.option(
    "--open-transactions",
    type=click.Choice(["abort", "cut"]),
    default="abort",
    show_default=True,
    help="End transactions open at the cut with ABORT markers, or cut before the first of them.",
)
@click.option(
    "--sole-replica",
    is_flag=True,
    help="Cut in place below the high watermark too, because no other broker has a replica.",
)
def truncate(
    target: RewriteTarget,
    timestamp: int | None,
    offset: int | None,
    open_transactions: Literal["abort", "cut"],
    sole_replica: bool,
) -> None:
    """Cut partitions at a time or an offset: delete all later records.

    PATH is a log directory, with --topic, or a partition's directory. --output writes a truncated copy. --in-place
    deletes the newest records. A cut in place below the checkpointed high watermark is refused if other brokers may
    have replicas, because these would have more records than their leader.

    If a transaction is open at the cut, no coordinator would end it. So --open-transactions says how it ends, and the
    report names its producer. If its coordinator had decided to commit before the cut, it is committed. A transaction
    over several of the partitions is kept as a whole, or not at all.

    \b
    brokerless truncate data --topic orders --timestamp 2024-05-01T12:00 --output as-of-noon
    brokerless truncate data --topic orders --offset 120000 --dry-run
    """
    from brokerless.rewriting.truncate import Truncation

    if timestamp is None and offset is None:
        raise click.UsageError("--timestamp or --offset is needed")
    if timestamp is not None and offset is not None:
        raise click.UsageError("--timestamp does not go with --offset: a second run cuts the copy further")
    target.run(
        Truncation(timestamp=timestamp, offset=offset, open_transactions=open_transactions, sole_replica=sole_replica)
    )
