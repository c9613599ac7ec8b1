"""`brokerless spark profile`: counts and sizes of the records in logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import as_json, chosen_topics, existing_path
from brokerless.cli.spark.session import on_spark, task_progress
from brokerless.cli.table import print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUPS = ("topic", "partition", "hour", "magic", "compression")
_NUMBERS = (
    "PARTITIONS",
    "RECORDS",
    "BYTES",
    "KEY",
    "VALUE",
    "NULL KEYS",
    "TOMBSTONES",
    "HEADERS",
    "BATCHES",
    "BATCH",
    "CONTROL",
    "SKEW",
)
_OTHERS = ("MAGIC", "CODECS", "FIRST TIME", "LAST TIME")


@click.command(short_help="Count what logs hold.", epilog=exit_line())
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@chosen_topics
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    multiple=True,
    default=("topic",),
    show_default=True,
    help="Count by this. Repeatable.",
)
@as_json
@on_spark
def profile(
    spark: SparkSession, paths: tuple[str, ...], topics: tuple[str, ...], by: tuple[str, ...], form: str
) -> None:
    """Count the content of log directories: records, sizes, nulls, headers, batches, codecs, times. Nothing is changed.

    KEY, VALUE and BATCH are average sizes in bytes. BYTES is the size of the batches as stored, and CONTROL the number
    of transaction markers. SKEW is the size of the largest partition, divided by the average size. With --by hour, a
    record belongs to the hour of its timestamp, and a batch to the hour of its largest timestamp. Everything on disk is
    counted, aborted records too. JSON has more columns, and sums in place of averages.

    \b
    brokerless spark profile /kafka/data1 /kafka/data2
    brokerless spark profile data --topic orders --by partition --by hour --json
    """
    from brokerless.spark import profile as job

    with task_progress(spark, "profile"):
        found = [row.asDict() for row in job(spark, *paths, topics=topics or None, by=by).orderBy(*by).collect()]
    if form == "json":
        for row in found:
            click.echo(json.dumps(row, default=_moment, separators=(",", ":")))
        return
    headings = [name.upper() for name in by]
    rows = [[_text(row[name]) for name in by] + _numbers(row) + _words(row) for row in found]
    print_table([*headings, *_NUMBERS, *_OTHERS], rows, numbers=_NUMBERS)


def _numbers(row: dict[str, Any]) -> list[str]:
    records, batches = row["records"], row["batches"]
    return [
        _text(row["partitions"]),
        _text(records),
        _text(row["bytes"]),
        _average(row["key_bytes"], records - row["null_keys"]),
        _average(row["value_bytes"], records - row["tombstones"]),
        _text(row["null_keys"]),
        _text(row["tombstones"]),
        _text(row["headers"]),
        _text(batches),
        _average(row["bytes"], batches),
        _text(row["control_records"]),
        "-" if row["skew"] is None else f"{row['skew']:.2f}",
    ]


def _words(row: dict[str, Any]) -> list[str]:
    return [
        ",".join(map(str, row["magics"])),
        ",".join(row["compressions"]),
        _text(row["first_timestamp"]),
        _text(row["last_timestamp"]),
    ]


def _average(total: int, count: int) -> str:
    return f"{total / count:.1f}" if count else "-"


def _text(value: object) -> str:
    return "-" if value is None else _moment(value) if isinstance(value, datetime) else str(value)


def _moment(moment: datetime) -> str:
    # The session's time zone is UTC, but PySpark returns times in the machine's zone.
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
