"""`brokerless convert`: another message format, another codec, or fewer batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless import _native
from brokerless.cli import terminal
from brokerless.cli.options import INT_MAX, int_from
from brokerless.cli.rewriting import REWRITE_EXITS, rewriting

if TYPE_CHECKING:
    from brokerless.cli.rewriting import RewriteTarget


@click.command(short_help="Change message format, codec or batch size.", epilog=REWRITE_EXITS)
@rewriting
@click.option("--magic", type=click.IntRange(0, 2), help="Message format: 2 since Kafka 0.11, 1 since 0.10, 0 before.")
@click.option("--compression", type=click.Choice(_native.CODECS), help="Codec of the batches.  [default: unchanged]")
@click.option(
    "--compression-level",
    type=click.IntRange(-INT_MAX, INT_MAX),
    help="Compress at this level; recompresses batches that already have the codec.  [default: the topic's]",
)
@click.option("--batch-size", type=int_from(62), help="Join batches up to this many bytes, uncompressed.")
@click.option(
    "--drop",
    type=click.Choice(["headers", "producers"]),
    multiple=True,
    help="Leave out headers, if the format of --magic has none; or leave out producers, in any format. Repeatable.",
)
@click.option(
    "--sole-replica",
    is_flag=True,
    help="Join batches wherever possible, because no other broker has a replica that matters.",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate from samples the bytes that each format, codec and batch size would take.",
)
def convert(target: RewriteTarget, drop: tuple[str, ...], estimate: bool, **options: Any) -> None:  # noqa: ANN401 - those of `Conversion`
    """Convert partitions to another message format or codec. Offsets stay as they are.

    PATH is a log directory, with --topic, or one partition's directory. Batches that already have the format and codec
    stay unchanged, byte for byte. Markers and batches without records keep their form.

    Formats 0 and 1 have no headers, producers, transactions, control batches or zstd. A log that has any of these is
    refused, unless --drop leaves them out, or --compression names another codec than zstd. `--drop producers` also
    drops all markers, the records of aborted transactions, and all records from the last stable offset on: without
    markers, these records would become ordinary ones. The report counts the losses.

    --batch-size joins neighbouring batches of one producer with consecutive sequences and offsets. If the producer
    later resends one of these batches, a broker refuses the batch, instead of recognising a duplicate. A follower whose
    log ends inside a joined batch can no longer replicate. So batches are joined only where the metadata log in the
    directory says that all replicas have them; --sole-replica joins them everywhere.

    `--drop producers` without --magic makes a log that fits any cluster: no producer id in it can conflict with the
    cluster's own.

    \b
    brokerless convert data --topic clicks --compression zstd --dry-run
    brokerless convert data --topic clicks --compression zstd --in-place
    brokerless convert data --topic orders --magic 1 --compression gzip --drop headers --output for-old-brokers
    brokerless convert data --topic orders --estimate
    """
    if estimate:
        _estimate(target)
        return
    from brokerless.rewriting.convert import Conversion

    if not drop and all(value is None for name, value in options.items() if name != "sole_replica"):
        raise click.UsageError(
            "nothing to convert: one of --magic, --compression, --compression-level, --batch-size, --drop, --estimate "
            "is needed"
        )
    target.run(Conversion(drop=frozenset(drop), **options))


def _estimate(target: RewriteTarget) -> None:
    import json

    from brokerless.cli.options import named_logs
    from brokerless.rewriting.estimate import estimate

    if target.output or target.in_place or target.dry_run:
        raise click.UsageError("--estimate changes nothing: leave out --output, --in-place and --dry-run")
    logs = named_logs(target.paths, target.topics, target.partitions)
    for log in logs:
        for said in log.files.contradictions():
            terminal.say(f"note: {said}", err=True)
    report = estimate(segment for log in logs for segment in log.segments)
    if target.form == "json":
        click.echo(json.dumps(report.to_dict(), separators=(",", ":")))
    else:
        for line in report.lines():
            terminal.say(line)
