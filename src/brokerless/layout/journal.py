"""The journal of a log directory: a write to several partitions that comes into force as a whole.

Partition directories as they are to be, and files of the log directory, are staged in a directory that a broker
deletes (`brokerless-0.<32 hex digits>-delete`). One rename gives that the name of the journal: the commit point. Before
it nothing has changed. After it all of it counts: our readers look into the journal first, and whoever opens the log
directory for writing next moves what is in it to its place. Each move can be done again, so a crash in between does no
harm.

A broker does not start on a directory that has a journal: its name is none that Kafka knows, and Kafka stops at such
directories. So none sees half of a write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.io import disk, storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, file_names, restored_topics, streaming_epochs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_T = TypeVar("_T")

NAME = ".brokerless-journal"
ROOT_FILES = (checkpoints.BOOTSTRAP, *checkpoints.OFFSET_CHECKPOINTS, streaming_epochs.FILE, restored_topics.FILE)
"""The log directory's own files that a journal may have."""

_CONTENTS = "contents.json"
_VERSION = 1
# A reader takes no lock: it looks again if a writer came in between. One look takes a fraction of a commit's time.
_LOOKS = 100
# So often a directory may be moved while one file in it is opened.
_MOVES = 5


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
        for _ in range(_LOOKS):
            if not storage.is_directory(path):
                return None
            try:
                return cls._read(root, path)
            except FileNotFoundError as error:
                # Rolled forward meanwhile, or damaged: then it is still there.
                missing = error
        raise CorruptRecordError(f"the journal of a write cannot be read: {missing}", path=path) from missing

    @classmethod
    def _read(cls, root: str, path: str) -> Self:
        try:
            contents = json.loads(storage.read_all(f"{path}/{_CONTENTS}"))
            version = contents["version"]
            staging, unique, gone = str(contents["staging"]), str(contents["unique"]), frozenset(contents["gone"])
            _check(staging, unique, gone)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CorruptRecordError(f"the journal of a write cannot be read: {error}", path=path) from error
        if version != _VERSION:
            raise CorruptRecordError(
                f"the journal of a write has version {version}, {_VERSION} is known: take the newer brokerless that "
                "wrote it",
                path=path,
            )
        directories = set(storage.list_subdirectories(path))
        partitions = frozenset(name for name in directories if _is_partition(name))
        for name in sorted(partitions):
            # It would take the place of a partition, and lead out of the log directory.
            if storage.is_link(f"{path}/{name}"):
                raise CorruptRecordError("a link, where the journal of a write has directories", path=f"{path}/{name}")
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


def commit_token(root: str) -> object:
    """Return what is another one as soon as a commit comes into force."""
    if is_remote(root) or not storage.is_directory(root):
        return None
    pending = Journal.read(root)
    return storage.subdirectory_ids(root) if pending is None else pending.unique


def list_consistent(root: str) -> tuple[dict[str, str], Journal | None]:
    """Return the directories of a log directory by name, as they are in force, and the journal; without the lock.

    While a journal is rolled forward each partition is in the journal, or in its place, or for a moment on its way. So
    the journal is read before the listing and after it, and all is looked at again if it has changed.

    Raises:
        CorruptRecordError: the journal cannot be read.
        LogInUseError: it changes all the time.
    """
    if is_remote(root):
        found = _directories(root)
        journal = Journal.read(root) if NAME in found else None
        return (journal.applied(found) if journal is not None else found), journal
    for _ in range(_LOOKS):
        since, before = storage.modified_ns(root), Journal.read(root)
        found = _directories(root)
        after = Journal.read(root)
        if before is not None and after is not None and before.unique == after.unique:
            # What was moved since the first look may be missing in the listing.
            moved = {name: f"{root}/{name}" for name in before.partitions}
            return after.applied(found | moved), after
        # A whole write may have come and gone in between: it leaves its time.
        if before is after is None and storage.modified_ns(root) == since:
            return found, None
    if before is after is None:
        return found, None
    raise LogInUseError(f"{root} is written to again and again while it is looked at: try again")


def in_force(directory: str, use: Callable[[str], _T]) -> _T:
    """Use a partition directory, or something in it, where it is now: a journal may come, and be rolled forward.

    Args:
        directory: where it was found, in its log directory or in the journal there.
        use: takes the directory's path; raises FileNotFoundError if what it looks for is not there.
    """
    for _ in range(_MOVES):
        try:
            return use(directory)
        except FileNotFoundError:
            if is_remote(directory):
                raise
        # What a directory does not hold is not looked for in the one that it replaces, or that replaces it.
        other = _counterpart(directory)
        if not storage.is_directory(directory) and storage.is_directory(other):
            with contextlib.suppress(FileNotFoundError):
                return use(other)
    return use(directory)


def active_path(directory: str) -> str:
    """Return where a partition directory is: the one in the journal, if there is one of its name."""
    staged = _staged(directory)
    return staged if storage.is_directory(staged) else directory


def resolve(path: str) -> tuple[str, bool]:
    """Return where a partition directory, found before, is now, and whether it is one; False also if it is gone."""

    def found(there: str) -> tuple[str, bool]:
        is_directory = storage.is_directory(there)
        if not is_directory and not storage.exists(there):
            raise FileNotFoundError(there)
        return there, is_directory

    try:
        return in_force(path, found)
    except FileNotFoundError:
        return path, False


def _counterpart(directory: str) -> str:
    """Return the path in the journal of one in the log directory, and the other way round."""
    parent, name = os.path.split(directory.rstrip("/"))
    if os.path.basename(parent) == NAME:
        return os.path.join(os.path.dirname(parent), name)
    return _staged(directory)


def _staged(directory: str) -> str:
    parent, name = os.path.split(directory.rstrip("/"))
    return os.path.join(parent, NAME, name)


def _directories(root: str) -> dict[str, str]:
    return {name: f"{root}/{name}" for name in storage.list_subdirectories(root)}


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
        parsed = file_names.parse_directory_name(name)
        retired.append(file_names.leftover_directory_name(parsed.topic, parsed.partition, "delete", journal.unique))
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
        try:
            if storage.exists(f"{root}/{name}"):
                disk.remove_tree(f"{root}/{name}")
        except OSError as error:
            # A file system in the net keeps files that somebody still reads. The write is whole all the same.
            warnings.warn(f"{root}/{name} is of no more use, and stays: {error}; a broker deletes it", stacklevel=2)
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
        if "/" in name or file_names.parse_directory_name(name).leftover != leftover:
            raise ValueError(f"{name!r} is not the name of a {'staging' if leftover else 'partition'} directory")


def _is_partition(name: str) -> bool:
    try:
        return not file_names.parse_directory_name(name).leftover
    except ValueError:
        return False
