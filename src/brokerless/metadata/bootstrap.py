"""`Bootstrap`: the metadata that a new KRaft cluster starts with, as `bootstrap.checkpoint` holds it.

When a directory is formatted, the cluster's features are written to that file. The first controller loads the file if
its metadata log is empty, and never reads it again. The file may also name topics. The cluster then starts with these
topics, and a broker renames the directories of all other topics to `-stray`.

Topics, their partitions and settings, and the next producer id are read from the file's records. Other records are kept
unchanged.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.commit_journal import Journal
from brokerless.layout.release import Release
from brokerless.metadata.directory import formatted_snapshot, has_topic_ids, was_started
from brokerless.metadata.records import (
    TOPIC_RESOURCE,
    config_record,
    metadata_record,
    metadata_records,
    partition_record,
    producer_ids_record,
    rows_of,
    topic_record,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

# The features that `StorageTool format` of each release writes, at their newest stable levels.
_FEATURE_NAMES = (
    "metadata.version",
    "eligible.leader.replicas.version",
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
)
# None means that the release does not have the feature.
_FEATURE_LEVELS: dict[Release, tuple[int | None, ...]] = {
    Release(3, 9): (21, None, None, None, None, None),
    Release(4, 0): (25, None, 1, None, None, 2),
    Release(4, 1): (27, 1, 1, None, None, 2),
    Release(4, 2): (29, 1, 1, 1, 1, 2),
    Release(4, 3): (30, 1, 1, 1, 1, 2),
    Release(4, 4): (33, 1, 1, 2, 1, 2),
}
LEAST_METADATA_VERSION = 17
"""3.7-IV2: the first version in which a PartitionRecord has directories."""
OLDEST_RELEASE = Release(4, 0)
"""The default release of a new cluster. Brokers of this release and all newer ones start on it."""
# The number of producer ids that a broker requests at a time (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE).
_PRODUCER_ID_BLOCK = 1000
# DirectoryId.UNASSIGNED: the broker reports later which of its directories holds the partition.
_UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass
class Topic:
    """A topic: its id (22 characters of URL-safe base64), its own settings, and the leader epoch of each partition.

    `directories` holds the id of the log directory of each partition, if it is known.
    """

    topic_id: str
    configs: dict[str, str] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)
    directories: dict[int, str] = field(default_factory=dict)


class Bootstrap:
    """The metadata that a new cluster of one node starts with.

    Args:
        node_id: the node that is the only replica and leader of all partitions.
        release: the oldest Kafka release that must be able to start with these metadata.

    Attributes:
        node_id: the node id as given.
        topics: the topics by name. `leader_epochs` must have an entry for each partition. `format` writes changes.
        next_producer_id: the first producer id that the cluster assigns; 0 unless `keep_producer_id` raised it.

    >>> bootstrap = Bootstrap(node_id=1)
    >>> bootstrap.topics["orders"] = Topic("AAECAwQFBgcICQoLDA0ODw", {"retention.ms": "-1"}, {0: 5, 1: 0})
    >>> Bootstrap.parse(bootstrap.format(timestamp=0), node_id=1).topics == bootstrap.topics
    True
    """

    def __init__(self, node_id: int, release: Release = OLDEST_RELEASE) -> None:
        self.node_id = node_id
        self.topics: dict[str, Topic] = {}
        self.next_producer_id = 0
        self._others = feature_records(release)

    @classmethod
    def parse(cls, content: bytes, node_id: int) -> Bootstrap:
        """Parse a `bootstrap.checkpoint`.

        Raises:
            CorruptRecordError: the content is damaged or not a `bootstrap.checkpoint`.
            UnsupportedFormatError: a partition has other replicas than this node.
        """
        bootstrap = cls(node_id)
        bootstrap._others = []
        names: dict[str, str] = {}
        for name, fields, record in _known(snapshot_records(content)):
            if name == "TopicRecord":
                bootstrap.topics[fields["name"]] = Topic(fields["topicId"])
                names[fields["topicId"]] = fields["name"]
            elif name == "PartitionRecord":
                bootstrap._add_partition(names.get(fields["topicId"]), fields, record)
            elif name == "ConfigRecord" and _is_of(fields, bootstrap.topics):
                if fields["value"] is not None:
                    bootstrap.topics[fields["resourceName"]].configs[fields["name"]] = fields["value"]
            elif name == "ProducerIdsRecord":
                bootstrap.next_producer_id = fields["nextProducerId"]
            else:
                bootstrap._others.append(record)
        return bootstrap

    def _add_partition(self, topic: str | None, fields: dict[str, Any], record: bytes) -> None:
        """Add a partition that `format` writes unchanged."""
        partition, topic_id, leader_epoch = fields["partitionId"], fields["topicId"], fields["leaderEpoch"]
        directory = next(iter(fields.get("directories") or ()), _UNASSIGNED)
        if topic is None or record != partition_record(partition, topic_id, [self.node_id], leader_epoch, [directory]):
            raise UnsupportedFormatError(
                f"partition {partition} of topic id {topic_id} has other replicas than node {self.node_id}"
            )
        self.topics[topic].leader_epochs[partition] = leader_epoch
        if directory != _UNASSIGNED:
            self.topics[topic].directories[partition] = directory

    def format(self, timestamp: int) -> bytes:
        """Return the content of a `bootstrap.checkpoint`. All its records get `timestamp`, in ms.

        Raises:
            UnsupportedFormatError: the metadata have topics, but were formatted for a release before 3.7, which loads
                no partitions from this file.
        """
        if self.topics and self._metadata_version < LEAST_METADATA_VERSION:
            raise UnsupportedFormatError(
                f"the directory was formatted with metadata.version {self._metadata_version}; to make topics in it, at "
                f"least {LEAST_METADATA_VERSION} (Kafka 3.7) is needed"
            )
        return _native.kraft_snapshot(list(self._records()), timestamp)

    def keep_producer_id(self, producer_id: int) -> bool:
        """Reserve a producer id, so that the cluster never assigns it. Return whether that changed anything.

        If a new producer got an id that a log already has, a broker would mistake its batches for duplicates
        (`ProducerStateEntry.findDuplicateBatch`). The broker would acknowledge the batches, but not store them.
        """
        if producer_id < self.next_producer_id:
            return False
        self.next_producer_id = next_block(producer_id)
        return True

    @property
    def brokers(self) -> dict[str, dict[str, str]]:
        """The dynamic settings of brokers, by id; the settings of "" apply to all brokers."""
        from brokerless.metadata.image import MetadataImage  # noqa: PLC0415 - Arrow is slow to import
        from brokerless.metadata.log import replay_records  # noqa: PLC0415 - Arrow is slow to import

        image = MetadataImage()
        replay_records(self._others, image)
        return image.broker_configs

    @property
    def _metadata_version(self) -> int:
        for name, fields, _ in _known(self._others):
            if name == "FeatureLevelRecord" and fields["name"] == _FEATURE_NAMES[0]:
                return int(fields["featureLevel"])
        return 0

    def _records(self) -> Iterable[bytes]:
        yield from self._others
        if self.next_producer_id:
            yield producer_ids_record(self.node_id, self.next_producer_id)
        for name, topic in self.topics.items():
            yield topic_record(name, topic.topic_id)
            for config, value in topic.configs.items():
                yield config_record(TOPIC_RESOURCE, name, config, value)
            for partition, leader_epoch in topic.leader_epochs.items():
                place = topic.directories.get(partition, _UNASSIGNED)
                yield partition_record(partition, topic.topic_id, [self.node_id], leader_epoch, [place])


def without_records(snapshot: bytes) -> bytes:
    """Return only the control batches of a KRaft snapshot: header, footer and voters.

    `StorageTool format --standalone` up to 4.3 writes such a snapshot beside `bootstrap.checkpoint`. From 4.4 on, it
    writes no `bootstrap.checkpoint`, and puts its records into this snapshot (KIP-1170).

    Returns:
        The content of the new snapshot; b"" if the snapshot names no voters.

    Raises:
        CorruptRecordError: the content is damaged or not a snapshot.
    """
    snapshot_records(snapshot)
    kept, end_offset = bytearray(), 0
    batches, _ = _native.scan(snapshot)
    for batch in batches.to_pylist():
        if batch["is_control"]:
            # No checksum covers the base offset, so it can be changed.
            start = batch["position"] + struct.calcsize(">q")
            kept += struct.pack(">q", end_offset) + snapshot[start : batch["position"] + batch["size"]]
            end_offset += batch["records_count"]
    # A header and a footer alone hold no information.
    return bytes(kept) if end_offset > 2 else b""


def snapshot_records(content: bytes) -> list[bytes]:
    """Return the metadata records in a KRaft snapshot.

    Raises:
        CorruptRecordError: the content is damaged or not a snapshot.
    """
    decoder = _native.Decoder(["value"])
    values: list[bytes | None] = []
    position = 0
    while position < len(content):
        rows, consumed = decoder.decode(memoryview(content)[position:], position)
        if not consumed:
            raise CorruptRecordError("metadata snapshot is cut: no whole batch", position=position)
        values += rows["value"].to_pylist() if rows is not None else []
        position += consumed
    return [value or b"" for value in values]


def check_bootstrap(content: bytes) -> None:
    """Check that a controller can read a `bootstrap.checkpoint`, as it does at each start (BootstrapDirectory).

    Raises:
        CorruptRecordError: the content is damaged, or has no metadata.version.
    """
    features = [fields for name, fields, _ in _known(snapshot_records(content)) if name == "FeatureLevelRecord"]
    if not any(fields["name"] == _FEATURE_NAMES[0] for fields in features):
        raise CorruptRecordError(f"no FeatureLevelRecord of {_FEATURE_NAMES[0]} is in it")


def _known(records: list[bytes]) -> Iterator[tuple[str | None, dict[str, Any], bytes]]:
    """Yield the name, the fields and the bytes of records. Records of unknown types have no name.

    Raises:
        CorruptRecordError: a record is malformed.
    """
    for one in chain.from_iterable(map(metadata_records, rows_of(records))):
        if one.unknown is not None and (one.version is None or one.name is not None):
            raise CorruptRecordError(f"metadata record {one.name or one.content[:20].hex()}: {one.unknown}")
        yield one.name, one.fields, one.content


def _is_of(config: dict[str, Any], topics: Container[str]) -> bool:
    return config["resourceType"] == TOPIC_RESOURCE and config["resourceName"] in topics


def feature_records(release: Release) -> list[bytes]:
    """Return the records of the features of a release, at their newest stable levels."""
    levels = zip(_FEATURE_NAMES, _feature_levels(release), strict=True)
    return [
        metadata_record("FeatureLevelRecord", name=name, featureLevel=level)
        for name, level in levels
        if level is not None
    ]


def feature_level(release: Release, name: str) -> int:
    """Return the newest stable level of a feature in a release; 0 if the release does not have the feature."""
    return dict(zip(_FEATURE_NAMES, _feature_levels(release), strict=True))[name] or 0


def next_block(producer_id: int) -> int:
    """Return the first producer id after the block that contains a producer id."""
    return (producer_id // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK


def _feature_levels(release: Release) -> tuple[int | None, ...]:
    """Return the feature levels of the newest known release up to this one."""
    known = [candidate for candidate in _FEATURE_LEVELS if candidate <= release]
    if not known:
        oldest = min(_FEATURE_LEVELS)
        raise ValueError(f"cannot make a log directory for Kafka {release}: the oldest release is {oldest}")
    return _FEATURE_LEVELS[max(known)]


def bootstrap_file(path: str, journal: Journal | None) -> str:
    """Return the file of the metadata that a new cluster starts with, which depends on the release that formatted it.

    Args:
        path: the log directory.
        journal: the journal of a commit; None without one. If the commit includes a `bootstrap.checkpoint`, that file
            is returned, because partitions that it names may be in place already.

    Raises:
        CorruptRecordError: a file is damaged.
    """
    if journal is not None and checkpoints.BOOTSTRAP in journal.files:
        return f"{journal.path}/{checkpoints.BOOTSTRAP}"
    formatted = formatted_snapshot(path)
    # Once the cluster has started, nothing reads this file any more.
    if storage.exists(formatted) and not was_started(path):
        with located(formatted):
            if snapshot_records(storage.read_all(formatted)):
                return formatted
    return f"{path}/{checkpoints.BOOTSTRAP}"


def bootstrap(path: str, node_id: int | None, *, file: str | None = None) -> Bootstrap | None:
    """Return the metadata that a new cluster starts with; None if the cluster has started, or there are no metadata.

    Args:
        path: the log directory.
        node_id: the broker's `node.id`.
        file: the file of the metadata; None: the file that `bootstrap_file` returns.

    Raises:
        CorruptRecordError: the file is damaged.
        UnsupportedFormatError: a partition has replicas on other nodes.
    """
    if node_id is None or was_started(path):
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
    # Without topics, the directory may also be the second disk of a broker that ran and was killed.
    is_new = bool(found.topics) or not (has_topic_ids(path) or storage.exists(f"{path}/{checkpoints.RECOVERY_POINTS}"))
    return found if is_new else None
