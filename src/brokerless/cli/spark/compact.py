"""`brokerless spark compact`: compact the logs of a whole cluster, as brokers' log cleaners do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.compact import compact_options
from brokerless.cli.spark.rewriting import rewriting_on_spark

if TYPE_CHECKING:
    from brokerless.cli.spark.rewriting import SparkRewriteTarget


@click.command(short_help="Keep the last record of each key.")
@rewriting_on_spark
@compact_options
def compact(target: SparkRewriteTarget, **options: Any) -> None:  # noqa: ANN401 - those of `Compact`
    """Keep the last record of each key, as brokers' log cleaners do, in whole log directories at once.

    Each partition is a task, a large one several; --memory is that of one. The PATHs are log directories, with --topic,
    or partitions' directories, that this machine and all executors see. They are locked meanwhile. Each partition is as
    it was until all that is new of it is on the disk, whatever fails; with --resume-file, the same command resumes
    where it failed.

    \b
    brokerless spark compact /kafka/data1 /kafka/data2 --topic users --dry-run
    brokerless spark compact /kafka/data1 /kafka/data2 --topic users --in-place --roll --resume-file done.jsonl
    """
    from brokerless.rewriting.compact.compact import Compact

    target.run(Compact(**options), lambda report: (report.bytes_before, report.bytes_after))
