"""The journal of a log directory: an atomic commit of a write to several partitions.

1. The writer stages new partition directories, and files of the log directory, in a directory that a broker would
   delete (`brokerless-0.<32 hex digits>-delete`).
2. The writer renames that directory to the name of the journal. This rename is the commit: before it, nothing has
   changed. After it, brokerless's readers look into the journal first.
3. The writer, or after a crash the next one, rolls the journal forward: it moves each entry to its place. Each move can
   be repeated, so a crash in between does no harm.

A broker does not start on a directory with a journal, because Kafka refuses unknown directory names. So no broker sees
half of a write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.io import disk, storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, file_names, restored_topics, streaming_epochs
from brokerless.notes import note
from brokerless.wording import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_T = TypeVar("_T")

NAME = ".brokerless-journal"
ROOT_FILES = (checkpoints.BOOTSTRAP, *checkpoints.OFFSET_CHECKPOINTS, streaming_epochs.FILE, restored_topics.FILE)
"""The files of the log directory that a journal may hold."""

_CONTENTS = "contents.json"
_VERSION = 1
# The maximum number of listings. A reader takes no lock, and lists again if a writer interfered; a listing is much
# faster than a commit.
_LOOKS = 100
# The maximum number of times that a directory may move while a file in it is opened.
_MOVES = 5


class Journal(NamedTuple):
    """The journal of a log directory: a committed write whose files are not all in their places yet.

    Attributes:
        root: the log directory.
        staging: the journal's name before the commit.
        unique: 32 hex digits for the names of the replaced directories.
        partitions: the names of the partition directories in the journal.
        gone: the names of the partition directories that the write removes.
        files: the names of the files in the journal that belong to the log directory itself, not to a partition.
    """

    root: str
    staging: str
    unique: str
    partitions: frozenset[str]
    gone: frozenset[str]
    files: frozenset[str]

    @classmethod
    def read(cls, root: str) -> Self | None:
        """Return the journal of a log directory; None without one.

        Raises:
            CorruptRecordError: the journal cannot be read, or has a later version.
        """
        path = f"{root}/{NAME}"
        for _ in range(_LOOKS):
            if not storage.is_directory(path):
                return None
            # The journal's entries are moved: through a link, they could come from anywhere.
            storage.check_no_link(path)
            try:
                return cls._read(root, path)
            except FileNotFoundError as error:
                # The journal may have been rolled forward meanwhile. If it still exists, it is damaged.
                missing = error
        raise CorruptRecordError(f"the journal of a write cannot be read: {missing}", path=path) from missing

    @classmethod
    def _read(cls, root: str, path: str) -> Self:
        try:
            contents = json.loads(storage.read_own(f"{path}/{_CONTENTS}"))
            version = contents["version"]
            staging, unique, gone = str(contents["staging"]), str(contents["unique"]), frozenset(contents["gone"])
            _check(staging, unique, gone)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CorruptRecordError(f"the journal of a write cannot be read: {error}", path=path) from error
        if version != _VERSION:
            raise CorruptRecordError(
                f"the journal of a write has version {excerpt(version)}, expected {_VERSION}: use the newer brokerless "
                "that wrote it",
                path=path,
            )
        directories = set(storage.list_subdirectories(path))
        partitions = frozenset(name for name in directories if _is_partition(name))
        for name in sorted(partitions):
            storage.check_no_link(f"{path}/{name}")
        own = frozenset(storage.list_directory(path)).intersection(ROOT_FILES)
        for name in sorted(own):
            storage.check_no_link(f"{path}/{name}")
        return cls(root, staging, unique, partitions, gone, own)

    @property
    def path(self) -> str:
        """The path of the journal."""
        return f"{self.root}/{NAME}"

    def applied(self, directories: Mapping[str, str]) -> dict[str, str]:
        """Return the current path of each partition directory, by name, with this journal applied."""
        staged = {name: f"{self.path}/{name}" for name in self.partitions}
        return {name: path for name, path in directories.items() if name not in self.gone} | staged


def commit_token(root: str) -> object:
    """Return a token that changes with every commit."""
    if is_remote(root) or not storage.is_directory(root):
        return None
    pending = Journal.read(root)
    return storage.subdirectory_ids(root) if pending is None else pending.unique


def list_consistent(root: str) -> tuple[dict[str, str], Journal | None]:
    """Return the directories of a log directory by name, and its journal, in a consistent state. Take no lock.

    While a journal is rolled forward, each partition is in the journal, in its final place or, for an instant, in
    neither of them. So the journal is read before and after the listing, and both are repeated if it has changed.

    Raises:
        CorruptRecordError: the journal cannot be read.
        LogInUseError: the directory changed during each of 100 attempts.
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
            # The listing may lack partitions that were moved meanwhile.
            moved = {name: f"{root}/{name}" for name in before.partitions}
            return after.applied(found | moved), after
        # A whole commit may have happened in between: it changes the modification time.
        if before is after is None and storage.modified_ns(root) == since:
            return found, None
    if before is after is None:
        return found, None
    raise LogInUseError(f"cannot list {root}: it changed during each of {_LOOKS} attempts; try again")


def in_force(directory: str, use: Callable[[str], _T]) -> _T:
    """Call `use` with the current path of a partition directory, which commits move into and out of the journal.

    Args:
        directory: the path at which the partition directory was found, in its log directory or in the journal.
        use: called with the current path. It must raise FileNotFoundError if a commit has moved the directory.
    """
    for _ in range(_MOVES):
        try:
            return use(directory)
        except FileNotFoundError:
            if is_remote(directory):
                raise
        # If the directory exists but lacks the file, do not look in its counterpart, which is another version of it.
        other = _counterpart(directory)
        if not storage.is_directory(directory) and storage.is_directory(other):
            with contextlib.suppress(FileNotFoundError):
                return use(other)
    return use(directory)


def active_path(directory: str) -> str:
    """Return the path of a partition directory in the journal if it is there, else the given path."""
    staged = _staged(directory)
    return staged if storage.is_directory(staged) else directory


def resolve(path: str) -> tuple[str, bool]:
    """Return the current path of a directory found before, and True if it is still a directory."""

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
    """Return the path in the journal for a directory in the log directory, and vice versa."""
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
    """Commit a staged and durable write by renaming its directory to the journal. Then call `roll_forward`.

    Args:
        root: the log directory, which must be locked. If it has a clean-shutdown marker, the staged partitions must be
            closed cleanly.
        staging: the name of the staging directory in it, with partition directories and files of the log directory.
        unique: 32 hex digits that no other directory has in its name.
        gone: the names of partition directories to remove, which may be replicas that are being moved.
    """
    contents = {"version": _VERSION, "staging": staging, "unique": unique, "gone": sorted(gone)}
    disk.atomic_write(f"{root}/{staging}/{_CONTENTS}", json.dumps(contents).encode())
    # The staging name must be durable before the rename.
    disk.sync_directory(root)
    disk.rename(f"{root}/{staging}", f"{root}/{NAME}")
    disk.sync_directory(root)


def roll_forward(root: str) -> list[str]:
    """Move all entries of the journal to their places, remove the journal, and return the names of its partitions.

    The caller must hold the log directory's lock.

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
            # A network file system keeps files that a process still reads. The write is complete nevertheless.
            note(f"cannot remove obsolete {root}/{name}: {error}; a broker will delete it")
    disk.sync_directory(root)
    return sorted(journal.partitions)


def _sync(journal: Journal) -> None:
    """Sync moves to disk. The order ensures that after a crash a name exists twice rather than nowhere."""
    disk.sync_directory(journal.root)
    disk.sync_directory(journal.path)


def _check(staging: str, unique: str, gone: Collection[str]) -> None:
    """Refuse unexpected names in a journal, because directories with these names are renamed and removed."""
    if not re.fullmatch("[0-9a-f]{32}", unique):
        raise ValueError(f"{excerpt(unique)} is not 32 hex digits")
    for name, kinds in ((staging, ("delete",)), *((name, ("", "future")) for name in gone)):
        if "/" in name or file_names.parse_directory_name(name).leftover not in kinds:
            raise ValueError(
                f"{excerpt(name)} is not the name of a {'staging' if name == staging else 'partition'} directory"
            )


def _is_partition(name: str) -> bool:
    try:
        return not file_names.parse_directory_name(name).leftover
    except ValueError:
        return False
