"""`brokerless spark export`: records to Parquet or JSON files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.options import (
    as_json,
    chosen_topics,
    decode_source_options,
    existing_path,
    isolation_level,
    moment,
)
from brokerless.cli.spark.pairs import pair
from brokerless.cli.spark.reports import print_lost, print_report, tasks_in_words
from brokerless.cli.spark.session import on_spark, task_progress
from brokerless.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The source's options that have a command-line option of their own.
_OPTIONS = {
    "columns": "columns",
    "isolation_level": "kafka.isolation.level",
    "on_corrupt": "onCorrupt",
    "start_timestamp": "startingTimestamp",
    "end_timestamp": "endingTimestamp",
}


@click.command(
    short_help="Export records to Parquet or JSON files.",
    epilog=exit_line(damage="damage was found, or left out (--on-corrupt skip)"),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option(
    "--output",
    required=True,
    help="Directory or URL to write to; with iceberg, a table. It must be new or empty, or have the same export, "
    "unfinished.",
)
@chosen_topics
@click.option(
    "--format",
    type=click.Choice(["parquet", "json", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="delta and iceberg need their Spark packages (--conf spark.jars.packages=...).",
)
@click.option("--compression", help="Codec of the files.  [default: zstd for parquet, none for json]")
@click.option("--columns", help="Columns, separated by commas.  [default: all; for json those that `read` shows]")
@isolation_level
@click.option("--start-timestamp", type=moment(), help="Start at the first record at or after this time.")
@click.option("--end-timestamp", type=moment(), help="Stop before the first record at or after this time.")
@click.option(
    "--on-corrupt",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="skip leaves damaged batches out and reports the lost offsets.",
)
@decode_source_options
@click.option(
    "--option",
    "others",
    type=pair,
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark source. Repeatable.",
)
@as_json
@on_spark
def export(
    spark: SparkSession,
    paths: tuple[str, ...],
    output: str,
    topics: tuple[str, ...],
    format: str,  # noqa: A002 - the option's name
    compression: str | None,
    decode: dict[str, str] | None,
    others: tuple[tuple[str, str], ...],
    form: str,
    **chosen: Any,  # noqa: ANN401 - as _OPTIONS
) -> None:
    """Export records to files that Spark, pandas and DuckDB read as one table, `topic` and `partition` in their paths.

    Tasks write the files themselves. A failed export resumes when it is run again; _SUCCESS appears at the end.

    With --decode, keys and values become columns with the types of their schemas, or nested JSON. Only an export
    without it can be restored.

    \b
    brokerless spark export /kafka/data --output /exports/orders --topic orders
    brokerless spark export /kafka/data --output s3://exports/all --isolation-level read_committed --master yarn
    brokerless spark export /kafka/data --output /exports/day --start-timestamp 2024-05-01 --end-timestamp 2024-05-02
    brokerless spark export /kafka/data --output /exports/orders --topic orders --decode value=registry
    """
    from brokerless.spark import export as job

    options = {_OPTIONS[name]: str(value) for name, value in chosen.items() if value is not None}
    with task_progress(spark, "export"):
        exported = job(
            spark,
            paths,
            output,
            format=format,
            compression=compression,
            topics=topics or None,
            options=options | (decode or {}) | dict(others),
        )
    print_report(exported.partitions, form)
    records = counted(sum(found.rows for found in exported.partitions), "record")
    files = "" if exported.files is None else f" in {counted(exported.files, 'file')}"
    terminal.say(f"{records}{files} in {output}; {tasks_in_words(exported.tasks, exported.skipped)}", err=True)
    print_lost(exported.lost)
    if exported.replaced_keys:
        terminal.say(
            f"note: {exported.replaced_keys:,} header keys have U+FFFD in place of bytes that are not UTF-8", err=True
        )
    if exported.lost:
        raise SystemExit(DAMAGE)
