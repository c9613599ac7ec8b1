"""`brokerless spark convert`: another message format or codec, for a whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.convert import convert_options
from brokerless.cli.spark.rewriting import rewriting_on_spark

if TYPE_CHECKING:
    from brokerless.cli.spark.rewriting import SparkRewriteTarget


@click.command(short_help="Change message format, codec or batch size.")
@rewriting_on_spark
@convert_options
def convert(target: SparkRewriteTarget, settings: dict[str, Any]) -> None:
    """Convert whole log directories to another message format or codec. Offsets stay as they are.

    Each partition is a task, a large one several.

    See `brokerless convert` for what becomes of batches, `brokerless spark compact` for PATHs, failures and
    --resume-file.

    \b
    brokerless spark convert /kafka/data1 /kafka/data2 --topic clicks --compression zstd --dry-run
    brokerless spark convert /kafka/data1 --topic clicks --compression zstd --in-place --resume-file done.jsonl
    """
    from brokerless.rewriting.convert import Convert

    target.run(Convert(**settings), lambda report: (report.bytes_before, report.bytes_after))
