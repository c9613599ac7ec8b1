"""`Bootstrap`: the metadata that a new KRaft cluster starts with, as `bootstrap.checkpoint` holds it.

Formatting a directory writes the cluster's features there. The first controller takes them over when it finds its
metadata log empty, and never looks again. It takes over topics in the same way: so a directory that names its topics
there comes up with all of them, and without that a broker renames them `-stray`.

A record is: varint frame version 1, varint message id, varint message version, then Kafka's generated message in its
flexible form: strings and arrays with an unsigned varint of length + 1, a count of tagged fields at the end. The
messages are those in `metadata/src/main/resources/common/metadata` of Kafka's source: FeatureLevelRecord 12,
TopicRecord 2, PartitionRecord 3 (version 1: with directories, KIP-858), ConfigRecord 4; of a running cluster's log also
RemoveTopicRecord 9. Others are kept as they are.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FRAME = 1
_TOPIC, _PARTITION, _CONFIG, _REMOVED_TOPIC, _FEATURE = (2, 0), (3, 1), (4, 0), (9, 0), (12, 0)
# What `StorageTool format` of 4.1.0 writes: the newest levels that are not marked unstable.
_FEATURES = {
    "metadata.version": 27,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}
_TOPIC_RESOURCE = 2
# DirectoryId.UNASSIGNED: the broker that holds the partition says later in which of its directories it is.
_UNASSIGNED = bytes(15) + b"\1"


class ConfigEntry(NamedTuple):
    """One setting of a topic, in Kafka's own words; no value: it was removed."""

    topic: str
    name: str
    value: str | None


@dataclass
class Topic:
    """A topic: its id (22 characters of URL-safe base64), settings that differ from the defaults, leader epochs."""

    topic_id: str
    configs: dict[str, str] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)


class Bootstrap:
    """What a new cluster of one node starts with.

    Attributes:
        node_id: the only replica and leader of all partitions.
        topics: by name; `leader_epochs` has each partition. Change them and `format` again.

    >>> bootstrap = Bootstrap(node_id=1)
    >>> bootstrap.topics["orders"] = Topic("AAECAwQFBgcICQoLDA0ODw", {"retention.ms": "-1"}, {0: 5, 1: 0})
    >>> Bootstrap.parse(bootstrap.format(timestamp=0), node_id=1).topics == bootstrap.topics
    True
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.topics: dict[str, Topic] = {}
        self._others = [_feature(name, level) for name, level in _FEATURES.items()]

    @classmethod
    def parse(cls, content: bytes, node_id: int) -> Bootstrap:
        """Read a `bootstrap.checkpoint`.

        Raises:
            CorruptRecordError: it is none, or is damaged.
            UnsupportedFormatError: it gives a partition other replicas than this node.
        """
        bootstrap = cls(node_id)
        bootstrap._others = []
        names: dict[str, str] = {}
        for record in snapshot_records(content):
            reader = _Reader(record)
            kind = reader.kind()
            if kind == _TOPIC:
                name, topic_id = reader.string(), reader.uuid()
                bootstrap.topics[name] = Topic(topic_id)
                names[topic_id] = name
            elif kind == _PARTITION:
                partition, topic_id, leader_epoch = reader.partition()
                if topic_id not in names or record != bootstrap._partition(partition, topic_id, leader_epoch):
                    raise UnsupportedFormatError(
                        f"partition {partition} of topic id {topic_id} has other replicas than node {node_id}"
                    )
                bootstrap.topics[names[topic_id]].leader_epochs[partition] = leader_epoch
            elif kind == _CONFIG and (config := reader.topic_config()).topic in bootstrap.topics:
                if config.value is not None:
                    bootstrap.topics[config.topic].configs[config.name] = config.value
            else:
                bootstrap._others.append(record)
        return bootstrap

    def format(self, timestamp: int) -> bytes:
        """Write a `bootstrap.checkpoint`; `timestamp` is ms, of all its records."""
        return _native.kraft_snapshot(list(self._records()), timestamp)

    def _records(self) -> Iterable[bytes]:
        yield from self._others
        for name, topic in self.topics.items():
            yield _record(_TOPIC, _string(name) + _uuid(topic.topic_id))
            for config, value in topic.configs.items():
                yield _record(_CONFIG, bytes([_TOPIC_RESOURCE]) + _string(name) + _string(config) + _string(value))
            for partition, leader_epoch in topic.leader_epochs.items():
                yield self._partition(partition, topic.topic_id, leader_epoch)

    def _partition(self, partition: int, topic_id: str, leader_epoch: int) -> bytes:
        replicas = _array([struct.pack(">i", self.node_id)])
        none = _array([])
        return _record(
            _PARTITION,
            struct.pack(">i", partition)
            + _uuid(topic_id)
            + replicas  # replicas
            + replicas  # in sync
            + none  # being removed
            + none  # being added
            + struct.pack(">iii", self.node_id, leader_epoch, 0)  # leader, its epoch, the partition's epoch
            + _array([_UNASSIGNED]),
        )


def topic_configs(records: Iterable[bytes]) -> dict[str, dict[str, str]]:
    """Return the settings of each topic that metadata records, in the order of the log, leave; {} for Kafka's defaults.

    Raises:
        CorruptRecordError: a record is cut.
        UnsupportedFormatError: a record of a later frame version.
    """
    configs: dict[str, dict[str, str | None]] = {}
    names: dict[str, str] = {}
    for record in records:
        reader = _Reader(record)
        kind = reader.kind()
        if kind == _TOPIC:
            name, topic_id = reader.string(), reader.uuid()
            names[topic_id] = name
            configs.setdefault(name, {})
        elif kind == _REMOVED_TOPIC:
            # Its settings go with it (ConfigurationsDelta): another topic of the name begins without.
            configs.pop(names.pop(reader.uuid(), ""), None)
        elif kind == _CONFIG and (config := reader.topic_config()).topic:
            configs.setdefault(config.topic, {})[config.name] = config.value
    return {
        topic: {name: value for name, value in found.items() if value is not None} for topic, found in configs.items()
    }


def snapshot_records(content: bytes) -> list[bytes]:
    """Return the metadata records in a KRaft snapshot.

    Raises:
        CorruptRecordError: it is none, or is damaged.
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


class _Reader:
    """A record, read from its start."""

    def __init__(self, record: bytes) -> None:
        self._left = record

    def kind(self) -> tuple[int, int]:
        frame, message, version = self.varint(), self.varint(), self.varint()
        if frame != _FRAME:
            raise UnsupportedFormatError(f"metadata record of frame version {frame}, known {_FRAME}")
        return message, version

    def partition(self) -> tuple[int, str, int]:
        """Read a PartitionRecord as far as its leader epoch: partition, topic id, leader epoch."""
        partition, topic_id = self.integer(), self.uuid()
        for _ in range(4):
            self.take(4 * (self.varint() - 1))
        self.integer()
        return partition, topic_id, self.integer()

    def topic_config(self) -> ConfigEntry:
        resource, topic, name, value = self.take(1)[0], self.string(), self.string(), self.nullable_string()
        return ConfigEntry(topic if resource == _TOPIC_RESOURCE else "", name, value)

    def string(self) -> str:
        """Read a string; null is read as the empty one."""
        return self.nullable_string() or ""

    def nullable_string(self) -> str | None:
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode(errors="replace")

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def integer(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptRecordError("metadata record is malformed: a varint of more than 5 bytes")

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._left):
            raise CorruptRecordError(f"metadata record is cut: {length} bytes wanted, {len(self._left)} left")
        taken, self._left = self._left[:length], self._left[length:]
        return taken


def _record(kind: tuple[int, int], message: bytes) -> bytes:
    return _varint(_FRAME) + _varint(kind[0]) + _varint(kind[1]) + message + _varint(0)


def _feature(name: str, level: int) -> bytes:
    return _record(_FEATURE, _string(name) + struct.pack(">h", level))


def _string(text: str) -> bytes:
    content = text.encode()
    return _varint(len(content) + 1) + content


def _array(items: list[bytes]) -> bytes:
    return _varint(len(items) + 1) + b"".join(items)


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
