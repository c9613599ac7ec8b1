"""`brokerless report`: log directories as one page of HTML."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, WARNINGS, exit_line
from brokerless.cli.findings import exit_for, in_words
from brokerless.cli.options import LocalPath, Progress, chosen_topics, existing_path, int_from
from brokerless.io import storage
from brokerless.io.cores import cores
from brokerless.notes import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.reporting.report import ClusterReport


# A broker with more partitions is read by several processes.
_MANY = 500

REPORT_EXITS = exit_line(
    done="no findings, or notes only",
    damage="errors, or damage made the page incomplete",
    warnings="warnings, but no error, or no PATH has a partition that the page needs",
)


@click.command(short_help="Write one page of HTML about log directories.", epilog=REPORT_EXITS)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option(
    "--output",
    type=LocalPath(dir_okay=False, allow_dash=True),
    required=True,
    help="Write the page to this file, which appears when it is finished; - for stdout.",
)
@chosen_topics
@click.option(
    "--samples",
    type=click.IntRange(0, 20),
    default=0,
    show_default=True,
    metavar="N",
    help="Show the first and the latest N records of partitions, of at most 200 partitions.",
)
@click.option(
    "--jobs",
    type=int_from(1),
    help="Work in this many processes.  [default: as many as there are cores; 1 for up to 500 partitions]",
)
def report(paths: tuple[str, ...], output: str, topics: tuple[str, ...], samples: int, jobs: int | None) -> None:
    """Summarize whole log directories in one HTML page that opens offline.

    The page begins with a verdict. It shows the topics, with their sizes, formats, codecs and batch sizes, the
    partitions of each topic with the lag of groups, and records and bytes by time. It
    shows the space that other codecs, other batch sizes or a compaction would save, and the distinct keys. It also
    shows producers, consumer groups with their lag over time, open and hanging transactions, and the findings of
    `brokerless check --deep`. Nothing is changed. The verb needs `pip install 'brokerless[report]'`.

    \b
    brokerless report /var/lib/kafka/data --output report.html
    brokerless report disk1 disk2 --topic orders --output orders.html
    """
    from brokerless.reporting.report import report as of_logs

    with Progress(prints=output == "-") as show, page_file(paths, output) as file:
        jobs = _default_jobs(paths) if jobs is None else jobs
        found = of_logs(*paths, topics=topics or None, samples=samples, jobs=jobs, progress=lambda step, _: show(step))
        file.write(found.html.encode())
    tell(found, output)


def _default_jobs(paths: tuple[str, ...]) -> int:
    """Return the number of processes. A process takes most of a second to start."""
    directories = (path for path in paths if storage.is_directory(path))
    return cores() if sum(len(storage.list_directory(path)) for path in directories) > _MANY else 1


@contextmanager
def page_file(paths: tuple[str, ...], output: str) -> Iterator[BinaryIO]:
    """Open the page's file before the work begins. The file appears at the end."""
    from brokerless.cli.output import whole_file

    target = os.path.realpath(output)
    for path in paths:
        if output != "-" and os.path.commonpath([target, os.path.realpath(path)]) == os.path.realpath(path):
            raise click.UsageError(f"--output {output} is in {path}, whose files are not changed: name another file")
    with whole_file("/dev/stdout" if output == "-" else output) as file:
        yield file


def tell(found: ClusterReport, output: str) -> None:
    """Print the name of the page and the report's unknowns, and end with the exit code of its findings."""
    if output != "-":
        terminal.say(f"wrote {output}", err=True)
    for note in found.notes:
        terminal.say(f"note: {note}", err=True)
    counts: Counter[str] = Counter()
    for row in found.tables["kinds"].to_pylist():
        counts[row["severity"]] += row["findings"]
    if counts:
        terminal.say(f"findings: {in_words(counts)}; see the page, or `brokerless check --deep`", err=True)
    if not all(isinstance(note, LeftOut) for note in found.notes):
        raise SystemExit(DAMAGE)
    exit_for(counts)
    if found.notes:
        raise SystemExit(WARNINGS)
