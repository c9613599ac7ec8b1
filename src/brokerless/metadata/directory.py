"""The place of the cluster's metadata in a log directory, and whether a broker has started on that directory."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.log_dir_files import LogDirFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_SNAPSHOT_STATES = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")
_MOST_OFFSET, _MOST_EPOCH = (1 << 63) - 1, (1 << 31) - 1


class CutSnapshotError(CorruptRecordError):
    """A snapshot of the metadata ends before its footer. A controller loads the records before the cut."""


def snapshot_of_name(name: str) -> tuple[int, int] | None:
    """Return the end offset and the leader epoch in the name of a metadata snapshot; None for any other name.

    Names with numbers outside of Kafka's ranges also give None.
    """
    match = _SNAPSHOT.fullmatch(name)
    found = None if match is None else (int(match[1]), int(match[2]))
    return found if found is not None and found[0] <= _MOST_OFFSET and found[1] <= _MOST_EPOCH else None


def is_fatal_snapshot(name: str) -> bool:
    """Return whether a file of this name beside the metadata log keeps a node from starting (`Snapshots.parse`).

    A node parses the offset and the leader epoch at the start of the name, and ignores the rest, such as the number
    that makes the name of an unfinished snapshot unique.

    >>> is_fatal_snapshot("x.checkpoint"), is_fatal_snapshot("00000000000000000051-0000000001-7234234.checkpoint.part")
    (True, False)
    """
    return name.endswith(_SNAPSHOT_STATES) and snapshot_of_name(f"{name[:31]}{_SNAPSHOT_STATES[0]}") is None


def formatted_snapshot(path: str) -> str:
    """Return the path of the snapshot that formatting writes: the voters, and since 4.4 all records (KIP-1170)."""
    return f"{path}/{file_names.METADATA_TOPIC}-0/{0:020d}-{0:010d}.checkpoint"


def is_newest_snapshot(path: str) -> bool:
    """Return whether a snapshot of the metadata is the newest one in its directory."""
    directory, name = os.path.split(path)
    names = storage.list_directory(directory) if storage.is_directory(directory) else []
    return name == max((one for one in names if snapshot_of_name(one) is not None), default=None)


def first_snapshot(path: str) -> str:
    """Return the path of the snapshot with which the metadata log of a new cluster begins, if it begins with one.

    The snapshot has offset 1, and the log begins at that offset. So nodes that join later, with empty logs, fetch the
    snapshot. With offset 0, they would fetch the log from its start instead.
    """
    return f"{path}/{file_names.METADATA_TOPIC}-0/{1:020d}-{1:010d}.checkpoint"


def has_metadata_log(path: str) -> bool:
    """Return whether a log directory has the metadata log of a started cluster.

    The first snapshot does not prove that the metadata log is here. Formatting writes this snapshot, and the metadata
    log may then start on another disk.
    """
    directory = f"{path}/{file_names.METADATA_TOPIC}-0"
    first = os.path.basename(formatted_snapshot(path))
    names = storage.list_directory(directory) if storage.is_directory(directory) else []
    return any(name.endswith(".log") or (snapshot_of_name(name) and name != first) for name in names)


def metadata_among(paths: Iterable[str], path: str) -> str | None:
    """Return the path, among several, that has the metadata log of a log directory; None if no path has it.

    Args:
        paths: log directories and other paths.
        path: the log directory without a metadata log.
    """
    cluster_id = LogDirFiles(path).cluster_id
    if cluster_id is None or has_metadata_log(path):
        return None
    return next((one for one in paths if has_metadata_log(one) and LogDirFiles(one).cluster_id == cluster_id), None)


def metadata_directory(metadata: str, path: str) -> str:
    """Return the log directory that holds a metadata log.

    Args:
        metadata: this log directory, or the metadata log's own directory in it.
        path: the log directory that needs the metadata.

    Raises:
        ValueError: there is no metadata log, or it belongs to another cluster.
    """
    absolute = os.path.abspath(metadata)
    found = os.path.dirname(absolute) if os.path.basename(absolute) == f"{file_names.METADATA_TOPIC}-0" else metadata
    if not has_metadata_log(found):
        raise ValueError(
            f"{metadata} has no metadata log. A broker has it as {file_names.METADATA_TOPIC}-0 in metadata.log.dir, "
            "or, without that setting, in the first of its log.dirs: name that directory"
        )
    wanted, cluster_id = LogDirFiles(path).cluster_id, LogDirFiles(found).cluster_id
    if None not in (wanted, cluster_id) and wanted != cluster_id:
        raise ValueError(
            f"the metadata log in {metadata} is of cluster {cluster_id}, but {path} belongs to cluster {wanted}"
        )
    return found


def has_topic_ids(path: str) -> bool:
    """Return whether any partition has a topic id from its cluster."""
    names = (name for name in storage.list_subdirectories(path) if name != f"{file_names.METADATA_TOPIC}-0")
    return any(storage.exists(f"{path}/{name}/{checkpoints.PARTITION_METADATA}") for name in names)


def has_started(path: str) -> bool:
    """Return whether a broker or a controller ran on a log directory, according to its files except the logs."""
    metadata = f"{path}/{file_names.METADATA_TOPIC}-0"
    new = {os.path.basename(formatted_snapshot(path)), os.path.basename(first_snapshot(path))}
    names = storage.list_directory(metadata) if storage.is_directory(metadata) else []
    return not new.issuperset(names) or _was_closed_by_broker(path)


def was_started(path: str) -> bool:
    """Return whether a broker ran on a log directory. If so, no controller reads the formatted snapshot any more.

    An absent metadata log proves nothing, because it may be on another disk than the formatted snapshot. The log's
    first offset proves nothing either, because it depends on the cluster's last snapshot.
    """
    metadata = f"{path}/{file_names.METADATA_TOPIC}-0"
    if storage.is_directory(metadata) and any(
        name.endswith(".log") and file_names.live_base_offset(name) is not None
        for name in storage.list_directory(metadata)
    ):
        return True
    return _was_closed_by_broker(path)


def _was_closed_by_broker(path: str) -> bool:
    markers = (f"{path}/{name}" for name in (checkpoints.CLEAN_SHUTDOWN, checkpoints.CLEAN_SHUTDOWN_ASIDE))
    epochs = [
        checkpoints.parse_clean_shutdown(storage.read_all(marker)) for marker in markers if storage.is_file(marker)
    ]
    # Markers that a broker did not write have no epoch, or a negative one.
    return any(epoch is not None and epoch >= 0 for epoch in epochs)
