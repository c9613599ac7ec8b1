"""The extra state of a restore: log start offsets and digests of the restored topics, committed with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.io import disk
from brokerless.layout import checkpoints, restored_topics
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.bootstrap import bootstrap

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from brokerless.log_dir.writer import LogDirWriter


@dataclass(frozen=True)
class Restoration:
    """The extra state of a restore, which is committed with the rows. The restored topics must have no other rows.

    Attributes:
        digests: the digest of the restored data, by topic.
        starts: the log start offsets to set, by topic and partition.
    """

    digests: Mapping[str, str]
    starts: Mapping[tuple[str, int], int]

    def done(self, found: LogDirs) -> set[str]:
        """Return the existing topics of this log directory that were restored with these digests."""
        (root,) = found.roots
        return {
            topic
            for topic, topic_id in topic_ids(found, self.digests).items()
            if root.restored_topics.get(topic) == restored_topics.RestoredTopic(self.digests[topic], topic_id)
        }

    def check_empty(self, directory: LogDirWriter) -> None:
        """Refuse topics that have records.

        Raises:
            ValueError: a topic has records.
        """
        for topic, number in directory.partitions():
            end = directory.log(topic, number).log_end_offset if topic in self.digests else 0
            if end:
                raise ValueError(
                    f"{topic}-{number} in {directory.path} ends at offset {end}: a topic that is restored has to be "
                    "empty, so restore it into another directory"
                )

    def stage(self, directory: LogDirWriter, staging: str, made: Mapping[str, str | None]) -> None:
        """Stage the log start offsets, and the record of the restored topics.

        Args:
            directory: the log directory.
            staging: the path of the staging directory in it.
            made: the ids of the new topics.
        """
        found = LogDirs(directory.path)
        known = dict(found.roots[0].restored_topics)
        ids = topic_ids(found, self.digests) | dict(made)
        for topic, digest in self.digests.items():
            known[topic] = restored_topics.RestoredTopic(digest, ids.get(topic))
        disk.atomic_write(f"{staging}/{restored_topics.FILE}", restored_topics.content(known))
        # Include the current offsets of the other logs.
        directory.checkpoint()
        offsets = LogDirFiles(directory.path).log_start_offsets
        starts = {key: offset for key, offset in self.starts.items() if offset > 0}
        content = checkpoints.format_offset_checkpoint(offsets | starts)
        disk.atomic_write(f"{staging}/{checkpoints.LOG_START_OFFSETS}", content)


def topic_id_of(found: LogDirs, topic: str) -> str | None:
    """Return the id of a topic; None if the topic has no id or does not exist."""
    return topic_ids(found, [topic]).get(topic)


def topic_ids(found: LogDirs, topics: Collection[str]) -> dict[str, str | None]:
    """Return the ids of those topics that exist; None for a topic without an id. All logs are visited once.

    A topic of a new cluster may exist only in its metadata.
    """
    described = bootstrap(found.roots[0].path, found.roots[0].node_id)
    ids: dict[str, str | None] = (
        {}
        if described is None
        else {topic: metadata.topic_id for topic, metadata in described.topics.items() if topic in topics}
    )
    first = {log.topic: log for log in reversed(found.logs()) if log.topic is not None and log.topic in topics}
    return ids | {topic: log.topic_id for topic, log in first.items()}
