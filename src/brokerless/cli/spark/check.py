"""`brokerless spark check`: the faults of logs."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.options import as_json, existing_path
from brokerless.cli.spark.session import on_spark, task_progress
from brokerless.cli.table import print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The kinds of findings, and the columns that count them.
_KINDS = {"damage": "DAMAGE", "order": "ORDER", "unsupported": "UNSUPPORTED", "tail": "TAILS"}
_HEADINGS = ("TOPIC", "REPLICAS", "SEGMENTS", "BYTES", *_KINDS.values())


@click.command(short_help="Check every batch and record.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option("--topic", "topics", multiple=True, help="Only this topic. Repeatable.  [default: all but internal ones]")
@as_json
@on_spark
def check(spark: SparkSession, paths: tuple[str, ...], topics: tuple[str, ...], form: str) -> None:
    """Check every batch and record of log directories: checksums, framing, structure, offsets. Nothing is changed.

    All that is wrong is printed, place by place, with the offsets that may be lost there; on stderr a table by topic
    follows, which counts the places of each kind: damage; order (offsets that go back, or leave the range of their
    segment); unsupported (legal Kafka that is not read here); and tails: what a crash left at the end of a log, and a
    broker cuts off when it starts. Every replica that the PATHs hold is checked.

    Exit codes: 0 nothing but tails was found, 1 damage, order or unsupported, 2 could not run.

    \b
    brokerless spark check /kafka/data1 /kafka/data2
    brokerless spark check s3://backup/kafka --topic orders --json
    """
    from brokerless.spark import check as job
    from brokerless.spark.jobs.reading import replicas

    checked = replicas(paths, topics)
    findings = job(spark, *paths, topics=topics).orderBy("topic", "partition", "path", "position")
    # Not all at once: a damaged disk may have more findings than fit in the driver's memory.
    rows = findings.toLocalIterator()
    with task_progress(spark, "check"):
        first = next(rows, None)
    counts: Counter[tuple[str, str]] = Counter()
    for row in chain(() if first is None else (first,), rows):
        finding = row.asDict()
        counts[finding["topic"] or "", finding["kind"]] += 1
        click.echo(json.dumps(finding, separators=(",", ":")) if form == "json" else _in_words(finding))
    table = []
    for topic in dict.fromkeys(log.topic or "" for log in checked):
        logs = [log for log in checked if (log.topic or "") == topic]
        segments = [segment for log in logs for segment in log.segments]
        numbers = (len(logs), len(segments), sum(s.size for s in segments), *(counts[topic, kind] for kind in _KINDS))
        table.append([topic or "-", *map(str, numbers)])
    print_table(_HEADINGS, table, numbers=_HEADINGS[1:], err=True)
    if any(kind != "tail" for _, kind in counts):
        raise SystemExit(1)


def _in_words(finding: dict[str, Any]) -> str:
    from brokerless.log.reader import lost_in_words

    name = "" if finding["topic"] is None else f"{finding['topic']}-{finding['partition']}: "
    base = "" if finding["base_offset"] is None else f" (base_offset {finding['base_offset']})"
    place = f"{name}{finding['kind']} at {finding['path']}:{finding['position']}{base}"
    follows = "" if finding["next_position"] is None else f"; goes on at {finding['next_position']}"
    return f"{place}: {finding['reason']}; {lost_in_words(finding['start_offset'], finding['end_offset'])}{follows}"
