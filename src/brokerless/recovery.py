"""Recovering a whole log directory, for real or only in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless import storage
from brokerless.errors import CorruptRecordError, unknown
from brokerless.log import files, journal, texts
from brokerless.log.journal import Journal
from brokerless.log.load import load
from brokerless.log.lock import check_free
from brokerless.log.open_log import now_ms
from brokerless.log.root import Root
from brokerless.log.transactional_ids import check_file
from brokerless.log_dir import LogDir
from brokerless.root_writer import RootWriter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ROLL_FORWARD = "put the new directory of an interrupted write in the place of the old one: it is in force"
# Of tiered storage (RemoteIndexCache.DIR_NAME).
_REMOTE_INDEXES = "remote-log-index-cache"
_MAKE = "make its directory: the metadata of the new cluster name it"


def recovered(path: str, topics: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Recover each log of a log directory, and yield its name and what was changed.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        CorruptRecordError: a broker would not start on a log, and those before it are recovered; or a file of the
            directory is damaged, and nothing is changed.
        ValueError: an unknown topic, or no log directory.
    """
    absent = _absent(_checked(path, topics))
    with LogDir.open(path, sole_replica=True, recover=True) as directory:
        for name in directory.rolled_forward:
            yield name, [_ROLL_FORWARD]
        for key in _chosen(directory.partitions(), topics):
            log = directory.log(*key)
            yield _name(key), [_MAKE] if key in absent else log.recovery


def planned(path: str, topics: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each log, and what recovering it would change; nothing is.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        CorruptRecordError: a broker would not start on a log, or a file of the directory is damaged.
        ValueError: an unknown topic, or no log directory.
    """
    root = _checked(path, topics)
    absent = _absent(root)
    for name in sorted(root.journal.partitions) if root.journal is not None else ():
        yield name, [_ROLL_FORWARD]
    for key in _chosen(sorted(root.partitions), topics):
        if key in absent:
            yield _name(key), [_MAKE]
            continue
        loaded = load(
            f"{path}/{root.partitions[key]}",
            root.settings_of(key[0]),
            is_clean=False,
            recovery_point=root.recovery_points.get(key, 0),
            log_start_offset=root.log_start_offsets.get(key, 0),
            now=now_ms(),
        )
        loaded.check_losses(is_clean=False)
        yield _name(key), [str(step) for step in loaded.changes.steps]


def _checked(path: str, topics: Collection[str]) -> RootWriter:
    """Return a log directory's own files as a writer will find them, or raise what would stop it. Takes no lock."""
    names = storage.list_directory(path)
    if files.is_partition_directory(names):
        raise ValueError(f"not a log directory: {path!r} is one partition's; recover the directory around it")
    if not Root.is_root(names):
        raise ValueError(f"not a log directory: {path!r} has none of its files; give one of a broker's log.dirs")
    check_free(f"{path}/{texts.LOCK}")
    pending = Journal.read(path)
    check_file(path)
    root = RootWriter(path, pending)
    _chosen(sorted(root.partitions), topics)
    for name in storage.list_subdirectories(path):
        _check_name(path, name)
    root.topic_ids()
    return root


def _check_name(path: str, name: str) -> None:
    """Refuse a directory that is no partition's (LogManager.loadLogs)."""
    if name in (_REMOTE_INDEXES, journal.NAME):
        return
    try:
        files.parse_directory_name(name)
    except ValueError:
        raise CorruptRecordError(
            f"a broker does not start: the name of directory {name!r} is not that of a partition, <topic>-<number>; "
            "move it out",
            path=path,
        ) from None


def _absent(root: RootWriter) -> set[tuple[str, int]]:
    """Return the partitions that only the metadata name: a crash in the middle of making a topic leaves them so."""
    return {key for key, name in root.partitions.items() if not storage.exists(f"{root.path}/{name}")}


def _name(key: tuple[str, int]) -> str:
    return f"{key[0]}-{key[1]}"


def _chosen(keys: list[tuple[str, int]], topics: Collection[str]) -> list[tuple[str, int]]:
    known = {topic for topic, _ in keys}
    for topic in topics:
        if topic not in known:
            raise unknown("topic", topic, known)
    return [key for key in keys if not topics or key[0] in topics]
