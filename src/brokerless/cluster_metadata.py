"""The topics' settings, as the directory itself has them: what a new cluster starts with, or its metadata log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from brokerless import storage
from brokerless.errors import CorruptRecordError, located
from brokerless.kraft import Bootstrap, snapshot_records, topic_configs
from brokerless.log import files, texts
from brokerless.log.journal import Journal
from brokerless.log.log import Log
from brokerless.log.settings import TopicSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")


def bootstrap(path: str, node_id: int | None, *, file: str | None = None) -> Bootstrap | None:
    """Return what the cluster of a log directory will start with; None if it has started, or there is none.

    Args:
        path: the log directory.
        node_id: the broker's.
        file: where it is; None: in the journal of a write that is in force, if that has one, else in the log directory.

    Raises:
        CorruptRecordError: it is damaged.
        UnsupportedFormatError: it gives a partition other replicas than this node.
    """
    if file is None:
        # The partitions that it names may have been moved to their place already.
        journal = Journal.read(path)
        is_there = journal is not None and texts.BOOTSTRAP in journal.files
        file = f"{journal.path if journal is not None and is_there else path}/{texts.BOOTSTRAP}"
    if node_id is None or _was_started(path) or not storage.exists(file):
        return None
    with located(file):
        found = Bootstrap.parse(storage.read_all(file), node_id)
        for name in found.topics:
            # It becomes that of a directory.
            try:
                files.check_topic_name(name)
            except ValueError as error:
                raise CorruptRecordError(str(error)) from error
    return found if found.topics or not _has_topic_ids(path) else None


def _was_started(path: str) -> bool:
    """Tell whether a broker ran on a log directory: no controller looks at its snapshot any more.

    The metadata log may be on another disk of the broker: formatting puts a snapshot on each. And it begins where the
    cluster's own last snapshot lets it.
    """
    metadata = f"{path}/{files.METADATA_TOPIC}-0"
    if storage.exists(metadata) and any(
        name.endswith(".log") and files.live_base_offset(name) is not None for name in storage.list_directory(metadata)
    ):
        return True
    markers = (f"{path}/{name}" for name in (texts.CLEAN_SHUTDOWN, texts.CLEAN_SHUTDOWN_ASIDE))
    epochs = [texts.parse_clean_shutdown(storage.read_all(marker)) for marker in markers if storage.exists(marker)]
    # what is left here by others than a broker has -1
    return any(epoch is not None and epoch >= 0 for epoch in epochs)


def _has_topic_ids(path: str) -> bool:
    """Tell whether there are partitions with the id that a cluster gave their topic."""
    names = (name for name in storage.list_subdirectories(path) if name != f"{files.METADATA_TOPIC}-0")
    return any(storage.exists(f"{path}/{name}/{texts.PARTITION_METADATA}") for name in names)


def topic_settings(path: str, node_id: int | None) -> dict[str, TopicSettings]:
    """Return the settings of each topic that a log directory itself describes.

    Raises:
        CorruptRecordError: what says so is damaged.
    """
    configs = metadata_configs(f"{path}/__cluster_metadata-0")
    new_cluster = bootstrap(path, node_id)
    if new_cluster is not None:
        configs |= {topic: described.configs for topic, described in new_cluster.topics.items()}
    return {topic: TopicSettings.from_configs(found) for topic, found in configs.items()}


def metadata_configs(directory: str) -> dict[str, dict[str, str]]:
    """Return the settings of each topic, {} for Kafka's defaults; no topic where there is no metadata log.

    Args:
        directory: the `__cluster_metadata-0` of a log directory.

    Raises:
        CorruptRecordError: it is damaged.
    """
    return topic_configs(_records(directory)) if storage.exists(directory) else {}


def _records(directory: str) -> Iterator[bytes]:
    snapshots = sorted(name for name in storage.list_directory(directory) if _SNAPSHOT.fullmatch(name))
    log = Log(directory)
    start = log.local_log_start_offset
    if snapshots:
        # Of what comes before it, the log may have the end of a topic's life and not the beginning.
        start = min(max(start, int(snapshots[-1].partition("-")[0])), log.log_end_offset)
        path = f"{directory}/{snapshots[-1]}"
        with located(path):
            yield from snapshot_records(storage.read_all(path))
    for rows in log.read(start_offset=start, columns=["value"]):
        yield from (value or b"" for value in rows["value"].to_pylist())
