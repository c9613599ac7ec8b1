"""The journal of a log directory: a write to several partitions that comes into force as a whole.

Partition directories as they are to be, and files of the log directory, are staged in a directory that a broker deletes
(`<topic>-0.<32 hex digits>-delete`). One rename gives that the name of the journal: the commit point. Before it nothing
has changed. After it all of it counts: our readers look into the journal first, and whoever opens the log directory for
writing next moves what is in it to its place. Each move can be done again, so a crash in between does no harm.

A broker does not start on a directory that has a journal: its name is none that Kafka knows, and Kafka stops at such
directories. So none sees half of a write.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, Self

from brokerless import disk, storage
from brokerless.errors import CorruptRecordError
from brokerless.log import files, texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NAME = ".brokerless-journal"
ROOT_FILES = (
    texts.BOOTSTRAP,
    texts.RECOVERY_POINTS,
    texts.LOG_START_OFFSETS,
    texts.HIGH_WATERMARKS,
    texts.FIRST_DIRTY_OFFSETS,
)
"""The log directory's own files that a journal may have."""

_CONTENTS = "contents.json"
_VERSION = 1


class Journal(NamedTuple):
    """What a log directory's journal holds.

    Attributes:
        root: the log directory.
        staging: the name that the journal had before the commit.
        unique: 32 hex digits in the names of the directories that it replaces.
        partitions: the names of the partition directories in it.
        gone: the names of those that go without another in their place.
        files: the names of the log directory's own files in it.
    """

    root: str
    staging: str
    unique: str
    partitions: frozenset[str]
    gone: frozenset[str]
    files: frozenset[str]

    @classmethod
    def read(cls, root: str) -> Self | None:
        """Return the journal of a log directory; None: it has none.

        Raises:
            CorruptRecordError: it cannot be read, or is of a later version.
        """
        path = f"{root}/{NAME}"
        if not storage.is_directory(path):
            return None
        try:
            contents = json.loads(storage.read_all(f"{path}/{_CONTENTS}"))
            version = contents["version"]
            staging, unique, gone = str(contents["staging"]), str(contents["unique"]), frozenset(contents["gone"])
            _check(staging, unique, gone)
        except (FileNotFoundError, KeyError, TypeError, ValueError) as error:
            raise CorruptRecordError(f"the journal of a write cannot be read: {error}", path=path) from error
        if version != _VERSION:
            raise CorruptRecordError(
                f"the journal of a write has version {version}, {_VERSION} is known: take the newer brokerless that "
                "wrote it",
                path=path,
            )
        directories = set(storage.list_subdirectories(path))
        partitions = frozenset(name for name in directories if _is_partition(name))
        own = frozenset(storage.list_directory(path)).intersection(ROOT_FILES)
        return cls(root, staging, unique, partitions, gone, own)

    @property
    def path(self) -> str:
        """Its directory."""
        return f"{self.root}/{NAME}"

    def applied(self, directories: Mapping[str, str]) -> dict[str, str]:
        """Return partition directories by their names, as they are once the journal is rolled forward."""
        staged = {name: f"{self.path}/{name}" for name in self.partitions}
        return {name: path for name, path in directories.items() if name not in self.gone} | staged


def current(directory: str) -> str:
    """Return where a partition directory is: the one in the journal, if there is one of its name."""
    root, _, name = directory.rpartition("/")
    staged = f"{root}/{NAME}/{name}"
    return staged if storage.is_directory(staged) else directory


def commit(root: str, staging: str, *, unique: str, gone: Collection[str] = ()) -> None:
    """Let what is staged, and durable, come into force: the commit point. `roll_forward` does the rest.

    Args:
        root: the log directory; locked, and without its clean-shutdown marker.
        staging: the name of the directory in it that holds partition directories, and files of the log directory.
        unique: 32 hex digits that no other directory has in its name.
        gone: the names of partition directories that go, and have none in their place.
    """
    contents = {"version": _VERSION, "staging": staging, "unique": unique, "gone": sorted(gone)}
    disk.atomic_write(f"{root}/{staging}/{_CONTENTS}", json.dumps(contents).encode())
    # Its own name is durable before it has another one.
    disk.sync_directory(root)
    disk.rename(f"{root}/{staging}", f"{root}/{NAME}")
    disk.sync_directory(root)


def roll_forward(root: str) -> list[str]:
    """Move what is in the journal to its place, and remove the journal; return the names of partitions that were in it.

    Only for who has the log directory's lock.

    Raises:
        CorruptRecordError: the journal cannot be read.
    """
    journal = Journal.read(root)
    if journal is None:
        return []
    retired = []
    for name in sorted(journal.partitions | journal.gone):
        parsed = files.parse_directory_name(name)
        retired.append(files.leftover_directory_name(parsed.topic, parsed.partition, "delete", journal.unique))
        if storage.exists(f"{root}/{name}"):
            if storage.exists(f"{root}/{retired[-1]}"):
                disk.remove_tree(f"{root}/{retired[-1]}")
            disk.rename(f"{root}/{name}", f"{root}/{retired[-1]}")
        if name in journal.partitions:
            disk.rename(f"{journal.path}/{name}", f"{root}/{name}")
        _sync(journal)
    for name in sorted(journal.files):
        disk.rename(f"{journal.path}/{name}", f"{root}/{name}")
        _sync(journal)
    disk.rename(journal.path, f"{root}/{journal.staging}")
    disk.sync_directory(root)
    for name in (*retired, journal.staging):
        if storage.exists(f"{root}/{name}"):
            disk.remove_tree(f"{root}/{name}")
    disk.sync_directory(root)
    return sorted(journal.partitions)


def _sync(journal: Journal) -> None:
    """Make moves durable: names are twice where they were, rather than nowhere."""
    disk.sync_directory(journal.root)
    disk.sync_directory(journal.path)


def _check(staging: str, unique: str, gone: Collection[str]) -> None:
    """Refuse names that are none of a directory here, of its kind: what bears them is renamed and removed."""
    if not re.fullmatch("[0-9a-f]{32}", unique):
        raise ValueError(f"{unique!r} is not 32 hex digits")
    for name, leftover in ((staging, "delete"), *((name, "") for name in gone)):
        if "/" in name or files.parse_directory_name(name).leftover != leftover:
            raise ValueError(f"{name!r} is not the name of a {'staging' if leftover else 'partition'} directory")


def _is_partition(name: str) -> bool:
    try:
        return not files.parse_directory_name(name).leftover
    except ValueError:
        return False
