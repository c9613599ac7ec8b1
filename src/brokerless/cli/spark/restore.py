"""`brokerless spark restore`: an export back to a log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.options import (
    LocalPath,
    as_json,
    batch_size_option,
    chosen_topics,
    compression_option,
    existing_path,
)
from brokerless.cli.spark.pairs import pair
from brokerless.cli.spark.reports import print_lost, print_report, tasks_in_words
from brokerless.cli.spark.session import on_spark, task_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(short_help="Turn an export back into logs.", epilog=exit_line(damage="the export had left out damage"))
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
    help="The id of a topic in the cluster that was started on the output directory. Repeatable.  [default: as "
    "exported]",
)
@compression_option
@batch_size_option
@click.option("--sole-replica", is_flag=True, help="Do not warn about replicas, because no other broker has one.")
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

    All topics appear at once, at the end. A failed restore resumes when it is run again.

    \b
    brokerless spark restore /exports/orders --output /restored/kafka-data --compression zstd
    """
    from brokerless.spark import restore as job

    with task_progress(spark, "restore"):
        restored = job(
            spark,
            exported,
            output,
            topics=topics or None,
            topic_ids=dict(topic_ids),
            compression=compression,
            batch_size=batch_size,
            sole_replica=sole_replica,
        )
    print_report(restored.partitions, form)
    terminal.say(tasks_in_words(restored.tasks, restored.skipped), err=True)
    print_lost(restored.lost)
    if restored.lost:
        raise SystemExit(DAMAGE)
