"""`brokerless explain`: why the log still has a record."""

from __future__ import annotations

import os
from typing import Any

import click

from brokerless.cli.compact import compaction
from brokerless.cli.options import (
    LocalPath,
    as_json,
    broker_settings,
    bytes_option,
    chosen_partitions,
    chosen_topics,
    parse_bytes,
)
from brokerless.cli.rewriting import RewriteTarget


@click.command(short_help="Why the records with a key are still there.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False))
@click.argument("key")
@chosen_topics
@chosen_partitions
@bytes_option("How KEY is given.")
@as_json
@broker_settings
@compaction
def explain(
    paths: tuple[str, ...],
    key: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    bytes_as: str,
    form: str,
    broker_config: str | None,
    metadata: str | None,
    **options: Any,  # noqa: ANN401 - those of `Compaction`
) -> None:
    """Tell of each record with a key why it is still there, and whether a compaction with these options drops it.

    \b
    brokerless explain data user-17 --topic users
    """
    from brokerless.rewriting.compact.compact import Compaction
    from brokerless.rewriting.compact.explain import Explain

    target = RewriteTarget(
        paths=paths,
        topics=topics,
        partitions=partitions,
        in_place=False,
        dry_run=True,
        form=form,
        broker_config=broker_config,
        metadata=metadata,
    )
    target.run(Explain(parse_bytes(os.fsencode(key), bytes_as, "KEY"), Compaction(**options)))
