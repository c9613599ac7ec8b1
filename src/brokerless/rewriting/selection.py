"""The partitions that a user names, in log directories or each by itself."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.arguments import check_partition, check_several, unknown, unknown_partition
from brokerless.io import disk, storage
from brokerless.layout import file_names
from brokerless.layout.log_dir_files import LogDirFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Key = tuple[str, int]


@dataclass(frozen=True)
class Selection:
    """The partitions that were named, of one log directory.

    Attributes:
        directories: the path of each.
        root: the log directory whose checkpoints speak of them; one without files if there is none.
        is_partition: the path was that of one partition.
        is_alone: it is opened without its log directory, the lock and the marker there.
    """

    directories: dict[Key, str]
    root: LogDirFiles
    is_partition: bool = False
    is_alone: bool = False


def select_partitions(paths: Iterable[str], topics: Collection[str], partitions: Collection[int]) -> list[Selection]:
    """Find what was named: in log directories these topics, and of them these partitions, all if there is none.

    A partition's directory has to be of what else is named. A log directory with none of the topics is left out.

    Raises:
        ValueError: no path; a topic or partition is nowhere; no topic is named; a path is no such directory.
        TypeError: a string in place of several topics, or of a partition's number.
    """
    check_several("topics", topics)
    check_several("partitions", partitions)
    # What can be gone through only once would be nothing the second time.
    topics, partitions = tuple(topics), tuple(partitions)
    for number in partitions:
        check_partition(number)
    found = [_at(path, topics) for path in paths]
    if not found:
        raise ValueError("no path: a log directory or a partition directory is needed")
    for topic, number in (key for place in found if place.is_partition for key in place.directories):
        if (topics and topic not in topics) or (partitions and number not in partitions):
            raise ValueError(f"{topic}-{number} is not of the topics and partitions named: leave these out for it")
    known = {key for place in found for key in place.directories}
    for topic in topics:
        if topic not in {name for name, _ in known}:
            raise unknown("topic", topic, (name for name, _ in known))
    named = {key for key in known if not topics or key[0] in topics}
    for number in partitions:
        if number not in {partition for _, partition in named}:
            raise unknown_partition(number, {partition for _, partition in named})
    chosen = {key for key in named if not partitions or key[1] in partitions}
    narrowed = [place if place.is_partition else _of(place, chosen) for place in found]
    return [place for place in narrowed if place.directories]


def _at(path: str, topics: Collection[str]) -> Selection:
    disk.check_local(path)
    names = storage.list_directory(path)
    if file_names.is_partition_directory(names):
        path, is_alone = _own_path(path)
        topic, partition, leftover = file_names.parse_directory_name(os.path.basename(path))
        if leftover or topic == file_names.METADATA_TOPIC:
            raise ValueError(f"cannot rewrite {path}: it is no partition of a topic")
        return Selection(
            {(topic, partition): path}, LogDirFiles(os.path.dirname(path)), is_partition=True, is_alone=is_alone
        )
    if not LogDirFiles.is_root(names):
        raise ValueError(f"cannot rewrite {path}: it is neither a log directory nor a partition's directory")
    if not topics:
        raise ValueError(f"no topic named: {path} is a log directory; say which of its topics are to be rewritten")
    return Selection(_partitions(path), LogDirFiles(path))


def _own_path(path: str) -> tuple[str, bool]:
    """Return the path of a partition's directory in its log directory, and whether it is in none.

    Behind a link it has the lock, the checkpoints and the name of where it is, if that is a log directory.
    """
    path = os.path.abspath(path)
    for own in (os.path.realpath(path), path) if storage.is_link(path) else (path, os.path.realpath(path)):
        if LogDirFiles.is_root(storage.list_directory(os.path.dirname(own))):
            return own, False
    return path, True


def _partitions(path: str) -> dict[Key, str]:
    known: dict[Key, str] = {}
    for name in storage.list_subdirectories(path):
        with contextlib.suppress(ValueError):
            topic, partition, leftover = file_names.parse_directory_name(name)
            if not leftover and topic != file_names.METADATA_TOPIC:
                known[topic, partition] = f"{path}/{name}"
    return known


def _of(place: Selection, chosen: set[Key]) -> Selection:
    return Selection({key: place.directories[key] for key in sorted(place.directories) if key in chosen}, place.root)
