"""`brokerless retain`: delete old segments by a broker's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli.options import long_from, offset_or, release, size_or_zero
from brokerless.cli.rewriting import REWRITE_EXITS, rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import RewriteTarget

_HIGH_WATERMARK = -1


@click.command(short_help="Delete the oldest records.", epilog=REWRITE_EXITS)
@rewriting
@click.option(
    "--retention-ms", type=long_from(0), help="Delete segments older than this, by the timestamps of their records."
)
@click.option("--retention-bytes", type=size_or_zero, help="Keep at least this many bytes of each partition.")
@click.option(
    "--before-offset", type=offset_or("latest"), help="Delete the records before this offset (a number, or latest)."
)
@click.option(
    "--cleanup-policy",
    type=click.Choice(["delete", "compact", "compact,delete"]),
    help="Override the topic's setting. Without delete, --retention-ms and --retention-bytes delete nothing.",
)
@release
def retain(
    target: RewriteTarget,
    retention_ms: int | None,
    retention_bytes: int | None,
    before_offset: int | str | None,
    cleanup_policy: str | None,
    release: str,
) -> None:
    """Delete the oldest records of partitions.

    PATH is a log directory, with --topic, or one partition's directory. --retention-ms and --retention-bytes delete
    whole segments, the oldest first, as a broker does. If all segments are deleted, an empty one stays. --before-offset
    works as DeleteRecords: the log then starts at this offset, and earlier segments are deleted. (If cleanup.policy is
    empty, brokers before 4.2 refuse DeleteRecords; --release 4.1 does the same.) Only the given limits apply: the
    topic's retention and Kafka's default of a week are ignored.

    \b
    brokerless retain data --topic clicks --retention-ms 86400000 --dry-run
    brokerless retain data --topic clicks --before-offset 120000 --in-place
    """
    from brokerless.rewriting.retain import Retention

    given = (retention_ms, retention_bytes, before_offset)
    if given == (None, None, None):
        raise click.UsageError("no limit: one of --retention-ms, --retention-bytes, --before-offset is needed")
    before = _HIGH_WATERMARK if isinstance(before_offset, str) else before_offset
    limits = {"retention_ms": retention_ms, "retention_bytes": retention_bytes, "before_offset": before}
    target.run(Retention(**limits, cleanup_policy=cleanup_policy, release=release))
