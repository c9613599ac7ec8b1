"""The files of a broker's log directory outside its partitions: ids, shutdown marker, checkpoints.

Each file is read on first use, so a damaged file matters only to operations that need it. A malformed checkpoint causes
a warning and is treated as empty.
"""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from brokerless.arguments import listed_few
from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, file_names, lock, restored_topics
from brokerless.layout.commit_journal import Journal
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")

# The maximum number of names in a directory that are checked for log directories.
_MOST_LISTED = 1000
_MARKS = (
    checkpoints.META_PROPERTIES,
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.FIRST_DIRTY_OFFSETS,
    checkpoints.CLEAN_SHUTDOWN,
)


class LogDirFiles:
    """The files of a log directory (one of a broker's `log.dirs`) outside its partitions: ids, checkpoints and others.

    Files are read on first use and cached. A missing file is not an error: its values are None, False or empty.

    Attributes:
        path: the directory.

    >>> LogDirFiles("/nowhere").is_clean, LogDirFiles("/nowhere").node_id
    (False, None)
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"LogDirFiles({self.path!r})"

    @staticmethod
    def is_root(names: list[str]) -> bool:
        """Return whether a directory that holds these names is a broker's log directory."""
        return any(name in _MARKS for name in names)

    @cached_property
    def is_there(self) -> bool:
        """True if this is a broker's log directory, and not just the parent of a copied partition directory."""
        return self.is_root(storage.list_directory(self.path))

    @property
    def node_id(self) -> int | None:
        """The broker's `node.id` (`broker.id` before KRaft)."""
        return self._meta.node_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster id."""
        return self._meta.cluster_id

    @property
    def directory_id(self) -> str | None:
        """The directory's id (Kafka 3.7 and later)."""
        return self._meta.directory_id

    @property
    def is_kraft(self) -> bool:
        """True if the directory belongs to a KRaft cluster, whose brokers load only topics that their metadata name."""
        return self._meta.version >= 1

    @cached_property
    def is_clean(self) -> bool:
        """True if a broker shut down cleanly here, that is, if the marker file exists."""
        return storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN))

    @property
    def is_locked(self) -> bool:
        """True if a live broker or another writer holds the lock now. A killed broker leaves only the lock file."""
        return not is_remote(self.path) and lock.is_held(self._file(checkpoints.LOCK))

    @cached_property
    def broker_epoch(self) -> int | None:
        """The broker epoch in the clean-shutdown marker."""
        # After any error, a broker reads the file as a marker without an epoch.
        with contextlib.suppress(CorruptRecordError):
            return self._parsed(checkpoints.CLEAN_SHUTDOWN, checkpoints.parse_clean_shutdown, None)
        return None

    @cached_property
    def recovery_points(self) -> dict[tuple[str, int], int]:
        """The first offset that may not have been flushed, by (topic, partition)."""
        return self._checkpoint(checkpoints.RECOVERY_POINTS)

    @cached_property
    def log_start_offsets(self) -> dict[tuple[str, int], int]:
        """The log start offsets, by (topic, partition), where they differ from the first segment's base offset."""
        return self._checkpoint(checkpoints.LOG_START_OFFSETS)

    @cached_property
    def has_log_start_offsets(self) -> bool:
        """True if a broker has written the checkpoint of log start offsets. A new broker creates the file empty."""
        try:
            return bool(self._parsed(checkpoints.LOG_START_OFFSETS, bytes, b"")) and (
                self._parsed(checkpoints.LOG_START_OFFSETS, checkpoints.parse_offset_checkpoint, None) is not None
            )
        except CorruptRecordError:
            return False

    @cached_property
    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The last checkpointed high watermark, by (topic, partition)."""
        return self._checkpoint(checkpoints.HIGH_WATERMARKS)

    @cached_property
    def first_dirty_offsets(self) -> dict[tuple[str, int], int]:
        """The offset at which the cleaner will continue, by (topic, partition)."""
        return self._checkpoint(checkpoints.FIRST_DIRTY_OFFSETS)

    @cached_property
    def restored_topics(self) -> dict[str, restored_topics.RestoredTopic]:
        """The topics that are restored exports, by name."""
        return self._parsed(restored_topics.FILE, restored_topics.parse, {})

    @cached_property
    def _meta(self) -> checkpoints.MetaProperties:
        nothing = checkpoints.MetaProperties(version=0, cluster_id=None, node_id=None, directory_id=None)
        try:
            return self._parsed(checkpoints.META_PROPERTIES, checkpoints.parse_meta_properties, nothing)
        except CorruptRecordError as error:
            note(f"the file is ignored, so the node and cluster of the directory are not known: {error}")
            return nothing

    def _checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Read a checkpoint. Because all partitions share it, a malformed checkpoint is ignored, as in Kafka."""
        try:
            return self._parsed(name, checkpoints.parse_offset_checkpoint, {})
        except CorruptRecordError as error:
            note(f"the file is treated as empty: {error}")
            return {}

    def _parsed(self, name: str, parse: Callable[[bytes], _T], absent: _T) -> _T:
        paths = [self._file(name)]
        if self.journal is not None and name in self.journal.files:
            # The journal may have been rolled forward since, so look in both places.
            paths.insert(0, f"{self.journal.path}/{name}")
        for path in paths:
            try:
                content = (storage.read_own if name == restored_topics.FILE else storage.read_all)(path)
            except FileNotFoundError:
                continue
            with located(path):
                return parse(content)
        return absent

    @cached_property
    def journal(self) -> Journal | None:
        """The journal of a committed write whose files the next writer still has to move into place, or None."""
        return Journal.read(self.path)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


def different_shutdowns(roots: Iterable[LogDirFiles]) -> Iterator[tuple[str, str]]:
    """Yield a directory and the problem for each node whose directories were shut down at different broker epochs.

    A broker writes the same epoch to all its directories. If the epochs differ, a directory is older than the others.
    """
    by_node: dict[int, dict[int, str]] = {}
    for root in roots:
        with contextlib.suppress(CorruptRecordError):
            if root.node_id is not None and root.broker_epoch is not None:
                by_node.setdefault(root.node_id, {}).setdefault(root.broker_epoch, root.path)
    for node, epochs in by_node.items():
        if len(epochs) > 1:
            places = ", ".join(f"{epoch} in {path}" for epoch, path in sorted(epochs.items()))
            yield epochs[min(epochs)], f"node {node} was shut down at different broker epochs: {places}"


def partitions_in(path: str, names: Iterable[str]) -> list[str]:
    """Return the names in a directory that are names of partition directories.

    A log directory itself may have a name of this form, such as `/mnt/disk-1`. In a broker's log directory, all names
    of this form are returned. Elsewhere, names alone prove nothing: `/etc` may have `dbus-1`. So none is returned if
    each directory holds only files of other kinds.
    """
    parsed = [name for name in names if file_names.is_directory_name(name)]
    if LogDirFiles.is_root(list(names)):
        return parsed
    inside = {name: _names(f"{path}/{name}") for name in parsed}
    found = [name for name in parsed if not LogDirFiles.is_root(inside[name])]
    return found if any(_may_be_partition(inside[name]) for name in found) else []


def _may_be_partition(names: list[str]) -> bool:
    """Return whether a directory with these names may be a partition's: also an empty one, or one with odd segments."""
    is_segment = any(".log" in name or name.endswith((".index", ".timeindex")) for name in names)
    return not names or is_segment or file_names.is_partition_directory(names)


def inactive_in(path: str) -> Iterator[file_names.InactivePartition]:
    """Yield the partition directories in a log directory that are not in use."""
    for name in storage.list_subdirectories(path):
        with contextlib.suppress(ValueError):
            topic, partition, kind = file_names.parse_directory_name(name)
            if kind:
                yield file_names.InactivePartition(f"{path}/{name}", topic, partition, kind)


def is_log_dir(path: str) -> bool:
    """Return whether a directory is a log directory: it has a broker's files, or partition directories."""
    names = storage.list_directory(path)
    return LogDirFiles.is_root(names) or bool(partitions_in(path, names))


def hint_at_log_dirs(path: str) -> str:
    """Return a hint that names the log directories directly below a path that is no log directory; "" if none exist."""
    found = []
    for name in sorted(_names(path))[:_MOST_LISTED]:
        inside = _names(f"{path}/{name}")
        partitions = (f"{path}/{name}/{one}" for one in partitions_in(f"{path}/{name}", inside))
        # The name alone proves nothing.
        if LogDirFiles.is_root(inside) or any(file_names.is_partition_directory(_names(one)) for one in partitions):
            found.append(f"{path.rstrip('/')}/{name}")
    what = "are log directories" if len(found) > 1 else "is a log directory"
    return f"; {listed_few(found)} {what}" if found else ""


def _names(path: str) -> list[str]:
    """Return the names in a directory; none if the path is not a directory, or cannot be listed."""
    with contextlib.suppress(OSError):
        return storage.list_directory(path) if storage.is_directory(path) else []
    return []


def check_outside(path: str, *, is_deep: bool = False) -> None:
    """Refuse to create a directory inside a log directory or a partition directory.

    Args:
        path: the directory.
        is_deep: also refuse deeper levels. A broker ignores these levels, but people delete unknown files there.

    Raises:
        ValueError: a broker would load the directory as a partition, or fail to start because of its name.
    """
    # A broker finds a link where the link is, so check both the link and its target.
    for place in {os.path.abspath(path), os.path.realpath(path)}:
        for around in map(str, PurePath(place).parents[: None if is_deep else 1]):
            names: list[str] = []
            # The parent may be unreadable or not exist yet.
            with contextlib.suppress(OSError):
                names = storage.list_directory(around)
            if LogDirFiles.is_root(names):
                raise ValueError(
                    f"cannot make {path}, because {around} is a log directory. A broker loads the directories in it as "
                    "partitions, or does not start because of their names"
                )
            if file_names.is_partition_directory(names):
                raise ValueError(f"cannot make {path}, because {around} is a partition directory: choose another path")
