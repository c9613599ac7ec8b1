"""The verbs that rewrite logs, with Spark tasks: a verb's own options and printing, and the options of its tasks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.compact import compact
from brokerless.cli.convert import convert
from brokerless.cli.erase import erase
from brokerless.cli.options import LocalPath, int_from, size
from brokerless.cli.retain import retain
from brokerless.cli.rewriting import RewriteTarget, target_of
from brokerless.cli.spark.session import session_options, shared
from brokerless.cli.table import print_table
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from brokerless.append.operation import PlanT, ReportT, RewriteOperation
    from brokerless.rewriting.run import RewriteResult

_HEADINGS = ("TOPIC", "PARTITIONS", "BYTES READ", "BYTES BEFORE", "BYTES AFTER", "SECONDS")


@dataclass(frozen=True, kw_only=True)
class SparkRewriteTarget(RewriteTarget):
    """The options of a command on Spark: the logs of an operation, and how its tasks run.

    Attributes:
        session: starts Spark.
        sizes: returns the bytes of a log before and after the operation, from its report.
    """

    session: AbstractContextManager[SparkSession]
    sizes: Callable[[Any], tuple[int, int]]
    tasks: int | None
    task_bytes: int | None = None
    resume_file: str | None

    def run(self, operation: RewriteOperation[PlanT, ReportT]) -> list[ReportT]:
        """Run an operation on the logs, print its results, and return the reports.

        Raises:
            click.UsageError: neither --in-place nor --dry-run is given, or --resume-file with --dry-run.
        """
        if not (self.in_place or self.dry_run):
            raise click.UsageError("give --in-place, or see with --dry-run what would change")
        if self.dry_run and self.resume_file is not None:
            raise click.UsageError("--resume-file needs --in-place: a dry run leaves no finished partitions to skip")
        from brokerless.spark.jobs.rewrite import progress_file_of
        from brokerless.spark.jobs.spark_tasks import SparkTasks

        with self.session as spark:
            started = time.monotonic()
            done = None if self.resume_file is None else progress_file_of(operation, self.resume_file)
            results, read = self._rewrite(
                operation,
                runner=lambda progress: SparkTasks(spark, self.tasks, progress),
                progress_file=done,
                share=self.task_bytes,
            )
            self._print_table(results, read, time.monotonic() - started)
        if done is not None and done.skipped:
            terminal.say(f"{counted(done.skipped, 'partition')} skipped: an earlier run finished them", err=True)
        return [result.report for result in results]

    def _print_table(self, results: list[RewriteResult[ReportT]], read: dict[str, int], seconds: float) -> None:
        rows = []
        for topic in sorted({result.topic for result in results}):
            sizes = [self.sizes(result.report) for result in results if result.topic == topic]
            of_topic = sum(count for name, count in read.items() if name.rpartition("-")[0] == topic)
            rows.append([topic, *map(str, (len(sizes), of_topic, *map(sum, zip(*sizes, strict=True)))), ""])
        totals = [str(sum(int(row[column]) for row in rows)) for column in range(1, 5)]
        rows.append(["changed nothing" if self.dry_run else "in all", *totals, f"{seconds:.1f}"])
        print_table(_HEADINGS, rows, numbers=_HEADINGS[1:], err=True)


def _bytes(report: Any) -> tuple[int, int]:  # noqa: ANN401 - those of `Compaction`, `Conversion` and `Erasure`
    return report.bytes_before, report.bytes_after


def _on_spark(
    verb: click.Command,
    *left_out: str,
    example: str,
    is_divisible: bool = False,
    sizes: Callable[[Any], tuple[int, int]] = _bytes,
) -> click.Command:
    """Return the command that runs a verb of `rewriting` on Spark.

    Args:
        verb: the verb.
        left_out: the flags of the verb that the command on Spark does not have.
        example: options for the examples in its help.
        is_divisible: whether several tasks may work on one partition.
        sizes: see `SparkRewriteTarget`.
    """

    @session_options
    def command(paths: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - a command's
        # Executors may have another working directory.
        options |= {"paths": tuple(map(os.path.abspath, paths)), "sizes": sizes}
        target = target_of(SparkRewriteTarget, options)
        verb.callback(target=target, **options, **dict.fromkeys(left_out))  # type: ignore[misc] # it has one

    for option in (*([_TASK_BYTES] if is_divisible else []), *_OPTIONS):
        command = option(command)
    does, _, _ = str(verb.help).partition("\n")
    run = f"brokerless spark {verb.name} /kafka/data1 /kafka/data2 {example}"
    text = _HELP.format(
        does=does, verb=verb.name, more=", and a large partition several tasks" if is_divisible else "", run=run
    )
    params = shared(verb, "output", "jobs", *left_out)
    return click.command(verb.name, params=params, short_help=verb.short_help, help=text, epilog=verb.epilog)(command)


_HELP = """{does}

This is `brokerless {verb}` for whole log directories: each partition is a task{more}. The PATHs are log directories,
with --topic, or partitions' directories. This machine and all executors must see them under the same paths. They stay
locked during the run. Until all new segments of a partition are on disk, a failure leaves the partition unchanged. With
--resume-file, the same command resumes after a failure.

\b
{run} --dry-run
{run} --in-place --resume-file done.jsonl
"""
_TASK_BYTES = click.option(
    "--task-bytes",
    type=size,
    default="1GiB",
    show_default=True,
    help="Divide a larger partition among tasks of about this many bytes.",
)
_OPTIONS = (
    click.option(
        "--resume-file",
        type=LocalPath(dir_okay=False),
        help="Record finished partitions in this file, and resume from it after a failure.",
    ),
    click.option(
        "--jobs",
        "tasks",
        type=int_from(1),
        help="Run this many tasks at a time.  [default: as many as Spark has cores]",
    ),
)

COMMANDS = (
    _on_spark(
        retain,
        example="--topic clicks --retention-ms 86400000",
        sizes=lambda report: (report.size, report.size - report.deleted_size),
    ),
    _on_spark(compact, "explain", "bytes_as", example="--topic users --roll", is_divisible=True),
    _on_spark(convert, "estimate", example="--topic clicks --compression zstd", is_divisible=True),
    _on_spark(erase, example="--topic orders --keys-from requests.txt"),
)
"""The commands: `brokerless spark retain`, `compact`, `convert` and `erase`."""
