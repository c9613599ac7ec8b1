"""One log directory of a broker: whose it is, how it was left, and what its checkpoints say.

Everything is read when first asked for: a damaged file only matters to those who need what it says. A malformed
checkpoint counts as one without entries, with a warning.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, file_names, lock, restored_topics
from brokerless.layout.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_MARKS = (
    checkpoints.META_PROPERTIES,
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.FIRST_DIRTY_OFFSETS,
    checkpoints.CLEAN_SHUTDOWN,
)


class LogDirFiles:
    """A log directory (one of a broker's `log.dirs`). Its files need not exist: what is absent reads as unknown.

    Attributes:
        path: the directory.

    >>> LogDirFiles("/nowhere").is_clean, LogDirFiles("/nowhere").node_id
    (False, None)
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

    @staticmethod
    def is_root(names: list[str]) -> bool:
        """Tell from the names in a directory whether a broker kept its logs there."""
        return any(name in _MARKS for name in names)

    @cached_property
    def is_there(self) -> bool:
        """Whether a broker kept its logs here; False: a partition's directory was copied here without its own."""
        return self.is_root(storage.list_directory(self.path))

    @property
    def node_id(self) -> int | None:
        """The broker's `node.id` (`broker.id` before KRaft)."""
        return self._meta.node_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id."""
        return self._meta.cluster_id

    @property
    def directory_id(self) -> str | None:
        """The directory's own id (Kafka 3.7 and later)."""
        return self._meta.directory_id

    @property
    def is_kraft(self) -> bool:
        """Whether it is of a cluster without ZooKeeper, whose brokers take only what their metadata names."""
        return self._meta.version >= 1

    @cached_property
    def is_clean(self) -> bool:
        """Whether a broker shut down cleanly here: the marker exists, whatever it holds."""
        return storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN))

    @property
    def is_locked(self) -> bool:
        """Whether a live broker, or one who writes here, holds the lock: now. What a killed one left is not held."""
        return not is_remote(self.path) and lock.is_held(self._file(checkpoints.LOCK))

    @cached_property
    def broker_epoch(self) -> int | None:
        """The broker epoch in the clean-shutdown marker."""
        return self._parsed(checkpoints.CLEAN_SHUTDOWN, checkpoints.parse_clean_shutdown, None)

    @cached_property
    def recovery_points(self) -> dict[tuple[str, int], int]:
        """The first possibly unflushed offset, by (topic, partition)."""
        return self._checkpoint(checkpoints.RECOVERY_POINTS)

    @cached_property
    def log_start_offsets(self) -> dict[tuple[str, int], int]:
        """The log start offset of the partitions where it is not the first segment's base offset."""
        return self._checkpoint(checkpoints.LOG_START_OFFSETS)

    @cached_property
    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark as last checkpointed, by (topic, partition)."""
        return self._checkpoint(checkpoints.HIGH_WATERMARKS)

    @cached_property
    def first_dirty_offsets(self) -> dict[tuple[str, int], int]:
        """Where the cleaner will go on, by (topic, partition)."""
        return self._checkpoint(checkpoints.FIRST_DIRTY_OFFSETS)

    @cached_property
    def restored_topics(self) -> dict[str, restored_topics.RestoredTopic]:
        """The topics that are restored exports, as they were made."""
        return self._parsed(restored_topics.FILE, restored_topics.parse, {})

    @cached_property
    def _meta(self) -> checkpoints.MetaProperties:
        nothing = checkpoints.MetaProperties(version=0, cluster_id=None, node_id=None, directory_id=None)
        return self._parsed(checkpoints.META_PROPERTIES, checkpoints.parse_meta_properties, nothing)

    def _checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Read a checkpoint. It holds for all partitions, and Kafka goes on without a malformed one: so do we."""
        try:
            return self._parsed(name, checkpoints.parse_offset_checkpoint, {})
        except CorruptRecordError as error:
            warnings.warn(f"read as if without entries: {error}", stacklevel=2)
            return {}

    def _parsed(self, name: str, parse: Callable[[bytes], _T], absent: _T) -> _T:
        paths = [self._file(name)]
        if self.journal is not None and name in self.journal.files:
            # It may have been rolled forward since.
            paths.insert(0, f"{self.journal.path}/{name}")
        for path in paths:
            try:
                content = storage.read_all(path)
            except FileNotFoundError:
                continue
            with located(path):
                return parse(content)
        return absent

    @cached_property
    def journal(self) -> Journal | None:
        """A write that is in force, and still to be carried out by whoever writes here next; None: there is none."""
        return Journal.read(self.path)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


def check_outside(path: str, *, is_deep: bool = False) -> None:
    """Refuse to make a directory of our own within a log directory, or within a partition's.

    Args:
        path: the directory.
        is_deep: also where others lie between: a broker does not look there, and a person who removes what is not
            Kafka's does.

    Raises:
        ValueError: a broker would take it for a partition, or stop at its name.
    """
    # Where a link is, a broker finds it, and where it leads.
    for place in {os.path.abspath(path), os.path.realpath(path)}:
        for around in map(str, PurePath(place).parents[: None if is_deep else 1]):
            names: list[str] = []
            # where one may not look, or nothing is yet
            with contextlib.suppress(OSError):
                names = storage.list_directory(around)
            if LogDirFiles.is_root(names):
                raise ValueError(
                    f"cannot make {path}: {around} is a log directory: a broker takes what is in it for partitions, or "
                    "stops at its name"
                )
            if file_names.is_partition_directory(names):
                raise ValueError(f"cannot make {path}: {around} is a partition's directory")
