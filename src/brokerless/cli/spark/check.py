"""`brokerless spark check`: every fault of log directories, found by Spark tasks."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import check as verb
from brokerless.cli.findings import Printer
from brokerless.cli.spark.session import on_spark, shared, task_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(
    short_help=verb.check.short_help,
    epilog=verb.check.epilog,
    params=shared(verb.check, "partitions", "against", "records"),
)
@on_spark
def check(
    spark: SparkSession,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    level: str | None,
    shows_notes: bool,
    form: str,
) -> None:
    """Find every fault of log directories, as `brokerless check` does, with Spark. Nothing is changed.

    The findings and the lines are those of `brokerless check`. Each log is checked by one task, and one more task
    checks the other files of the log directories. Lines are sorted by topic, partition, file and position.

    \b
    brokerless spark check /kafka/data1 /kafka/data2
    brokerless spark check s3://backup/kafka --deep --topic orders --json
    """
    from brokerless.checking.finding import Finding
    from brokerless.spark import check as job
    from brokerless.spark.jobs.check import in_order

    wanted: Any = level or "default"
    # Fetched in parts, because a damaged disk may have more findings than fit in the driver's memory.
    rows = in_order(job(spark, *paths, topics=topics or None, level=wanted)).toLocalIterator()
    with task_progress(spark, "check"):
        first = next(rows, None)
    printer = Printer(form, shows_notes=shows_notes)
    for row in chain(() if first is None else (first,), rows):
        printer.add(Finding.from_dict(row.asDict()))
    printer.end(paths)
