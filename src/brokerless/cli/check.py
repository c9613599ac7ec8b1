"""`brokerless check`: every fault of log directories."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, WARNINGS, exit_line
from brokerless.cli.findings import Printer, levels
from brokerless.cli.options import BytesProgress, Progress, as_json, chosen_partitions, chosen_topics, existing_path

CHECK_EXITS = exit_line(done="no findings, or notes only", damage="errors", warnings="warnings, but no error")


@click.command(short_help="Find every fault, with its effect and its cure.", epilog=CHECK_EXITS)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@chosen_topics
@chosen_partitions
@levels
@click.option("--all", "shows_notes", is_flag=True, help="Also show notes.")
@click.option(
    "--against", type=existing_path, help="Compare PATH with this directory; --all also shows equal partitions."
)
@click.option("--records", is_flag=True, help="With --against: compare the latest record of each key, not batches.")
@as_json
def check(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    level: str | None,
    shows_notes: bool,
    against: str | None,
    records: bool,
    form: str,
) -> None:
    """Find every fault of log directories: in batches, indexes, snapshots, checkpoints, ids, names and metadata.

    Nothing is changed. Every replica in the PATHs is checked against its own files and the cluster's metadata. Each
    finding is a line with a code; `brokerless finding CODE` explains its effect on a broker and on readers, and its
    cure. If a broker is running, check a copy or a snapshot, because the broker changes its files. `brokerless recover
    --dry-run` says whether a broker would start.

    --quick checks names, ids, checkpoints and batch headers. The default also checks checksums and the order of
    offsets, leader epochs and sequences. It compares indexes, leader epochs and producer snapshots with the batches.

    --against compares each partition in PATH with its copy in another directory: the partition is equal, behind, ahead,
    or diverged from an offset on. Batches are compared by their checksums, which are verified. The batches of compacted
    copies differ, so compare such copies with --records: it compares the latest record of each key.

    With --against, a partition that diverged, is damaged, or is in only one of the directories is an error. A partition
    that is behind or ahead is a warning.

    \b
    brokerless check /var/lib/kafka/data
    brokerless check disk1 disk2 --quick
    brokerless check backup --deep --topic orders --json
    brokerless check broker1/data --against broker2/data
    """
    # Arrow imports NumPy, which would start threads for its algebra: as slow as the check of some 100 MB.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if against is not None:
        if partitions:
            raise click.UsageError("--against compares all partitions of a topic: name partition directories instead")
        _compare(paths, against, topics, level, form, records=records, shows_all=shows_notes)
        return
    if records:
        raise click.UsageError("--records is for a comparison: give --against")
    from brokerless.checking.check import check as of_logs

    printer = Printer(form, shows_notes=shows_notes)
    wanted: Any = level or "default"
    with BytesProgress("checked") as progress:
        for finding in of_logs(
            *paths, topics=topics or None, partitions=partitions or None, level=wanted, progress=progress.add
        ):
            printer.add(finding)
    printer.end(paths)


def _compare(
    paths: tuple[str, ...],
    against: str,
    topics: tuple[str, ...],
    level: str | None,
    form: str,
    *,
    records: bool,
    shows_all: bool,
) -> None:
    from brokerless.checking.compare import compare

    if len(paths) != 1 or level:
        raise click.UsageError("--against compares one PATH with another, without --quick or --deep")
    counts: Counter[str] = Counter()
    with Progress(prints=True) as show:
        for found in compare(paths[0], against, topics=topics or None, records=records):
            counts[found.status] += 1
            show(f"compared {counts.total():,} partitions")
            if form == "json":
                click.echo(json.dumps(found.to_dict(), separators=(",", ":")))
            elif found.status != "equal" or shows_all:
                terminal.say(str(found))
    if form != "json":
        terminal.say(", ".join(f"{count:,} {status}" for status, count in counts.items()), err=True)
    if counts.total() > counts["equal"] + counts["behind"] + counts["ahead"]:
        raise SystemExit(DAMAGE)
    if counts.total() > counts["equal"]:
        raise SystemExit(WARNINGS)
