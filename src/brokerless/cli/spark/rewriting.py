"""The shared part of the verbs that rewrite logs on Spark: options, progress line, reports and table."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli.compact import size
from brokerless.cli.options import Progress, as_json, broker_settings, int_from
from brokerless.cli.rewriting import print_result
from brokerless.cli.spark.session import on_spark
from brokerless.cli.table import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from brokerless.append.operation import PlanT, ReportT, RewriteOperation

    _Command = TypeVar("_Command", bound=Callable[..., Any])

_HEADINGS = ("TOPIC", "PARTITIONS", "BYTES READ", "BYTES BEFORE", "BYTES AFTER", "SECONDS")


@dataclass(frozen=True)
class SparkRewriteTarget:
    """The options of `rewriting_on_spark`: the logs of an operation, and how it runs."""

    spark: SparkSession
    paths: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    in_place: bool
    dry_run: bool
    jobs: int | None
    task_bytes: int
    resume_file: str | None
    form: str
    broker_config: str | None
    metadata: str | None

    def run(self, operation: RewriteOperation[PlanT, ReportT], sizes: Callable[[ReportT], tuple[int, int]]) -> None:
        """Run an operation on the logs, and print its results.

        Args:
            operation: the operation.
            sizes: returns the bytes of a log before and after the operation, from its report.

        Raises:
            click.UsageError: not exactly one of --in-place and --dry-run is given.
        """
        from brokerless.spark.jobs.rewrite import progress_file_of, rewritten

        started, before, done = time.monotonic(), progress_file_of(operation, self.resume_file), 0
        read: dict[str, int] = {}
        found: dict[str, list[int]] = {}
        with Progress(prints=True) as show:

            def progress(name: str, count: int) -> None:
                read[name] = read.get(name, 0) + count
                show(f"{done} partitions done; {sum(read.values()) >> 20:,} MiB read")

            for result in rewritten(
                self.spark,
                operation,
                self.paths,
                self.topics,
                self.partitions,
                dry_run=self.dry_run,
                jobs=self.jobs,
                task_bytes=self.task_bytes,
                progress_file=before,
                progress=progress,
                broker_config=self.broker_config,
                metadata=self.metadata,
            ):
                done += 1
                print_result(result, self.form, dry_run=self.dry_run)
                row = [1, *sizes(result.report)]
                found[result.topic] = [a + b for a, b in zip(found.get(result.topic, [0] * 3), row, strict=True)]
        self._print_table(found, read, time.monotonic() - started)
        if before is not None and before.skipped:
            click.echo(f"{before.skipped} partition{'s'[: before.skipped != 1]} done before: left alone", err=True)

    def _print_table(self, found: dict[str, list[int]], read: dict[str, int], seconds: float) -> None:
        rows = []
        for topic, (partitions, before, after) in sorted(found.items()):
            of_topic = sum(count for name, count in read.items() if name.rpartition("-")[0] == topic)
            rows.append([topic, *map(str, (partitions, of_topic, before, after)), ""])
        totals = [str(sum(int(row[column]) for row in rows)) for column in range(1, 5)]
        rows.append(["changed nothing" if self.dry_run else "in all", *totals, f"{seconds:.1f}"])
        print_table(_HEADINGS, rows, numbers=_HEADINGS[1:], err=True)


def rewriting_on_spark(function: _Command) -> _Command:
    """Add PATH... and the options of `SparkRewriteTarget`; the command receives them as its argument `target`."""
    names = [field.name for field in fields(SparkRewriteTarget)]

    @wraps(function)
    def command(**options: Any) -> Any:  # noqa: ANN401 - a command's
        return function(target=SparkRewriteTarget(**{name: options.pop(name) for name in names}), **options)

    checked: _Command = _checked(on_spark(command))  # type: ignore[assignment] # with other arguments, as below
    for decorate in (
        broker_settings,
        as_json,
        click.option(
            "--resume-file",
            type=click.Path(dir_okay=False),
            help="Record finished partitions in this file, and resume from it after a failure.",
        ),
        click.option(
            "--task-bytes",
            type=size,
            default="1GiB",
            show_default=True,
            help="Divide a larger partition among tasks of about this many bytes.",
        ),
        click.option("--jobs", type=int_from(1), help="Tasks at a time.  [default: as many as Spark has cores]"),
        click.option("--dry-run", is_flag=True, help="Report what would be done, and change nothing."),
        click.option("--in-place", is_flag=True, help="Change the logs themselves."),
        click.option(
            "--partition", "partitions", type=int_from(0), multiple=True, help="Only this partition. Repeatable."
        ),
        click.option("--topic", "topics", multiple=True, help="A topic of the log directories. Repeatable."),
        click.argument(
            "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False)
        ),
    ):
        checked = decorate(checked)
    return checked


def _checked(function: _Command) -> _Command:
    """Refuse contradictory options before Spark starts."""

    @wraps(function)
    def command(**options: Any) -> Any:  # noqa: ANN401 - a command's
        if options["in_place"] == options["dry_run"]:
            raise click.UsageError("one of --in-place and --dry-run is needed: nothing is changed unasked")
        if options["dry_run"] and options["resume_file"] is not None:
            raise click.UsageError(
                "--resume-file goes with --in-place: a dry run does nothing that could be done already"
            )
        return function(**options)

    return command  # type: ignore[return-value] # what click passes
