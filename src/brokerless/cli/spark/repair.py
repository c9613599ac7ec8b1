"""`brokerless spark repair`: the log directories of a whole cluster without their faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli import repair as verb
from brokerless.cli import terminal
from brokerless.cli.healing_report import print_reports
from brokerless.cli.spark.session import on_spark, shared, task_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokerless.healing.report import RepairReport


@click.command(
    short_help=verb.repair.short_help,
    epilog=verb.repair.epilog,
    params=shared(verb.repair, "output", "sources", "lost_path"),
)
@click.option(
    "--suffix",
    default=".repaired",
    show_default=True,
    help="Write each result beside its PATH, with this suffix on its name.",
)
@on_spark
def repair(
    spark: SparkSession,
    paths: tuple[str, ...],
    suffix: str,
    in_place: bool,
    topics: tuple[str, ...],
    keep_suspect: bool,
    indexes_only: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Repair log directories as `brokerless repair` does, each by a Spark task.

    Name the disks of the whole cluster, because each directory takes its lost records from the others. All executors
    must see them under the same PATH.

    \b
    brokerless spark repair /kafka/data1 /kafka/data2 --dry-run
    brokerless spark repair /kafka/data1 /kafka/data2
    """
    from brokerless.spark import repair as job

    with task_progress(spark, "repair"):
        found = job(
            spark,
            *paths,
            suffix=suffix,
            in_place=in_place,
            topics=topics or None,
            keep_suspect=keep_suspect,
            indexes_only=indexes_only,
            dry_run=dry_run,
        )

    def show(report: RepairReport) -> None:
        if len(found) > 1:
            terminal.say(f"{report.path}:")
        verb.show(report)

    print_reports(found, form, show)
