"""Finding the partitions that a user names, in log directories or by their own paths."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.arguments import check_partition, some_or_all, unknown_partition
from brokerless.io import disk, storage
from brokerless.layout import file_names
from brokerless.layout.file_names import chosen_topics, is_chosen
from brokerless.layout.log_dir_files import LogDirFiles, hint_at_log_dirs, inactive_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Key = tuple[str, int]


@dataclass(frozen=True)
class Selection:
    """The named partitions of one log directory.

    Attributes:
        directories: the path of each partition.
        root: the log directory with their checkpoints; without files if they are outside any log directory.
        is_partition: True if the user gave the path of one partition.
        is_alone: True if the partition is outside any log directory, so that it is opened without lock and marker.
    """

    directories: dict[Key, str]
    root: LogDirFiles
    is_partition: bool = False
    is_alone: bool = False


def select_partitions(
    paths: Iterable[str], topics: Iterable[str] | None, partitions: Iterable[int] | None
) -> list[Selection]:
    """Find the named partitions. Skip log directories that have none of them.

    Args:
        paths: log directories, and directories of partitions.
        topics: the topics, by name or glob. Log directories need at least one.
        partitions: the partitions of these topics; None: all.

    Raises:
        ValueError: there is no path; a topic or partition is in no directory; a log directory is given without a topic;
            a partition's directory belongs to none of the topics and partitions; or a path is not a log directory or a
            partition's directory.
        TypeError: a string is given instead of several topics, or instead of a partition's number.
    """
    topics, partitions = some_or_all("topics", topics) or [], some_or_all("partitions", partitions) or []
    for number in partitions:
        check_partition(number)
    found = [_at(path, topics) for path in paths]
    if not found:
        raise ValueError("no path: a log directory or a partition directory is needed")
    for topic, number in (key for selection in found if selection.is_partition for key in selection.directories):
        if (topics and not is_chosen(topic, topics)) or (partitions and number not in partitions):
            raise ValueError(
                f"{topic}-{number} is not among the named topics and partitions: with a partition's directory, name "
                "no topic and no partition"
            )
    known = {key for selection in found for key in selection.directories}
    inactive = (one for selection in found if not selection.is_partition for one in inactive_in(selection.root.path))
    wanted = set(chosen_topics(topics, (name for name, _ in known), inactive))
    named = {key for key in known if not topics or key[0] in wanted}
    for number in partitions:
        if number not in {partition for _, partition in named}:
            raise unknown_partition(number, {partition for _, partition in named})
    chosen = {key for key in named if not partitions or key[1] in partitions}
    narrowed = [selection if selection.is_partition else _narrow(selection, chosen) for selection in found]
    return [selection for selection in narrowed if selection.directories]


def _at(path: str, topics: Collection[str]) -> Selection:
    disk.check_local(path, "rewrite")
    names = storage.list_directory(path)
    if file_names.is_partition_directory(names):
        path, is_alone = _own_path(path)
        topic, partition, leftover = file_names.parse_directory_name(os.path.basename(path))
        if leftover or topic == file_names.METADATA_TOPIC:
            raise ValueError(f"cannot rewrite {path!r}: it is not a partition of a topic")
        return Selection(
            {(topic, partition): path}, LogDirFiles(os.path.dirname(path)), is_partition=True, is_alone=is_alone
        )
    if not LogDirFiles.is_root(names):
        what = "it is neither a log directory nor a partition's directory"
        raise ValueError(f"cannot rewrite {path!r}: {what}{hint_at_log_dirs(path)}")
    if not topics:
        raise ValueError(
            f"no topic named: {path!r} is a log directory. Choose topics with --topic (in Python topics=), as --topic "
            "orders; '*' stands for all"
        )
    return Selection(_partitions(path), LogDirFiles(path))


def _own_path(path: str) -> tuple[str, bool]:
    """Return the path of a partition's directory, and whether it is outside any log directory.

    For a symbolic link to a directory in a log directory, return the path of the target, because the lock and the
    checkpoints of that log directory apply.
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


def _narrow(selection: Selection, chosen: set[Key]) -> Selection:
    directories = {key: path for key, path in sorted(selection.directories.items()) if key in chosen}
    return Selection(directories, selection.root)
