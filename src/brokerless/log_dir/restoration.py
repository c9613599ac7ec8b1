"""What makes a write a restore: where its logs start, and what was restored, come into force with its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.io import disk
from brokerless.layout import checkpoints, restored_topics
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log_dir.cluster_metadata import bootstrap
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from brokerless.log_dir.writer import LogDirWriter


@dataclass(frozen=True)
class Restoration:
    """What makes a write a restore: its topics have no other rows, and that they are restored comes into force too.

    Attributes:
        digests: of what is restored, by topic.
        starts: the log start offsets that logs are to have, by topic and partition.
    """

    digests: Mapping[str, str]
    starts: Mapping[tuple[str, int], int]

    def done(self, found: LogDirs) -> set[str]:
        """Return the topics that were restored to this log directory like that, and are there."""
        (root,) = found.roots
        return {
            topic
            for topic, topic_id in topic_ids(found, self.digests).items()
            if root.restored_topics.get(topic) == restored_topics.RestoredTopic(self.digests[topic], topic_id)
        }

    def check_empty(self, directory: LogDirWriter) -> None:
        """Refuse topics that have records.

        Raises:
            ValueError: one has.
        """
        for topic, number in directory.partitions():
            end = directory.log(topic, number).log_end_offset if topic in self.digests else 0
            if end:
                raise ValueError(
                    f"{topic}-{number} in {directory.path} ends at offset {end}: a topic that is restored has to be "
                    "empty, so restore it into another directory"
                )

    def stage(self, directory: LogDirWriter, staging: str, made: Mapping[str, str | None]) -> None:
        """Stage where logs start, and what says that the topics are restored.

        Args:
            directory: the log directory.
            staging: the path of the staging directory in it.
            made: the ids of the topics that are made.
        """
        found = LogDirs(directory.path)
        known = dict(found.roots[0].restored_topics)
        ids = topic_ids(found, self.digests) | dict(made)
        for topic, digest in self.digests.items():
            known[topic] = restored_topics.RestoredTopic(digest, ids.get(topic))
        disk.atomic_write(f"{staging}/{restored_topics.FILE}", restored_topics.content(known))
        # With what is known of the other logs now.
        directory.checkpoint()
        offsets = LogDirFiles(directory.path).log_start_offsets
        starts = {key: offset for key, offset in self.starts.items() if offset > 0}
        content = checkpoints.format_offset_checkpoint(offsets | starts)
        disk.atomic_write(f"{staging}/{checkpoints.LOG_START_OFFSETS}", content)


def topic_id_of(found: LogDirs, topic: str) -> str | None:
    """Return the id of a topic; None: it has none, or is not there."""
    return topic_ids(found, [topic]).get(topic)


def topic_ids(found: LogDirs, topics: Collection[str]) -> dict[str, str | None]:
    """Return the ids of those of these topics that are there; None: it has none. All logs are gone through once.

    Of a new cluster's topic the metadata may be all that is there.
    """
    described = bootstrap(found.roots[0].path, found.roots[0].node_id)
    ids: dict[str, str | None] = (
        {}
        if described is None
        else {topic: metadata.topic_id for topic, metadata in described.topics.items() if topic in topics}
    )
    first = {log.topic: log for log in reversed(found.logs()) if log.topic is not None and log.topic in topics}
    return ids | {topic: log.topic_id for topic, log in first.items()}
