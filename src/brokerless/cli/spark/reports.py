"""The summary of a job by partition: a table, or JSON lines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.table import print_table
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.log.defect import Defect
    from brokerless.spark.jobs.export import PartitionReport

_HEADINGS = ("TOPIC", "PARTITION", "ROWS", "BYTES", "SECONDS")


def print_report(partitions: Sequence[PartitionReport], form: str) -> None:
    """Print a line for each partition, and in a table also the totals."""
    if form == "json":
        for partition in partitions:
            click.echo(json.dumps(asdict(partition), separators=(",", ":")))
        return
    rows = [
        [found.topic, str(found.partition), f"{found.rows:,}", _number(found.bytes), _seconds(found.seconds)]
        for found in partitions
    ]
    total = [
        "all",
        str(len(partitions)),
        f"{sum(found.rows for found in partitions):,}",
        _number(sum(found.bytes or 0 for found in partitions)),
        _seconds(sum(found.seconds or 0 for found in partitions)),
    ]
    print_table(_HEADINGS, [*rows, total], numbers=_HEADINGS[1:])


def print_lost(found: Sequence[Defect]) -> None:
    """Print the ranges that `--on-corrupt skip` left out of an export."""
    for lost in found:
        terminal.say(lost, err=True)


def tasks_in_words(tasks: int, skipped: int) -> str:
    """Return as text how many tasks this run has done, and how many tasks earlier runs had done."""
    before = f"; {skipped:,} had been done before" if skipped else ""
    return f"{counted(tasks, 'task')}{before}"


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"
