"""`brokerless offsets`: the broker's answer to "which offset at this time?"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import as_json, isolation_level, moment, named_logs, note_missing, paths
from brokerless.wording import printable

if TYPE_CHECKING:
    from brokerless.log.log import Log
    from brokerless.log.offset_range import IsolationLevel

# The numbers are Kafka's own (ListOffsets).
_PENDING_UPLOAD = -6
_WORDS = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
    "earliest_pending_upload": _PENDING_UPLOAD,
}


@click.command(short_help="Find offsets by time.", epilog=exit_line())
@paths
@click.option(
    "--timestamp",
    required=True,
    type=moment(**_WORDS),
    help="ms since 1970, ISO 8601, earliest, latest or max-timestamp (also earliest-local, latest-tiered, "
    "earliest-pending-upload).",
)
@isolation_level
@as_json
def offsets(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    timestamp: int,
    isolation_level: IsolationLevel,
    form: str,
) -> None:
    """Find the offset of the first record at or after a time, by the broker's rules.

    If no record matches, the text has - in place of an offset, and JSON has the broker's answer: -1.

    The remote segments of a tiered log are not searched: stderr names their offsets. earliest-pending-upload is refused
    for a tiered log, because no local file says which segments are uploaded. Any other log has no such offset, as on a
    broker since 4.2.

    \b
    brokerless offsets data --topic orders --timestamp 2024-05-01T00:00:00Z
    brokerless offsets orders-0 --timestamp latest --isolation-level read_committed
    brokerless offsets data --timestamp earliest --json
    """
    for log in named_logs(paths, topics, partitions, internal=False):
        if timestamp == _PENDING_UPLOAD:
            _check_not_tiered(log)
        found = log.offsets_for_times(timestamp, isolation_level)
        if timestamp >= 0:
            note_missing(log)
        end = log.files.damage_at_end
        damage = [] if end is None else [f"{end.path}:{end.position}: {end.reason}"]
        for said in (*damage, *log.files.contradictions()):
            terminal.say(f"note: {said}", err=True)
        if form == "json":
            answer = {
                "topic": log.topic,
                "partition": log.partition,
                "offset": found.offset,
                "timestamp": found.timestamp,
                "leader_epoch": found.leader_epoch,
            }
            click.echo(json.dumps(answer, separators=(",", ":")))
        else:
            click.echo(f"{printable(log.name)}\t{'-' if found.offset < 0 else found.offset}")


def _check_not_tiered(log: Log) -> None:
    """Refuse a log that the cluster's metadata declare tiered, even if its own files do not show it."""
    from brokerless.log.offsets_for_times import pending_upload_unknown
    from brokerless.metadata.topic_settings import Cluster

    cluster = Cluster.of(log.root.path, log.root.node_id)
    if log.topic is not None and cluster.config_of(log.topic).remote_storage_enable:
        raise pending_upload_unknown(log.files)
