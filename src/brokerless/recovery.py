"""Recovering a whole log directory, for real or only in words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from brokerless.cluster_metadata import topic_settings
from brokerless.errors import unknown
from brokerless.log.load import load
from brokerless.log.root import Root
from brokerless.log.settings import TopicSettings
from brokerless.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ROLL_FORWARD = "put the new directory of an interrupted write in the place of the old one: it is in force"


def recovered(path: str, topics: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Recover each log of a log directory, and yield its name and what was changed.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        CorruptRecordError: a broker would not start on a log; those before it are recovered.
        ValueError: an unknown topic, or no log directory.
    """
    with LogDir.open(path, sole_replica=True, recover=True) as directory:
        for name in directory.rolled_forward:
            yield name, [_ROLL_FORWARD]
        for topic, partition in _chosen(directory.partitions(), topics):
            yield f"{topic}-{partition}", directory.log(topic, partition).recovery


def planned(path: str, topics: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each log, and what recovering it would change; nothing is.

    Raises:
        CorruptRecordError: a broker would not start on a log.
        ValueError: an unknown topic, or no log directory.
    """
    root = Root(path)
    for name in sorted(root.journal.partitions) if root.journal is not None else ():
        yield name, [_ROLL_FORWARD]
    logs = {(log.topic, log.partition): log for log in LogDir(path).logs() if log.topic is not None}
    keys = [(topic, partition) for topic, partition in logs if topic is not None and partition is not None]
    settings = topic_settings(path, root.node_id)
    keys = sorted(key for key in keys if key[0] != "__cluster_metadata")
    for key in _chosen(keys, topics):
        loaded = load(
            logs[key].path,
            settings.get(key[0], TopicSettings()),
            is_clean=False,
            recovery_point=root.recovery_points.get(key, 0),
            log_start_offset=root.log_start_offsets.get(key, 0),
            now=time.time_ns() // 1_000_000,
        )
        yield f"{key[0]}-{key[1]}", [str(step) for step in loaded.changes.steps]


def _chosen(keys: list[tuple[str, int]], topics: Collection[str]) -> list[tuple[str, int]]:
    known = {topic for topic, _ in keys}
    for topic in topics:
        if topic not in known:
            raise unknown("topic", topic, known)
    return [key for key in keys if not topics or key[0] in topics]
