"""`brokerless ls`: the topics and partitions of a log directory, from the headers of its batches."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, FAILURE, exit_line
from brokerless.cli.options import Progress, as_json, paths
from brokerless.cli.table import print_table
from brokerless.cli.terminal import in_words
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.notes import collected
from brokerless.wording import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from brokerless.log.defect import Defect
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.metadata.topic_settings import Cluster

_HEADINGS = (
    "PARTITION",
    "SEGMENTS",
    "BYTES",
    "START",
    "END",
    "FIRST RECORD",
    "LATEST RECORD",
    "MAGIC",
    "CODECS",
    "NOTE",
)
_DENIED = f"{os.strerror(errno.EACCES)}: "
_DAMAGE = (CorruptRecordError, UnsupportedFormatError, OSError)


@click.command(short_help="List topics and partitions.", epilog=exit_line(damage="damage hides a value"))
@paths
@as_json
def ls(paths: tuple[str, ...], topics: tuple[str, ...], partitions: tuple[int, ...], form: str) -> None:
    """List topics and partitions: segments, bytes, offsets, times, message formats and codecs.

    START is the log start offset. For a tiered log, a note names the offsets in remote storage. END is the log end
    offset, one above the last record. FIRST RECORD is the timestamp of the first record, and LATEST RECORD the latest
    timestamp. If the PATHs have several replicas of a partition, the replica that `brokerless read` uses is listed
    first. JSON also has the high watermark, the last stable offset and the local log start offset. A value that damage
    hides is shown as `-`, in JSON as null.

    Stderr names directories of the chosen topics that are not read, and partitions that a broker would not serve
    because the cluster's metadata lack their topic ids.

    \b
    brokerless ls /var/lib/kafka/data
    brokerless ls /disk1/kafka /disk2/kafka --topic orders
    brokerless ls data --json
    """
    from brokerless.layout.file_names import is_chosen

    damages: dict[str, None] = {}
    found = []
    with Progress(prints=False) as progress, collected() as notes:
        log_dirs, logs = _listed(paths, topics, partitions, damages)
        for log, is_read in logs:
            progress(f"{log.name}: reading batch headers")
            found.append(_description(log, is_read=is_read))
    if form == "json":
        for description in found:
            click.echo(json.dumps(description, separators=(",", ":")))
    else:
        print_table(_HEADINGS, [_row(description) for description in found], numbers=_HEADINGS[1:5])
    for log_dir in log_dirs:
        chosen = (one for one in log_dir.leftovers() if not topics or is_chosen(one.topic, topics))
        for leftover in chosen:
            terminal.say(f"not read: {leftover.path} ({leftover.kind})", err=True)
    # A damaged file of the log directory affects every partition.
    said = [one for description in found for one in description["damage"] or ()]
    denied = dict.fromkeys(one["message"] for one in said if _is_denial(one))
    damages |= dict.fromkeys(one["message"] for one in said if one["message"] not in denied)
    # Damage that a read only notes counts as a finding here.
    damages |= dict.fromkeys(notes)
    for damage in damages:
        terminal.say(f"damaged: {_with_paths(damage, paths)}", err=True)
    # Damage has been reported.
    with collected():
        clusters = list(_clusters(log_dirs))
        for cluster in clusters:
            _name_unserved(cluster, [log for log, _ in logs])
        _name_faults([cluster for cluster in clusters if cluster.path in paths])
    for denial in denied:
        terminal.say(f"brokerless: {denial}", err=True)
    if denied or damages:
        raise SystemExit(FAILURE if denied else DAMAGE)


def _listed(
    paths: tuple[str, ...], topics: tuple[str, ...], partitions: tuple[int, ...], damages: dict[str, None]
) -> tuple[list[LogDirs], list[tuple[Log, bool | None]]]:
    """Return the directories and the replicas to list. Damage that hides which replica a read uses is added."""
    from brokerless.log_dir.log_dirs import LogDirs

    try:
        whole = LogDirs(*paths)
        return [whole], list(_replicas(whole, topics, partitions))
    except PermissionError:
        raise
    except _DAMAGE as error:
        damages[str(error)] = None
        each = [LogDirs(path) for path in dict.fromkeys(paths)]
        return each, _uncompared(each, topics, partitions)


def _replicas(
    log_dir: LogDirs, topics: tuple[str, ...], partitions: tuple[int, ...]
) -> Iterator[tuple[Log, bool | None]]:
    for log in log_dir.logs(topics or None, partitions or None):
        yield log, True
        if log.topic is not None and log.partition is not None and len(log_dir.roots) > 1:
            for replica in log_dir.replicas(log.topic, log.partition):
                if replica is not log:
                    yield replica, False


def _uncompared(
    log_dirs: list[LogDirs], topics: tuple[str, ...], partitions: tuple[int, ...]
) -> list[tuple[Log, bool | None]]:
    """Return all replicas if damage hides which one a read would use: `is_read` is None if there are several."""
    logs = [
        log
        for log_dir in log_dirs
        for log in log_dir.logs()
        if (not topics or log.topic in topics) and (not partitions or log.partition in partitions)
    ]
    logs.sort(key=lambda log: (log.topic or "", log.partition or 0))
    count = Counter((log.topic, log.partition) for log in logs)
    return [(log, None if log.topic and count[log.topic, log.partition] > 1 else True) for log in logs]


def _description(log: Log, *, is_read: bool | None) -> dict[str, Any]:
    """Return the description of a log; facts that damage hides are None."""
    from brokerless.log.partition_files import header_walk

    damage: list[dict[str, Any]] = []

    def known(look: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        try:
            return look()
        except _DAMAGE as error:
            said = {"code": "unreadable", "path": getattr(error, "path", None) or log.path, "message": str(error)}
            if isinstance(error, OSError) and error.filename is not None:
                said |= {"path": os.fsdecode(error.filename), "message": in_words(error)}
            if said not in damage:
                damage.append(said)
            return None

    walk = known(lambda: header_walk(log.files))
    # The walk ends at the first file that cannot be opened.
    for segment in () if walk else known(lambda: log.segments) or ():
        known(partial(_open, segment))
    damage += [_damage(missing, missing.path) for missing in known(lambda: log.files.missing) or ()]
    end = known(lambda: log.files.damage_at_end)
    if end is not None and not any(f"{end.path}:{end.position}" in said["message"] for said in damage):
        damage.append(_damage(end, f"{end.path}:{end.position}"))
    return {
        "topic": log.topic,
        "partition": log.partition,
        "path": log.path,
        "node_id": known(lambda: log.root.node_id),
        "topic_id": known(lambda: log.topic_id),
        "is_read": is_read,
        "segments": known(lambda: len(log.segments)),
        "bytes": known(lambda: sum(segment.size for segment in log.segments)),
        "log_start_offset": known(lambda: log.log_start_offset),
        "local_log_start_offset": known(lambda: log.local_log_start_offset),
        "log_end_offset": known(lambda: log.log_end_offset),
        "high_watermark": known(lambda: log.high_watermark),
        "last_stable_offset": known(lambda: log.last_stable_offset) if walk else None,
        "missing_offsets": known(lambda: log.missing_offsets),
        "batches": walk and walk.batches,
        "first_record_timestamp": known(lambda: _first_timestamp(log)),
        "max_timestamp": walk and _time(walk.max_timestamp),
        "magics": walk and list(walk.magics),
        "compressions": walk and walk.compressions,
        "damage": damage or None,
    }


def _open(segment: Segment) -> None:
    with segment.open():
        pass


def _is_denial(damage: dict[str, Any]) -> bool:
    """Return whether a file could not be opened for lack of permission, so that nothing is known of damage."""
    return bool(damage["code"] == "unreadable" and damage["message"].startswith(_DENIED))


def _damage(defect: Defect, place: str) -> dict[str, Any]:
    return {"code": defect.code, "path": defect.path, "message": f"{place}: {defect.reason}"}


def _clusters(log_dirs: list[LogDirs]) -> Iterator[Cluster]:
    """Yield the cluster of each log directory that no broker has open."""
    from brokerless.io.remote import is_remote
    from brokerless.metadata.directory import metadata_among
    from brokerless.metadata.topic_settings import Cluster

    roots = {root.path: root for log_dir in log_dirs for root in log_dir.roots if not is_remote(root.path)}
    for path, root in roots.items():
        # Damage has been reported.
        with contextlib.suppress(*_DAMAGE):
            if not root.is_locked:
                cluster = Cluster.of(path, root.node_id, metadata=metadata_among(roots, path))
                cluster.online.update(one.directory_id for one in roots.values() if one.node_id == root.node_id)
                yield cluster


def _name_unserved(cluster: Cluster, logs: list[Log]) -> None:
    from brokerless.layout.file_names import METADATA_TOPIC

    for log in logs:
        # The metadata log is the Raft layer's own.
        if log.root.path != cluster.path or log.topic in (None, METADATA_TOPIC) or log.files.is_file:
            continue
        with contextlib.suppress(*_DAMAGE):
            if unserved := cluster.unserved((log.topic or "", log.partition or 0), log.topic_id):
                terminal.say(f"not served: {log.path} ({unserved.why})", err=True)


def _with_paths(message: str, paths: Sequence[str]) -> str:
    """Return a message whose paths begin as they were given."""
    from brokerless.io import storage

    for path in paths:
        message = message.replace(f"{storage.absolute(path)}/", f"{path.rstrip('/')}/")
    return message


def _name_faults(clusters: list[Cluster]) -> None:
    """Report faults that keep a broker from starting on log directories, or from serving anything."""
    from brokerless.io import storage
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log_dir.start_faults import missing_ids, start_faults

    for cluster in clusters:
        beside = [other.path for other in clusters if other is not cluster]
        # No broker starts on partitions' directories alone: they need no ids.
        is_root = LogDirFiles.is_root(storage.list_directory(cluster.path))
        lacking = missing_ids(cluster.path, beside) if is_root else ()
        for fault in (*start_faults(cluster.path, beside), *lacking):
            terminal.say(f"note: {fault}", err=True)
    missing = [cluster.missing_metadata() for cluster in clusters]
    # One disk of a broker with the metadata is enough.
    for said in missing if all(missing) else ():
        terminal.say(f"note: {said}", err=True)


def _first_timestamp(log: Log) -> int | None:
    import pyarrow as pa

    rows = next(iter(log.read(log.local_log_start_offset, columns=["timestamp"], check_crcs=False)), None)
    return None if rows is None else _time(rows["timestamp"].cast(pa.int64())[0].as_py())


def _time(timestamp: int | None) -> int | None:
    return None if timestamp is None or timestamp < 0 else timestamp


def _row(description: dict[str, Any]) -> list[str]:
    from brokerless.io.clock import now_ms
    from brokerless.log.unlikely_times import unlikely_time

    named = description["topic"] is not None
    notes = []
    if description["missing_offsets"]:
        first, end = description["missing_offsets"]
        notes.append(f"{first} to {end - 1} not here")
    why = None if description["max_timestamp"] is None else unlikely_time(description["max_timestamp"], now_ms())
    if why is not None:
        notes.append(f"latest record {why}")
    if description["is_read"] is False:
        notes.append(f"replica of node {description['node_id']}")
    denials = [_is_denial(one) for one in description["damage"] or ()]
    if not all(denials):
        notes.append("damaged")
    if any(denials):
        notes.append("not readable")
    return [
        f"{description['topic']}-{description['partition']}" if named else description["path"],
        *(
            "-" if description[name] is None else str(description[name])
            for name in ("segments", "bytes", "log_start_offset", "log_end_offset")
        ),
        moment(description["first_record_timestamp"]),
        moment(description["max_timestamp"]),
        _several(description["magics"]),
        _several(description["compressions"]),
        "; ".join(notes),
    ]


def _several(names: list[Any] | None) -> str:
    return "-" if names is None else ",".join(map(str, names))
