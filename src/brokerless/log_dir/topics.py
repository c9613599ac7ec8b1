"""The topics of a write: the properties of new topics, and checks against existing ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.restoration import topic_id_of
from brokerless.metadata.bootstrap import Topic, bootstrap
from brokerless.metadata.topic_settings import Cluster
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.log_dir.writer import LogDirWriter
    from brokerless.metadata.topic_settings import Path


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """The properties of a topic that a write creates. If the topic exists, it must have the same properties.

    Some log directories do not record settings, for example those of ZooKeeper clusters. For such a directory, the
    topic uses the settings given here.

    Attributes:
        partitions: the number of partitions; None: as many as the overwritten topic has, else 1.
        topic_id: the topic's id, required if its cluster has been started on the directory; None: a random id or none,
            see `LogDirWriter.create_topic`.
        config: the settings that differ from Kafka's defaults, as keywords of `TopicConfig`.

    Raises:
        ValueError: a number, an id or a setting is invalid.
    """

    partitions: int | None = None
    topic_id: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.partitions is not None and not 1 <= self.partitions <= file_names.MOST_PARTITIONS:
            raise ValueError(f"{self.partitions} partitions: 1 to {file_names.MOST_PARTITIONS} are allowed")
        if self.topic_id is not None:
            checkpoints.check_topic_id(self.topic_id)
        TopicConfig().with_keywords(self.config)

    def numbers(self, before: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the partition numbers of the new topic, given those of the overwritten topic."""
        return before if before and self.partitions is None else tuple(range(self.partitions or 1))


def needs_ids(found: LogDirs) -> bool:
    """Return whether new topics need an id, because a KRaft cluster has been started on the log directory."""
    (root,) = found.roots
    return root.is_kraft and bootstrap(root.path, root.node_id) is None


def check_present(found: LogDirs, topic: str, new: NewTopic, before: tuple[int, ...]) -> None:
    """Check that an existing topic has the properties of a new one.

    Args:
        found: the log directory.
        topic: an existing topic.
        new: the properties to compare.
        before: the topic's partitions.

    Raises:
        ValueError: a property differs.
    """
    if new.partitions not in (None, len(before)):
        raise ValueError(f"topic {topic!r} has {counted(len(before), 'partition')}, not {new.partitions}")
    if new.topic_id is not None and new.topic_id != topic_id_of(found, topic):
        raise ValueError(f"topic {topic!r} has the id {topic_id_of(found, topic)}, not {new.topic_id}")
    check_config(found.roots[0].path, found.roots[0].node_id, topic, new.config)


def check_config(
    path: str,
    node_id: int | None,
    topic: str,
    config: Mapping[str, object],
    *,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> None:
    """Check that an existing topic has the given settings, as far as its settings are known.

    Args:
        path: the log directory.
        node_id: the broker's `node.id`.
        topic: an existing topic.
        config: the given settings.
        broker_config: the broker's configuration file; see `Cluster`.
        metadata: the directory of the cluster's metadata log; see `Cluster`.

    Raises:
        ValueError: a setting differs; only the topic's cluster can change it.
    """
    if not config:
        return
    cluster = Cluster.of(path, node_id, broker_config=broker_config, metadata=metadata)
    known = cluster.config_of(topic)
    for name, value in config.items():
        if cluster.knows(topic) and not known.agrees(name, value):
            raise ValueError(f"topic {topic!r} has {name}={getattr(known, name)}, not {value}")


def check_new_id(found: LogDirs, topic: str, new: NewTopic, ids: Mapping[str, str], *, needs_id: bool) -> None:
    """Check that a new topic can have its id.

    Args:
        found: the log directory.
        topic: the topic's name.
        new: the properties of the new topic.
        ids: the existing topics, by id.
        needs_id: whether an id is required; see `needs_ids`.

    Raises:
        ValueError: another topic has the id, or the required id is missing.
    """
    if new.topic_id is not None:
        other = ids.get(new.topic_id)
        if other == topic:
            raise ValueError(
                f"topic id {new.topic_id} is the id of the old topic {topic!r}: the new topic needs another"
            )
        if other is not None:
            raise ValueError(
                f"topic id {new.topic_id} is that of topic {other!r}: if two topics have one id, a broker loads only "
                "one of them"
            )
    elif needs_id:
        raise ValueError(
            f"topic {topic!r} needs the topic id that it has in cluster {found.roots[0].cluster_id}, because a broker "
            "renames a directory with another id -stray. Create the topic in the cluster, and give its id here"
        )


def topics_by_id(found: LogDirs) -> dict[str, str]:
    """Return the topics that have an id, by id."""
    first = {log.topic: log for log in reversed(found.logs()) if log.topic is not None}
    return {log.topic_id: topic for topic, log in first.items() if log.topic_id is not None}


def partitions_of(found: LogDirs) -> dict[str, tuple[int, ...]]:
    """Return the partitions of each topic, from the directories and the metadata of a new cluster."""
    known = {(log.topic, log.partition) for log in found.logs() if log.topic is not None and log.partition is not None}
    described = bootstrap(found.roots[0].path, found.roots[0].node_id)
    for topic, metadata in described.topics.items() if described is not None else ():
        known.update((topic, partition) for partition in metadata.leader_epochs)
    return by_topic(key for key in known if key[0] != file_names.METADATA_TOPIC)


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Group partitions by topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def stage_topics(
    directory: LogDirWriter, staging: str, made: Mapping[str, NewTopic], partitions: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[str | None, TopicConfig]]:
    """Stage the files that change in the log directory itself for new topics: the metadata and the checkpoints.

    Args:
        directory: the log directory.
        staging: the path of the staging directory.
        made: the properties of each new topic.
        partitions: the partitions of each new topic.

    Returns:
        The id (None: it has none) and the settings of each topic.

    Raises:
        ValueError: another topic has an id.
    """
    if not made:
        return {}
    cluster = Cluster.of(directory.path, directory.node_id)
    topics = {topic: (new.topic_id, cluster.config_of(topic).with_keywords(new.config)) for topic, new in made.items()}
    described = cluster.bootstrap
    if described is not None:
        for topic, (given, config) in topics.items():
            topic_id = given or checkpoints.random_id()
            if topic_id in {other.topic_id for name, other in described.topics.items() if name != topic}:
                raise ValueError(f"topic id {topic_id} is another topic's")
            topics[topic] = (topic_id, config)
            epochs = dict.fromkeys(partitions[topic], 0)
            described.topics[topic] = Topic(topic_id, config.to_configs(), epochs)
        disk.atomic_write(f"{staging}/{checkpoints.BOOTSTRAP}", described.format(timestamp=now_ms()))
    # Entries of old logs, including manually removed ones, do not apply to the new logs.
    directory.checkpoint()
    for name in checkpoints.OFFSET_CHECKPOINTS:
        if storage.exists(f"{directory.path}/{name}"):
            offsets = checkpoints.parse_offset_checkpoint(storage.read_all(f"{directory.path}/{name}"))
            kept = {key: offset for key, offset in offsets.items() if key[0] not in made}
            if len(kept) < len(offsets):
                disk.atomic_write(f"{staging}/{name}", checkpoints.format_offset_checkpoint(kept))
    return topics
