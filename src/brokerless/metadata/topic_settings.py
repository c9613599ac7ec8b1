"""`Cluster`: the topics, partitions and brokers of a log directory, according to its metadata.

A broker with several log directories has the metadata log in one of them (`metadata.log.dir`). For the other
directories, callers name the directory of the metadata log.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.replication import SOLE, Replication
from brokerless.layout.setting_layers import SYNONYMS, BrokerConfig, dynamic_layers, layered
from brokerless.layout.topic_config import UNKNOWN
from brokerless.metadata.bootstrap import bootstrap
from brokerless.metadata.directory import has_metadata_log, metadata_directory
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.layout.setting_layers import Layer
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.metadata.bootstrap import Bootstrap, Topic
    from brokerless.metadata.image import MetadataImage

    Path = str | os.PathLike[str]


class Unserved(NamedTuple):
    """Why a broker that starts on a log directory will not serve a partition.

    Attributes:
        code: the code of its finding.
        why: the reason and the remedy, as text.
    """

    code: str
    why: str


class Cluster:
    """The cluster of a log directory, as the metadata of a new cluster or the metadata log describe it.

    Args:
        path: the log directory.
        node_id: the broker's `node.id`; None if the directory does not record it.
        bootstrap: the metadata that a new cluster starts with; None if the cluster has started, or there are no
            metadata.
        broker_config: the broker's configuration file; None if it is not known.
        metadata: the metadata log's directory, or the log directory that has it; None: look only in `path`.
        image: the state of the metadata log, if it was read already.

    Attributes:
        online: the directory ids of the broker's other log directories.

    Raises:
        ValueError: `metadata` has no metadata log, or has the log of another cluster; or `broker_config` belongs to
            another broker, or has an invalid value.
    """

    def __init__(
        self,
        path: str,
        node_id: int | None,
        bootstrap: Bootstrap | None,
        *,
        broker_config: Path | None = None,
        metadata: Path | None = None,
        image: MetadataImage | None = None,
    ) -> None:
        self.path, self.node_id = path, node_id
        self.online: set[str | None] = set()
        if image is not None:
            self.image = image
        self._config = None if broker_config is None else BrokerConfig.read(broker_config)
        given = None if self._config is None else self._config.node_id
        if None not in (node_id, given) and node_id != given:
            raise ValueError(f"{broker_config} is of broker {given}, and {path} of broker {node_id}")
        self._metadata = path if metadata is None else metadata_directory(os.fspath(metadata), path)
        # If the caller names a metadata log, the cluster has started.
        self.bootstrap = bootstrap if metadata is None else None

    @classmethod
    def of(
        cls, path: str, node_id: int | None, *, broker_config: Path | None = None, metadata: Path | None = None
    ) -> Cluster:
        """Return the cluster of a log directory.

        Raises:
            CorruptRecordError: the metadata are damaged.
            ValueError: `broker_config` or `metadata` does not fit.
        """
        return cls(path, node_id, bootstrap(path, node_id), broker_config=broker_config, metadata=metadata)

    @cached_property
    def image(self) -> MetadataImage | None:
        """The state of the metadata log; None if the place of that log is not known."""
        from brokerless.metadata.log import cluster_image  # noqa: PLC0415 - Arrow is slow to import

        return cluster_image(self._metadata)

    @property
    def next_producer_id(self) -> int | None:
        """The first producer id that the cluster has not allocated to a broker; None if it is not known."""
        return None if self.image is None else self.image.next_producer_id

    @property
    def other_brokers(self) -> list[int] | None:
        """The cluster's other brokers; None if they are not known.

        Each broker has reserved a block of producer ids, and assigns ids from this block until it stops.
        """
        if self.image is None or not self.image.is_whole or self.node_id not in self.image.registered:
            return None
        return sorted(self.image.registered - {self.node_id})

    def knows(self, topic: str) -> bool:
        """Return whether the metadata describe a topic."""
        return topic in self._described or (self.image is not None and topic in self.image.topic_ids)

    def config_of(self, topic: str) -> TopicConfig:
        """Return a topic's settings, each with its source: the topic's own, the broker's, or Kafka's defaults.

        If no metadata name the topic, its own settings are not known. A setting that is not set for the broker either
        then has the source `UNKNOWN`.

        Raises:
            CorruptRecordError: the metadata are damaged.
            ValueError: a setting has an invalid value.
        """
        if topic in self._described:
            return layered(self._described[topic].configs, self._layers)
        configs = None
        if self.image is not None and topic in self.image.topic_ids:
            configs = self.image.configs_of(topic)
        config = layered(configs or {}, self._layers)
        if configs is None:
            # The topic's own settings, which are not known, would override all other layers.
            sources = {**dict.fromkeys(SYNONYMS, UNKNOWN), **config.sources}
            config = replace(config, sources=sources, are_guessed=self._config is None)
        is_whole = configs is not None and self.image is not None and self.image.is_whole
        # If the end of the metadata is missing, the log's own files show whether the log is tiered.
        return config if is_whole else replace(config, remote_storage_enable=None)

    @cached_property
    def has_lost_metadata(self) -> bool:
        """True if the directory belongs to a KRaft broker, and the place of its metadata log is not known."""
        return (
            self.bootstrap is None
            and (self._is_kraft or storage.exists(f"{self.path}/{checkpoints.BOOTSTRAP}"))
            and not has_metadata_log(self._metadata)
        )

    def _topic_id(self, topic: str) -> str | None:
        """Return a topic's id according to the metadata; None if the metadata do not have the topic."""
        if topic in self._described:
            return self._described[topic].topic_id
        return None if self.image is None else self.image.topic_ids.get(topic)

    @cached_property
    def _is_kraft(self) -> bool:
        return LogDirFiles(self.path).is_kraft

    def missing_metadata(self) -> str:
        """Describe what a KRaft broker does without the cluster's metadata; "" if the metadata are known."""
        if not self.has_lost_metadata:
            return ""
        return (
            f"{self.path} has no {file_names.METADATA_TOPIC}-0. If neither another of the broker's log.dirs "
            "(metadata.log.dir) nor a controller on another node has it, a broker renames all partitions -stray, and "
            "serves none of them"
        )

    def missing_settings(self, topics: Iterable[str] = ()) -> str:
        """Describe which settings of topics are unknown, and what replaces them; "" if all are known.

        Args:
            topics: the topics whose settings matter. If the metadata of all topics are missing, the text says that
                instead.
        """
        if self.has_lost_metadata:
            what = (
                "settings of topics" if self._config is None else "topic-level settings, and settings made at runtime,"
            )
            return (
                f"{what} are not known, so Kafka's defaults are used: {self.missing_metadata()}. Name the directory "
                f"that has {file_names.METADATA_TOPIC}-0 ({option('metadata')})"
            )
        unnamed = ", ".join(sorted(topic for topic in topics if not self.knows(topic)))
        if not unnamed or (self.image is None and self._config is None):
            return ""
        where = (
            "there is no metadata log"
            if self.image is None
            else f"the metadata log in {self._metadata} does not have the topic"
        )
        return f"the topic-level settings of {unnamed} are not known, so Kafka's defaults are used: {where}"

    def unserved(self, key: tuple[str, int], topic_id: str | None) -> Unserved | None:
        """Return why a broker that starts here will not serve a partition; None if it will, or if that is unknown.

        A broker identifies a topic by its id, not by its name, and renames a stray partition's directory
        (`LogManager.isStrayKraftReplica`).

        Args:
            key: the partition.
            topic_id: the id in its `partition.metadata`; None if the file does not exist.
        """
        if not self._is_kraft:
            return None
        topic, partition = key
        why = f"a broker renames {topic}-{partition} -stray, and does not serve it"
        if topic_id is None:
            known_id = self._topic_id(topic)
            cure = "" if known_id is None else f"; write one with the topic id {known_id}"
            return Unserved("topic-id-missing", f"{why}: it has no {checkpoints.PARTITION_METADATA}{cure}")
        if self.bootstrap is not None:
            described = self._described.get(topic)
            name = topic if self._topic_id(topic) == topic_id else None
            nodes = self.replicas(key) if described is not None and partition in described.leader_epochs else None
        elif self.image is not None:
            name = self.image.topic_names.get(topic_id)
            nodes = self._nodes("replicas", (name or "", partition))
        else:
            return None
        if name is None:
            known_id = self._topic_id(topic)
            if known_id is None:
                said = "the cluster's metadata have no topic"
                return Unserved("partition-stray", f"{why}: its topic id is {topic_id}, but {said} with this id")
            return Unserved(
                "topic-id-differs",
                f"{why}: its topic id is {topic_id}, but the cluster's metadata have {known_id} for the topic. If the "
                f"log belongs to this topic, write the id {known_id} into {checkpoints.PARTITION_METADATA}",
            )
        if nodes is None:
            said = "the cluster's metadata do not have this partition of the topic"
            return Unserved("partition-stray", f"{why}: {said}")
        if self.node_id is not None and self.node_id not in nodes:
            said = f"the cluster's metadata assign it to nodes {nodes}, but this is node {self.node_id}"
            return Unserved("partition-stray", f"{why}: {said}")
        if name != topic:
            said = f"its topic id {topic_id} belongs to topic {name}"
            return Unserved("topic-id-differs", f"a broker does not serve {topic}-{partition}: {said}")
        return self._without_directory(key)

    def _without_directory(self, key: tuple[str, int]) -> Unserved | None:
        """Return the reason if this directory has lost its id, so that the controller treats its replicas as offline.

        If a broker registers without a directory that it had before, the controller treats the broker's replicas in
        that directory as lost (KIP-858).
        """
        broker = None if self.image is None or self.node_id is None else self.image.broker(self.node_id)
        known = () if broker is None else broker["log_dirs"]
        if self.image is None or self.node_id is None or self._directory_id in known:
            return None
        partition = self.image.partitions_of(key[0])[key[1]]
        placed = dict(zip(partition["replicas"], partition["directories"], strict=False)).get(self.node_id)
        if placed not in known or placed in self.online:
            return None
        return Unserved(
            "directory-id-differs",
            f"{key[0]}-{key[1]} has no leader: the metadata log places it in the directory with the id {placed}, but "
            f"the id of this directory is {self._directory_id or 'missing'}. Before a broker starts, write "
            f"directory.id={placed} into {self.path}/{checkpoints.META_PROPERTIES}",
        )

    @cached_property
    def _directory_id(self) -> str | None:
        return LogDirFiles(self.path).directory_id

    @cached_property
    def _layers(self) -> list[Layer]:
        """The broker's settings, the highest layer first."""
        if self.bootstrap is not None:
            brokers = self.bootstrap.brokers
        else:
            brokers = self.image.broker_configs if self.image is not None else {}
        if self._config is None:
            return dynamic_layers(brokers, self.node_id)
        node_id = self._config.node_id if self.node_id is None else self.node_id
        return [*dynamic_layers(brokers, node_id), self._config.layer]

    def replicas(self, key: tuple[str, int]) -> tuple[int, ...] | None:
        """Return the nodes with a replica of a partition; None if they are not known."""
        if key[0] in self._described and self.node_id is not None:
            return (self.node_id,)
        return self._nodes("replicas", key) if self.image is not None and self.image.is_whole else None

    @property
    def registered_node(self) -> int | None:
        """The node that registered with this directory; None if the metadata do not name it."""
        if self.image is None or self._directory_id is None:
            return None
        brokers = self.image.rows("brokers")
        return next((row["broker_id"] for row in brokers if self._directory_id in row["log_dirs"]), None)

    def is_home(self, key: tuple[str, int]) -> bool:
        """Return whether the metadata place a partition in this directory."""
        partition = None if self.image is None else self.image.partitions_of(key[0]).get(key[1])
        if partition is None:
            return False
        placed = dict(zip(partition["replicas"], partition["directories"], strict=False)).get(self.node_id)
        return placed is not None and placed == self._directory_id

    def is_sole(self, key: tuple[str, int]) -> bool:
        """Return whether no other node has a replica of a partition; False if it is not known.

        The result determines which operations are safe, and whether to warn about other replicas.
        """
        replicas = self.replicas(key)
        if replicas is None:
            return self._is_unclaimed
        # In a copy of a partition without its log directory, the node is not known: the single replica is the original.
        return len(replicas) == 1 and self.node_id in (None, *replicas)

    @property
    def is_new(self) -> bool:
        """True if no broker has started on the directory, as far as its files show."""
        return self.bootstrap is not None or self._is_unclaimed

    @cached_property
    def _is_unclaimed(self) -> bool:
        """True if the directory belongs to no cluster yet. Since 0.10.1, a starting broker writes its cluster's id."""
        root = LogDirFiles(self.path)
        return root.node_id is not None and root.cluster_id is None

    def replication(self, key: tuple[str, int], high_watermark: int | None) -> Replication:
        """Return the known state of a partition's other replicas.

        In-sync replicas have every record up to the high watermark, so they also have every record up to the
        checkpointed one, which may be older. Any other replica, or one that no metadata describe, may end at any
        offset.

        Args:
            key: the partition.
            high_watermark: the checkpointed high watermark.
        """
        if self.is_sole(key):
            return SOLE
        replicas = self.replicas(key)
        in_sync = self._nodes("isr", key) or ()
        are_in_sync = replicas is not None and set(replicas) <= set(in_sync)
        if replicas is not None and high_watermark is None and LogDirFiles(self.path).is_there:
            # Without a checkpoint entry, a broker starts from 0. A copy without its log directory has lost the entry.
            high_watermark = 0
        return Replication(high_watermark or 0 if are_in_sync else 0, high_watermark)

    def _nodes(self, column: str, key: tuple[str, int]) -> tuple[int, ...] | None:
        """Return the nodes in a column of a partition's metadata; None if the metadata log lacks the partition."""
        partition = None if self.image is None else self.image.partitions_of(key[0]).get(key[1])
        return None if partition is None else tuple(partition[column])

    @property
    def _described(self) -> dict[str, Topic]:
        return self.bootstrap.topics if self.bootstrap is not None else {}
