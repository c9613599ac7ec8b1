"""Topics that a write goes to: what they are to be if it makes them, and what is there and said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.layout.bootstrap_metadata import Topic
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.cluster_metadata import Cluster, bootstrap
from brokerless.log_dir.restoration import topic_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerless.log_dir.cluster_metadata import Path
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.log_dir.writer import LogDirWriter


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """What a topic is to be if a write makes it. Of one that is there: what it has to be already.

    Settings that the log directory itself does not tell, as one of ZooKeeper's times, are taken to be these where the
    topic is named.

    Attributes:
        partitions: how many; None: as many as the topic has that is overwritten, else 1.
        topic_id: needed where its cluster has been started on the directory; None: a random one, or none, as
            `LogDirWriter.create_topic` has it.
        config: those that differ from Kafka's defaults, as keywords of `TopicConfig`.

    Raises:
        ValueError: a number, an id or a setting that cannot be.
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
        """Return the partitions of the new topic, given those of an old one."""
        return before if before and self.partitions is None else tuple(range(self.partitions or 1))


def needs_ids(found: LogDirs) -> bool:
    """Tell whether a cluster has been started on a log directory: it knows its topics by their ids."""
    (root,) = found.roots
    return root.is_kraft and bootstrap(root.path, root.node_id) is None


def check_present(found: LogDirs, topic: str, new: NewTopic, before: tuple[int, ...]) -> None:
    """Check that a topic is as it would have been made.

    Args:
        found: the log directory.
        topic: one that is there.
        new: what it would have been.
        before: its partitions.

    Raises:
        ValueError: it has something else.
    """
    if new.partitions not in (None, len(before)):
        raise ValueError(f"topic {topic!r} has {len(before)} partitions, not {new.partitions}")
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
    """Check that a topic has the settings given for it, where they are known.

    Args:
        path: the log directory.
        node_id: the broker's.
        topic: one that is there.
        config: those given.
        broker_config: the broker's configuration file; see `Cluster`.
        metadata: where the cluster's metadata log is; likewise.

    Raises:
        ValueError: it has others, which only its cluster can change.
    """
    if not config:
        return
    cluster = Cluster.of(path, node_id, broker_config=broker_config, metadata=metadata)
    known = cluster.config_of(topic)
    for name, value in config.items():
        if cluster.knows(topic) and not known.agrees(name, value):
            raise ValueError(f"topic {topic!r} has {name}={getattr(known, name)}, not {value}")


def check_new_id(found: LogDirs, topic: str, new: NewTopic, ids: Mapping[str, str], *, needs_id: bool) -> None:
    """Check that a topic can have the id that it is to have.

    Args:
        found: the log directory.
        topic: the name.
        new: what it is to be.
        ids: the topics that are there, by those that they have.
        needs_id: a cluster has been started on the directory, and knows it by its id.

    Raises:
        ValueError: it cannot.
    """
    if new.topic_id is not None:
        other = ids.get(new.topic_id)
        if other == topic:
            raise ValueError(f"topic id {new.topic_id} is that of the old topic {topic!r}: the new one needs another")
        if other is not None:
            raise ValueError(f"topic id {new.topic_id} is that of topic {other!r}: of two, a broker loads one")
    elif needs_id:
        raise ValueError(
            f"topic {topic!r} needs the id that it has in cluster {found.roots[0].cluster_id}: create it there, and "
            "give its id; without it a broker renames the directory -stray"
        )


def topics_by_id(found: LogDirs) -> dict[str, str]:
    """Return the topics that have an id, by it."""
    first = {log.topic: log for log in reversed(found.logs()) if log.topic is not None}
    return {log.topic_id: topic for topic, log in first.items() if log.topic_id is not None}


def partitions_of(found: LogDirs) -> dict[str, tuple[int, ...]]:
    """Return the partitions that each topic has here, or has by the metadata of a new cluster."""
    known = {(log.topic, log.partition) for log in found.logs() if log.topic is not None and log.partition is not None}
    described = bootstrap(found.roots[0].path, found.roots[0].node_id)
    for topic, metadata in described.topics.items() if described is not None else ():
        known.update((topic, partition) for partition in metadata.leader_epochs)
    return by_topic(key for key in known if key[0] != file_names.METADATA_TOPIC)


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Return the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def stage_topics(
    directory: LogDirWriter, staging: str, made: Mapping[str, NewTopic], partitions: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[str | None, TopicConfig]]:
    """Stage what the log directory's own files will say of topics that are made.

    Args:
        directory: the log directory.
        staging: the path of the staging directory.
        made: what each topic is to be.
        partitions: those of each.

    Returns:
        Their ids, if they have any, and settings.

    Raises:
        ValueError: an id is another topic's.
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
    # What is known of old logs, also of some that were removed by hand, is not true of the new ones.
    directory.checkpoint()
    for name in checkpoints.OFFSET_CHECKPOINTS:
        if storage.exists(f"{directory.path}/{name}"):
            offsets = checkpoints.parse_offset_checkpoint(storage.read_all(f"{directory.path}/{name}"))
            kept = {key: offset for key, offset in offsets.items() if key[0] not in made}
            if len(kept) < len(offsets):
                disk.atomic_write(f"{staging}/{name}", checkpoints.format_offset_checkpoint(kept))
    return topics
