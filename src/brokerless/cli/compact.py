"""`brokerless compact`: what a broker's log cleaner does, without the broker."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.next_command import say_next
from brokerless.cli.options import bytes_option, long_from, parse_bytes, release, size
from brokerless.cli.rewriting import REWRITE_EXITS, rewriting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.cli.rewriting import RewriteTarget
    from brokerless.rewriting.compact.report import CompactionReport


@click.command(short_help="Keep the last record of each key, as the log cleaner does.", epilog=REWRITE_EXITS)
@rewriting
@click.option(
    "--roll", is_flag=True, help="Roll the active segment first, because an active segment is never compacted."
)
@click.option(
    "--ignore-checkpoint", is_flag=True, help="Ignore the cleaner's checkpoint, and treat the whole log as dirty."
)
@click.option(
    "--cleanup-policy",
    type=click.Choice(["compact", "compact,delete"]),
    help="Override the topic's setting. A topic whose policy does not include compact is refused.",
)
@click.option(
    "--min-compaction-lag-ms",
    type=long_from(0),
    help="Skip segments with younger records. Overrides the topic's setting.",
)
@click.option(
    "--delete-retention-ms",
    type=long_from(0),
    help="Keep tombstones and markers this long. Overrides the topic's setting.",
)
@release
@click.option(
    "--drop-null-keys",
    is_flag=True,
    help="Drop records that have no key. Without this, a log that has such records is refused.",
)
@click.option(
    "--only-due",
    is_flag=True,
    help="Skip logs that a broker would skip: logs that are not dirty enough, or have cleanup.policy=delete.",
)
@click.option(
    "--memory",
    type=size,
    default="512MiB",
    show_default=True,
    help="Memory for keys and decisions; the process takes about 100 MB more. With less memory, the log is read more "
    "often.",
)
@click.option(
    "--explain",
    metavar="KEY",
    help="Change nothing, but explain for each record with this key why it is still there, and whether a compaction "
    "drops it.",
)
@bytes_option("Form of the KEY of --explain.")
def compact(
    target: RewriteTarget,
    explain: str | None,
    bytes_as: str,
    **options: Any,  # noqa: ANN401 - those of `Compaction`
) -> None:
    """Keep the last record of each key, as a broker's log cleaner does.

    PATH is a log directory, with --topic, or one partition's directory. Tombstones, transactions and their markers, old
    message formats and producers' sequences follow Kafka's rules. The active segment is kept, and all records from the
    first open transaction on; a dry run counts these records. If the compaction is refused, a segment that --roll
    rolled stays rolled.

    The compaction lag and the retention of tombstones come from the topic's configs in the metadata log, and from the
    broker's server.properties, which --broker-config names. The report says where each setting comes from.

    \b
    brokerless compact data --topic users --dry-run
    brokerless compact data --topic users --in-place --roll
    brokerless compact data --topic users --output compacted --jobs 4
    brokerless compact data --topic users --explain user-17
    """
    from brokerless.rewriting.compact.compact import Compaction
    from brokerless.rewriting.compact.explain import Explain

    compaction = Compaction(**options)
    if explain is None:
        _say_undone(target.run(compaction), target)
        return
    if target.output or target.in_place:
        raise click.UsageError("--explain changes nothing: leave out --output and --in-place")
    replace(target, dry_run=True).run(Explain(parse_bytes(os.fsencode(explain), bytes_as, "--explain"), compaction))


def _say_undone(reports: Sequence[CompactionReport], target: RewriteTarget) -> None:
    """If nothing was compacted, print that, and what would change it."""
    undone = [report for report in reports if report.skip_reason is not None]
    if not undone or len(undone) < len(reports):
        return
    terminal.say(f"nothing {'would be' if target.dry_run else 'was'} compacted", err=True)
    if any(
        report.skip_reason == "nothing_cleanable" and report.active_bytes and not report.is_rolled for report in undone
    ):
        # The copy that was just written has the name of the next one.
        place = ["--output", f"{target.output}.rolled"] if target.output else []
        say_next("compact", target.paths, "--roll", *place, without=["output"] if place else [])
