"""`brokerless spark report`: the page of `brokerless report`, computed by Spark tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli import report as verb
from brokerless.cli.spark.session import on_spark, shared, task_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(short_help=verb.report.short_help, epilog=verb.report.epilog, params=shared(verb.report))
@on_spark
def report(spark: SparkSession, paths: tuple[str, ...], output: str, topics: tuple[str, ...], samples: int) -> None:
    """Summarize whole log directories with Spark, in one HTML page that opens offline.

    The page is that of `brokerless report`, with the same numbers. Nothing is changed.

    \b
    brokerless spark report /kafka/data1 /kafka/data2 --output report.html
    """
    from brokerless.spark import report as job

    with verb.page_file(paths, output) as file:
        with task_progress(spark, "report"):
            found = job(spark, *paths, topics=topics or None, samples=samples)
        file.write(found.html.encode())
    verb.tell(found, output)
