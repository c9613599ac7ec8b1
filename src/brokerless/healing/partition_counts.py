"""The number of partitions of one of Kafka's own topics, found without metadata.

A coordinator finds the partition of a group, a transactional id or a share group's state by a hash of its name, modulo
the number of partitions. With a wrong number, the coordinator would look in a wrong partition. So the number must fit
the names in each partition.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import BrokerlessError
from brokerless.layout.file_names import MOST_PARTITIONS
from brokerless.metadata.records import decoded_records
from brokerless.state.internal_topic import (
    OFFSETS_TOPIC,
    REMOTE_LOG_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    java_hash,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from brokerless.log.log import Log

# offsets.topic.num.partitions and the others are 50 by default.
_DEFAULT = 50
_INT, _LONG = (1 << 32) - 1, (1 << 64) - 1
# At most this many names are read, and from this many names on, the greatest number that fits is taken. By chance, it
# is wrong in 1 of 1,000 cases.
_ENOUGH, _ENOUGH_FOR_GREATEST = 1000, 10


class Count(NamedTuple):
    """The number of partitions of a topic.

    Attributes:
        partitions: the number of partitions.
        reason: the reason for that number; "" if the directories show it.
    """

    partitions: int
    reason: str


def likely_count(topic: str, logs: Mapping[int, Log], least: int) -> Count:
    """Return the likely number of partitions of a topic.

    Args:
        topic: the topic.
        logs: the best replica of each partition on the disks.
        least: the number of the highest partition on the disks + 1.
    """
    if topic not in _PLACES:
        return Count(least, "")
    is_remote = topic == REMOTE_LOG_METADATA_TOPIC
    # Brokers do not use that topic if their configuration has another number of partitions.
    more = ". Give brokers the same number in their configuration" if is_remote else ""
    highest = "from its highest partition on the disks"
    default, what = (least, highest) if is_remote else (max(_DEFAULT, least), "the default")
    hashes: list[tuple[int, int]] = []
    for partition, log in logs.items():
        if len(hashes) >= _ENOUGH:
            break
        hashes += [(found, partition) for found in _hashes(log, _PLACES[topic])]
    if not hashes:
        return Count(default, f"{what}{more}" if is_remote or default > least else "")
    # The number of partitions divides each difference between a hash and its partition. With many differences, it is
    # their greatest common divisor. Equal differences count once: the hashes of a share group's neighboring partitions
    # differ by 1, and so may their partitions in the topic.
    differences = {found - partition for found, partition in hashes}
    greatest = gcd(*differences)
    if len(differences) >= _ENOUGH_FOR_GREATEST and least <= greatest <= MOST_PARTITIONS:
        candidates = [greatest]
    else:
        candidates = [default, *range(max(least, 1), min(greatest, MOST_PARTITIONS) + 1)]
    for count in candidates:
        if greatest % count == 0:
            fits = "which fits the keys of its records"
            return Count(count, f"{what}, {fits}{more}" if count == default else f"{fits}{more}")
    why = "although no number fits the keys of its records, so its coordinators may not find their records"
    return Count(default, f"{why}{more}")


def _of_group(key: dict[str, Any], _: dict[str, Any]) -> int | None:
    # Keys of classic groups and committed offsets have `group`, those of newer groups have `groupId`.
    return _hash_of(key.get("group", key.get("groupId")))


def _of_transactional_id(key: dict[str, Any], _: dict[str, Any]) -> int | None:
    return _hash_of(key.get("transactionalId"))


def _of_share_partition(key: dict[str, Any], _: dict[str, Any]) -> int | None:
    # SharePartitionKey.asCoordinatorKey
    parts = [key.get(name) for name in ("groupId", "topicId", "partition")]
    return None if None in parts else _hash_of(":".join(map(str, parts)))


def _of_remote_partition(_: dict[str, Any], value: dict[str, Any]) -> int | None:
    # RemoteLogMetadataTopicPartitioner
    place = value.get("remoteLogSegmentId", value).get("topicIdPartition")
    if place is None:
        return None
    most, least = struct.unpack(">qq", base64.urlsafe_b64decode(f"{place['id']}=="))
    found = 1
    for number in (least ^ (least & _LONG) >> 32, most ^ (most & _LONG) >> 32, place["partition"]):
        found = found * 31 + (number & _INT) & _INT
    return _native.murmur2(struct.pack(">I", found)) & (_INT >> 1)


# By topic, the hash that Kafka takes modulo the number of partitions to find a record's partition.
_PLACES: dict[str, Callable[[dict[str, Any], dict[str, Any]], int | None]] = {
    OFFSETS_TOPIC: _of_group,
    TRANSACTIONS_TOPIC: _of_transactional_id,
    SHARE_STATE_TOPIC: _of_share_partition,
    REMOTE_LOG_METADATA_TOPIC: _of_remote_partition,
}


def _hash_of(text: object) -> int | None:
    return java_hash(text) if isinstance(text, str) else None


def _hashes(log: Log, place: Callable[[dict[str, Any], dict[str, Any]], int | None]) -> Iterator[int]:
    """Yield some distinct hashes of the records in a partition."""
    found: dict[int, None] = {}
    # Of these topics, only that of remote log metadata has records without keys.
    column = "value" if place is _of_remote_partition else "key"
    with contextlib.suppress(BrokerlessError, OSError):
        for rows in log.read(on_corrupt="skip", columns=[column]):
            contents = pc.unique(rows[column]).cast(pa.binary())
            nothing = pa.nulls(len(contents), pa.binary())
            columns = [nothing, contents] if column == "value" else [contents, nothing]
            for _, decoded in decoded_records(str(log.topic), pa.RecordBatch.from_arrays(columns, ["key", "value"])):
                for key, value, unknown in zip(
                    *(decoded[name].to_pylist() for name in ("key", "value", "unknown")), strict=True
                ):
                    hashed = None if unknown is not None else place(json.loads(key or "{}"), json.loads(value or "{}"))
                    if hashed is not None:
                        found[hashed] = None
            if len(found) >= _ENOUGH:
                break
    yield from found
