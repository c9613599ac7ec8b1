"""`brokerless spark restore`: an export back to a log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless import _native
from brokerless.cli import terminal
from brokerless.cli.options import LocalPath, as_json, chosen_topics, existing_path, int_from
from brokerless.cli.spark.pairs import pair
from brokerless.cli.spark.reports import print_lost, print_report, tasks_in_words
from brokerless.cli.spark.session import on_spark, task_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(short_help="Turn an export back into logs.")
@click.argument("exported", metavar="EXPORT", type=existing_path)
@click.option(
    "--output",
    required=True,
    type=LocalPath(file_okay=False),
    help="A log directory, created if it does not exist.",
)
@chosen_topics
@click.option(
    "--topic-id",
    "topic_ids",
    multiple=True,
    type=pair,
    metavar="TOPIC=ID",
    help="A topic's id in the cluster that was started on the directory. Repeatable.  [default: as exported]",
)
@click.option(
    "--compression",
    type=click.Choice(_native.CODECS),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option("--batch-size", type=int_from(1), default=16384, show_default=True, help="Bytes of a batch.")
@click.option("--sole-replica", is_flag=True, help="No other broker has replicas of these partitions: do not warn.")
@as_json
@on_spark
def restore(
    spark: SparkSession,
    exported: str,
    output: str,
    topics: tuple[str, ...],
    topic_ids: tuple[tuple[str, str], ...],
    compression: str,
    batch_size: int,
    sole_replica: bool,
    form: str,
) -> None:
    """Turn EXPORT, a directory of `brokerless spark export`, back into logs, with every record at its offset.

    All topics come into force at one instant. A failed restore resumes when it is run again.

    \b
    brokerless spark restore /exports/orders --output /restored/kafka-data --compression zstd

    Exit codes: 0 done, 1 the export had left out damage (lost), 2 could not run.
    """
    from brokerless.spark import restore as job

    with task_progress(spark, "restore"):
        restored = job(
            spark,
            exported,
            output,
            topics=topics,
            topic_ids=dict(topic_ids),
            compression=compression,
            batch_size=batch_size,
            sole_replica=sole_replica,
        )
    print_report(restored.partitions, form)
    terminal.say(tasks_in_words(restored.tasks, restored.skipped), err=True)
    print_lost(restored.lost)
    if restored.lost:
        raise SystemExit(1)
