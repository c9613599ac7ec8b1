"""The cluster's metadata in a log directory: the metadata that a new cluster starts with, or the metadata log.

A broker with several log directories has the metadata log in one of them (`metadata.log.dir`). For the others, callers
name that directory.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.bootstrap_metadata import Bootstrap, ClusterImage, snapshot_records
from brokerless.layout.broker_settings import SYNONYMS, BrokerConfig, dynamic_layers, layered
from brokerless.layout.commit_journal import Journal
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.replication import SOLE, Replication
from brokerless.layout.topic_config import UNKNOWN
from brokerless.log.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.layout.bootstrap_metadata import Topic
    from brokerless.layout.broker_settings import Layer
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.split import Split

    Path = str | os.PathLike[str]

_SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")


def bootstrap_file(path: str, journal: Journal | None) -> str:
    """Return the file of the metadata that a new cluster starts with. It depends on the release that formatted it.

    Args:
        path: the log directory.
        journal: the journal of a commit in force. Partitions that its metadata name may be in place already.

    Raises:
        CorruptRecordError: a file is damaged.
    """
    if journal is not None and checkpoints.BOOTSTRAP in journal.files:
        return f"{journal.path}/{checkpoints.BOOTSTRAP}"
    formatted = formatted_snapshot(path)
    if storage.exists(formatted):
        with located(formatted):
            if snapshot_records(storage.read_all(formatted)):
                return formatted
    return f"{path}/{checkpoints.BOOTSTRAP}"


def formatted_snapshot(path: str) -> str:
    """Return the path of the snapshot that formatting writes: the voters, and since 4.4 all records (KIP-1170)."""
    return f"{path}/{file_names.METADATA_TOPIC}-0/{0:020d}-{0:010d}.checkpoint"


def bootstrap(path: str, node_id: int | None, *, file: str | None = None) -> Bootstrap | None:
    """Return the metadata that a new cluster starts with; None: it has started, or there are none.

    Args:
        path: the log directory.
        node_id: the broker's `node.id`.
        file: the file of the metadata; None: the result of `bootstrap_file`.

    Raises:
        CorruptRecordError: the file is damaged.
        UnsupportedFormatError: a partition has replicas on other nodes.
    """
    if node_id is None or _was_started(path):
        return None
    file = file or bootstrap_file(path, Journal.read(path))
    if not storage.exists(file):
        return None
    with located(file):
        found = Bootstrap.parse(storage.read_all(file), node_id)
        for name in found.topics:
            # The name becomes part of a directory name.
            try:
                file_names.check_topic_name(name)
            except ValueError as error:
                raise CorruptRecordError(str(error)) from error
    # Without topics, it may also be the second disk of a broker that ran and was killed.
    is_new = bool(found.topics) or not (has_topic_ids(path) or storage.exists(f"{path}/{checkpoints.RECOVERY_POINTS}"))
    return found if is_new else None


def _was_started(path: str) -> bool:
    """Return whether a broker ran on a log directory: then no controller reads the formatted snapshot any more.

    The metadata log may be on another disk of the broker than the snapshot that formatting wrote. And its
    first offset depends on the cluster's own last snapshot.
    """
    metadata = f"{path}/{file_names.METADATA_TOPIC}-0"
    if storage.exists(metadata) and any(
        name.endswith(".log") and file_names.live_base_offset(name) is not None
        for name in storage.list_directory(metadata)
    ):
        return True
    markers = (f"{path}/{name}" for name in (checkpoints.CLEAN_SHUTDOWN, checkpoints.CLEAN_SHUTDOWN_ASIDE))
    epochs = [
        checkpoints.parse_clean_shutdown(storage.read_all(marker)) for marker in markers if storage.exists(marker)
    ]
    # markers that a broker did not write have none, or a negative one
    return any(epoch is not None and epoch >= 0 for epoch in epochs)


def has_topic_ids(path: str) -> bool:
    """Return whether any partition has a topic id from its cluster."""
    names = (name for name in storage.list_subdirectories(path) if name != f"{file_names.METADATA_TOPIC}-0")
    return any(storage.exists(f"{path}/{name}/{checkpoints.PARTITION_METADATA}") for name in names)


class Cluster:
    """The cluster of a log directory, as the metadata of a new cluster or the metadata log describe it.

    Args:
        path: the log directory.
        node_id: the broker's `node.id`; None: the directory does not record it.
        bootstrap: the metadata that a new cluster starts with; None: it has started, or there are none.
        broker_config: the broker's configuration file; None: it is not known.
        metadata: the metadata log, or the log directory that has it; None: look only in `path`.

    Raises:
        ValueError: `metadata` has no metadata log, or that of another cluster; or `broker_config` belongs to another
            broker, or has an invalid value.
    """

    def __init__(
        self,
        path: str,
        node_id: int | None,
        bootstrap: Bootstrap | None,
        *,
        broker_config: Path | None = None,
        metadata: Path | None = None,
    ) -> None:
        self.path, self.node_id = path, node_id
        self._config = None if broker_config is None else BrokerConfig.read(broker_config)
        given = None if self._config is None else self._config.node_id
        if None not in (node_id, given) and node_id != given:
            raise ValueError(f"{broker_config} is of broker {given}, and {path} of broker {node_id}")
        self._metadata = path if metadata is None else _metadata_of(os.fspath(metadata), path)
        # A caller that names a metadata log has a started cluster.
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
    def image(self) -> ClusterImage | None:
        """The state in the metadata log; None: its place is not known."""
        return cluster_image(self._metadata)

    @property
    def next_producer_id(self) -> int | None:
        """The first producer id that the cluster has not allocated to a broker; None: it is not known."""
        return None if self.image is None else self.image.next_producer_id

    @property
    def other_brokers(self) -> list[int] | None:
        """The cluster's other brokers; None: they are not known.

        Each broker has a block of producer ids, and hands them out until it stops.
        """
        if self.image is None or not self.image.is_whole or self.node_id not in self.image.registered:
            return None
        return sorted(self.image.registered - {self.node_id})

    def knows(self, topic: str) -> bool:
        """Return whether the metadata describe a topic."""
        return topic in self._described or (self.image is not None and topic in self.image.topics)

    def config_of(self, topic: str) -> TopicConfig:
        """Return a topic's settings, each with its source: the topic's own, the broker's, or Kafka's defaults.

        If no metadata name the topic, its own settings are not known. A setting that no layer gives then has source
        `UNKNOWN`.

        Raises:
            CorruptRecordError: the metadata are damaged.
            ValueError: a setting has an invalid value.
        """
        if topic in self._described:
            return layered(self._described[topic].configs, self._layers)
        configs = self.image.topics.get(topic) if self.image is not None else None
        config = layered(configs or {}, self._layers)
        if configs is None:
            # The topic's own settings may differ from those of all layers below.
            sources = {**dict.fromkeys(SYNONYMS, UNKNOWN), **config.sources}
            config = replace(config, sources=sources, are_guessed=self._config is None)
        is_whole = configs is not None and self.image is not None and self.image.is_whole
        # If the end of the metadata is missing, the log's own files show whether it is tiered.
        return config if is_whole else replace(config, remote_storage_enable=None)

    @cached_property
    def has_lost_metadata(self) -> bool:
        """Whether the directory belongs to a KRaft broker, and the place of its metadata log is not known."""
        return (
            self.bootstrap is None
            and (self._is_kraft or storage.exists(f"{self.path}/{checkpoints.BOOTSTRAP}"))
            and not has_metadata_log(self._metadata)
        )

    def _topic_id(self, topic: str) -> str | None:
        """Return a topic's id by the metadata; None: they have none."""
        if topic in self._described:
            return self._described[topic].topic_id
        names = self.image.names if self.image is not None else {}
        return next((topic_id for topic_id, name in names.items() if name == topic), None)

    @cached_property
    def _is_kraft(self) -> bool:
        return LogDirFiles(self.path).is_kraft

    def missing_metadata(self) -> str:
        """Describe what a KRaft broker does without the cluster's metadata; "": they are known."""
        if not self.has_lost_metadata:
            return ""
        return (
            f"no {file_names.METADATA_TOPIC}-0 in {self.path}: unless another of the broker's log.dirs has it "
            "(metadata.log.dir), a broker renames all partitions -stray, and serves none of them"
        )

    def missing_settings(self, topics: Iterable[str] = ()) -> str:
        """Describe which settings of topics are unknown, and what replaces them; "": all are known.

        Args:
            topics: the topics that matter. If the metadata of all topics are missing, the text says that instead.
        """
        if self.has_lost_metadata:
            what = (
                "settings of topics" if self._config is None else "the topics' own settings, and those set at runtime,"
            )
            return (
                f"{what} are not known, and Kafka's defaults replace them: {self.missing_metadata()}; name the "
                "directory that has it (--metadata, or metadata= in Python)"
            )
        unnamed = ", ".join(sorted(topic for topic in topics if not self.knows(topic)))
        if not unnamed or (self.image is None and self._config is None):
            return ""
        where = "there is no metadata log" if self.image is None else f"the metadata log in {self._metadata} has none"
        return f"the topic's own settings of {unnamed} are not known, and Kafka's defaults replace them: {where}"

    def unserved(self, key: tuple[str, int], topic_id: str | None) -> str:
        """Explain why a broker that starts here will not serve a partition; "": it will, or the metadata are not known.

        A broker identifies a topic by its id, not by its name, and renames a stray partition's directory
        (`LogManager.isStrayKraftReplica`).

        Args:
            key: the partition.
            topic_id: the id in its `partition.metadata`; None: the file does not exist.
        """
        if not self._is_kraft:
            return ""
        topic, partition = key
        why = f"a broker renames {topic}-{partition} -stray, and does not serve it"
        if topic_id is None:
            known_id = self._topic_id(topic)
            cure = "" if known_id is None else f"; put one there, with the topic id {known_id}"
            return f"{why}: no {checkpoints.PARTITION_METADATA}{cure}"
        if self.bootstrap is not None:
            described = self._described.get(topic)
            name = topic if self._topic_id(topic) == topic_id else None
            nodes = self.replicas(key) if described is not None and partition in described.leader_epochs else None
        elif self.image is not None:
            name = self.image.names.get(topic_id)
            nodes = self.image.replicas.get((name or "", partition))
        else:
            return ""
        if name is None:
            known_id = self._topic_id(topic)
            if known_id is None:
                return f"{why}: its topic id is {topic_id}, and the cluster's metadata do not name the topic"
            return (
                f"{why}: its topic id is {topic_id}, and the cluster's metadata have {known_id} for the topic; if the "
                f"log is this topic's, put that into {checkpoints.PARTITION_METADATA}"
            )
        if nodes is None:
            return f"{why}: the cluster's metadata do not have this partition of the topic"
        if self.node_id is not None and self.node_id not in nodes:
            return f"{why}: by the cluster's metadata it is on nodes {nodes}, and this is node {self.node_id}"
        if name != topic:
            return f"a broker does not serve {topic}-{partition}: its topic id {topic_id} is that of topic {name}"
        return ""

    @cached_property
    def _layers(self) -> list[Layer]:
        """The broker's settings, the highest layer first."""
        if self.bootstrap is not None:
            brokers = self.bootstrap.brokers
        else:
            brokers = self.image.brokers if self.image is not None else {}
        if self._config is None:
            return dynamic_layers(brokers, self.node_id)
        node_id = self._config.node_id if self.node_id is None else self.node_id
        return [*dynamic_layers(brokers, node_id), self._config.layer]

    def replicas(self, key: tuple[str, int]) -> tuple[int, ...] | None:
        """Return the nodes with a replica of a partition; None: they are not known."""
        if key[0] in self._described and self.node_id is not None:
            return (self.node_id,)
        return self.image.replicas.get(key) if self.image is not None and self.image.is_whole else None

    def is_sole(self, key: tuple[str, int]) -> bool:
        """Return whether no other node has a replica of a partition; False if it is not known.

        The answer decides which operations are safe, and whether to warn about other replicas.
        """
        replicas = self.replicas(key)
        if replicas is None:
            return self._is_unclaimed
        # For a copy of a partition without its log directory, the single replica is the original.
        return len(replicas) == 1 and self.node_id in (None, *replicas)

    @property
    def is_new(self) -> bool:
        """Whether no broker has started on the directory, as far as its files show."""
        return self.bootstrap is not None or self._is_unclaimed

    @cached_property
    def _is_unclaimed(self) -> bool:
        """Whether the directory belongs to no cluster yet: a broker writes its cluster's id there (since 0.10.1)."""
        root = LogDirFiles(self.path)
        return root.node_id is not None and root.cluster_id is None

    def replication(self, key: tuple[str, int], high_watermark: int | None) -> Replication:
        """Return the known state of a partition's other replicas.

        Replicas in sync have every record up to the high watermark, and so up to an older one. A replica that is not in
        sync, or not known from metadata, may end anywhere.

        Args:
            key: the partition.
            high_watermark: the checkpointed high watermark.
        """
        if self.is_sole(key):
            return SOLE
        replicas = self.replicas(key)
        in_sync = self.image.in_sync.get(key, ()) if self.image is not None else ()
        are_in_sync = replicas is not None and set(replicas) <= set(in_sync)
        if replicas is not None and high_watermark is None and LogDirFiles(self.path).is_there:
            # A broker then starts from 0. A copy without its log directory has lost the high watermark.
            high_watermark = 0
        return Replication(high_watermark or 0 if are_in_sync else 0, high_watermark)

    @property
    def _described(self) -> dict[str, Topic]:
        return self.bootstrap.topics if self.bootstrap is not None else {}


def has_metadata_log(path: str) -> bool:
    """Return whether a log directory has the metadata log of a started cluster.

    The first snapshot does not count: formatting writes it, and the metadata log may then start on another disk.
    """
    directory = f"{path}/{file_names.METADATA_TOPIC}-0"
    first = os.path.basename(formatted_snapshot(path))
    names = storage.list_directory(directory) if storage.exists(directory) else []
    return any(name.endswith(".log") or (_SNAPSHOT.fullmatch(name) and name != first) for name in names)


def metadata_among(paths: Iterable[str], path: str) -> str | None:
    """Return the path among several that has the metadata log of a log directory; None: no path has it.

    Args:
        paths: log directories and other paths.
        path: the log directory without a metadata log.
    """
    cluster_id = LogDirFiles(path).cluster_id
    if cluster_id is None or has_metadata_log(path):
        return None
    return next((one for one in paths if has_metadata_log(one) and LogDirFiles(one).cluster_id == cluster_id), None)


def _metadata_of(metadata: str, path: str) -> str:
    """Return the log directory that holds a metadata log.

    Args:
        metadata: this log directory, or the metadata log's own directory in it.
        path: the log directory that needs the metadata.

    Raises:
        ValueError: there is no metadata log, or it belongs to another cluster.
    """
    absolute = os.path.abspath(metadata)
    found = os.path.dirname(absolute) if os.path.basename(absolute) == f"{file_names.METADATA_TOPIC}-0" else metadata
    if not has_metadata_log(found):
        raise ValueError(
            f"no metadata log in {metadata}: the directory that metadata.log.dir of a broker names, or else the first "
            f"of its log.dirs, has it as {file_names.METADATA_TOPIC}-0"
        )
    wanted, cluster_id = LogDirFiles(path).cluster_id, LogDirFiles(found).cluster_id
    if None not in (wanted, cluster_id) and wanted != cluster_id:
        raise ValueError(f"the metadata log in {metadata} is of cluster {cluster_id}, and {path} of {wanted}")
    return found


def cluster_image(path: str) -> ClusterImage | None:
    """Return the cluster's state in a log directory's metadata log; None: it has no metadata log.

    The log is read up to damage, where a broker cuts it off. The image is then not whole.

    Raises:
        CorruptRecordError: a snapshot is damaged.
    """
    if not has_metadata_log(path):
        return None
    directory = f"{path}/{file_names.METADATA_TOPIC}-0"
    image, log = ClusterImage(), Log(directory)
    start = log.local_log_start_offset
    snapshots = sorted(name for name in storage.list_directory(directory) if _SNAPSHOT.fullmatch(name))
    if snapshots:
        # Before the snapshot, the log may have a topic's deletion without its creation.
        start = min(max(start, int(snapshots[-1].partition("-")[0])), log.log_end_offset)
        file = f"{directory}/{snapshots[-1]}"
        with located(file):
            image.replay(snapshot_records(storage.read_all(file)))
    try:
        for rows in log.read(start_offset=start, columns=["value"]):
            image.replay(value or b"" for value in rows["value"].to_pylist())
    except CorruptRecordError as error:
        image.is_whole = False
        warnings.warn(
            f"the cluster's metadata are known up to damage at {error.path}:{error.position} ({error.args[0]}): what "
            "they say of settings, replicas and producer ids may be old; a broker cuts them there",
            stacklevel=2,
        )
    return image


class Uncommitted:
    """Notes about rows that may not be committed: other brokers may not have them.

    In a replicated partition, only rows below the high watermark are certainly committed. A leader that becomes a
    follower truncates the others. By default, a running broker's logs are read up to the high watermark.

    Args:
        logs: the logs to read.
        paths: the named paths: log directories and others; one may have the metadata log of another.
        metadata: the directory of the cluster's metadata log; None: look in the log directory, then in `paths`.

    Raises:
        ValueError: `metadata` has no metadata log, or that of another cluster.
    """

    def __init__(self, logs: Iterable[Log], paths: Iterable[str] = (), metadata: Path | None = None) -> None:
        roots = {log.root.path: log.root for log in logs}
        # Include the log directories of partitions that were named.
        self._paths, self._metadata = (*paths, *roots), metadata
        self._clusters: dict[str, Cluster] = {}
        self._are_lost: set[str] = set()
        for root in roots.values() if metadata is not None else ():
            self._cluster(root)

    def of(self, log: Log, splits: Iterable[Split]) -> Iterator[str]:
        """Yield notes about rows of a read that may not be committed; once per log directory without metadata.

        Args:
            log: the log to read.
            splits: its splits, in order.
        """
        present = [split for split in splits if not split.is_absent]
        if log.topic is None or log.partition is None or not present:
            return
        watermark = log.high_watermark
        first = max(watermark or 0, present[0].start_offset, log.log_start_offset)
        end = min(max(split.end_offset for split in present), log.log_end_offset)
        if first >= end:
            return
        # Other verbs need sound metadata; for a read they only add information.
        with suppress(CorruptRecordError, UnsupportedFormatError):
            cluster = self._cluster(log.root)
            replicas = cluster.replicas((log.topic, log.partition))
            if replicas is not None and len(replicas) > 1:
                where = "no high watermark is" if watermark is None else f"high watermark {watermark} was"
                cure = "" if watermark is None else "; end at high-watermark to leave them out"
                yield (
                    f"whether offsets {first} to {end - 1} of {log.name} were committed is not known: it has "
                    f"{len(replicas)} replicas, and {where} checkpointed{cure}"
                )
            elif replicas is None and cluster.has_lost_metadata and log.root.path not in self._are_lost:
                self._are_lost.add(log.root.path)
                yield (
                    f"whether offsets {first} to {end - 1} of {log.name} and others behind a high watermark in "
                    f"{log.root.path} were committed is not known: other brokers may have replicas, and the metadata "
                    f"log ({file_names.METADATA_TOPIC}-0) that tells is not there: name the directory that has it, too"
                )

    def _cluster(self, root: LogDirFiles) -> Cluster:
        if root.path not in self._clusters:
            metadata = self._metadata or metadata_among(self._paths, root.path)
            self._clusters[root.path] = Cluster.of(root.path, root.node_id, metadata=metadata)
        return self._clusters[root.path]
