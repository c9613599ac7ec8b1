"""`brokerless ls`: what a log directory holds, by the headers of its batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.options import Progress, paths
from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.log.log import Log
    from brokerless.log_dir import LogDir

_HEADINGS = ("PARTITION", "SEGMENTS", "BYTES", "START", "END", "FIRST TIME", "LAST TIME", "MAGIC", "CODECS", "NOTE")
_NUMBERS = 4  # the columns behind the first that hold numbers


@click.command(short_help="List topics and partitions.")
@paths
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def ls(paths: tuple[str, ...], topics: tuple[str, ...], partitions: tuple[int, ...], form: str) -> None:
    """List topics and partitions: segments, bytes, offsets, times, formats, codecs.

    START is the log start offset, END the log end offset (one above the last record). FIRST TIME is the first
    batch's, LAST TIME the largest of all. Of a replicated partition the replica that would be read comes first.
    JSON has one object a replica, with high watermark and last stable offset too.

    \b
    brokerless ls /var/lib/kafka/data
    brokerless ls /disk1/kafka /disk2/kafka --topic orders
    brokerless ls data --format json
    """
    from brokerless.log_dir import LogDir

    log_dir = LogDir(*paths)
    found = []
    with Progress() as progress:
        for log, is_read in _replicas(log_dir, topics, partitions):
            progress(f"{log.name}: reading batch headers")
            found.append(_description(log, is_read=is_read))
    if form == "json":
        for description in found:
            click.echo(json.dumps(description, separators=(",", ":")))
    else:
        _print_table([_row(description) for description in found])
    for leftover in log_dir.leftovers():
        click.echo(f"not read: {leftover.path} ({leftover.kind})", err=True)
    damages = [description["damage"] for description in found if description["damage"]]
    for damage in damages:
        click.echo(f"damaged: {damage}", err=True)
    if damages:
        raise SystemExit(1)


def _replicas(log_dir: LogDir, topics: tuple[str, ...], partitions: tuple[int, ...]) -> Iterator[tuple[Log, bool]]:
    for log in log_dir.logs(topics or None, partitions or None):
        yield log, True
        if log.topic is not None and log.partition is not None and len(log_dir.roots) > 1:
            for replica in log_dir.replicas(log.topic, log.partition):
                if replica is not log:
                    yield replica, False


def _description(log: Log, *, is_read: bool) -> dict[str, Any]:
    """Return what there is to say of a log: all of it, or as far as damage lets one see."""
    description: dict[str, Any] = {
        "topic": log.topic,
        "partition": log.partition,
        "path": log.path,
        "node_id": log.root.node_id,
        "topic_id": log.topic_id,
        "is_read": is_read,
        "segments": len(log.segments),
        "bytes": sum(segment.size for segment in log.segments),
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": None,
        "missing_offsets": log.missing_offsets,
        "batches": None,
        "first_timestamp": None,
        "max_timestamp": None,
        "magics": [],
        "compressions": [],
        "damage": None,
    }
    try:
        first = next(log.scan(), None)
        if first is not None:
            header = first.slice(0, 1).to_pylist()[0]
            base = header["base_timestamp"]
            description["first_timestamp"] = _known(header["max_timestamp"] if base is None else base)
        walk = log.header_walk()
        description |= {
            "last_stable_offset": log.last_stable_offset,
            "batches": walk.batches,
            "max_timestamp": _known(walk.max_timestamp),
            "magics": list(walk.magics),
            "compressions": walk.compressions,
        }
    except (CorruptRecordError, UnsupportedFormatError) as error:
        description["damage"] = str(error)
    return description


def _known(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp


def _row(description: dict[str, Any]) -> list[str]:
    named = description["topic"] is not None
    notes = []
    if description["missing_offsets"]:
        first, end = description["missing_offsets"]
        notes.append(f"{first} to {end - 1} not here")
    if not description["is_read"]:
        notes.append(f"replica of node {description['node_id']}")
    if description["damage"]:
        notes.append("damaged")
    return [
        f"{description['topic']}-{description['partition']}" if named else description["path"],
        *(str(description[name]) for name in ("segments", "bytes", "log_start_offset", "log_end_offset")),
        _moment(description["first_timestamp"]),
        _moment(description["max_timestamp"]),
        ",".join(map(str, description["magics"])),
        ",".join(description["compressions"]),
        "; ".join(notes),
    ]


def _moment(timestamp: int | None) -> str:
    if timestamp is None:
        return "-"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_table(rows: list[list[str]]) -> None:
    table = [list(_HEADINGS), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(_HEADINGS))]
    for row in table:
        cells = (
            text.rjust(width) if 1 <= i <= _NUMBERS else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        click.echo("  ".join(cells).rstrip())
