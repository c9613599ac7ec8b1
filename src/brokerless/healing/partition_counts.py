"""How many partitions one of Kafka's own topics has, if no metadata tell.

A coordinator finds the partition of a group, or of a transactional id, by a hash of its name modulo the number of
partitions. With another number, it would look for the group's offsets in another partition. So the number has to fit
the names that each partition has.
"""

from __future__ import annotations

import contextlib
import json
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import BrokerlessError
from brokerless.layout.file_names import MOST_PARTITIONS
from brokerless.metadata.records import decoded_records
from brokerless.state.internal_topic import OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerless.log.log import Log

# offsets.topic.num.partitions and the others are 50 by default.
_DEFAULT = 50
_DEFAULTS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state")
# The field of a key that is hashed.
_HASHED = {OFFSETS_TOPIC: "group", TRANSACTIONS_TOPIC: "transactionalId"}
# So many names are read at most, and so many tell the number alone: by chance, it is another one in 1 of 1,000 cases.
_ENOUGH, _ENOUGH_FOR_GREATEST = 1000, 10


class Count(NamedTuple):
    """How many partitions a topic has.

    Attributes:
        partitions: their number.
        reason: why that many; "": the directories say so.
    """

    partitions: int
    reason: str


def likely_count(topic: str, logs: Mapping[int, Log], least: int) -> Count:
    """Return how many partitions a topic has.

    Args:
        topic: the topic.
        logs: the best replica of each partition on the disks.
        least: the number of the highest partition on the disks + 1.
    """
    if topic == REMOTE_LOG_METADATA_TOPIC:
        # Brokers do not start to use it if their configuration has another number.
        return Count(least, "as its highest directory says: brokers need the same in their configuration")
    if topic not in _DEFAULTS:
        return Count(least, "")
    default = max(_DEFAULT, least)
    hashes: list[tuple[int, int]] = []
    for partition, log in logs.items():
        if topic not in _HASHED or len(hashes) >= _ENOUGH:
            break
        hashes += [(java_hash(name), partition) for name in _names(log, _HASHED[topic])]
    if not hashes:
        return Count(default, "as by default" if default > least else "")
    # The number divides each difference of a hash and its partition. Of many, it is the greatest that does.
    greatest = gcd(*(found - partition for found, partition in hashes))
    if len(set(hashes)) >= _ENOUGH_FOR_GREATEST and least <= greatest <= MOST_PARTITIONS:
        candidates = [greatest]
    else:
        candidates = [default, *range(max(least, 1), min(greatest, MOST_PARTITIONS) + 1)]
    for count in candidates:
        if greatest % count == 0:
            return Count(count, "as by default, which fits its keys" if count == default else "which fits its keys")
    return Count(default, "although no number fits its keys: groups, or transactions, may start anew")


def java_hash(text: str) -> int:
    """Return the absolute value of a string's hash in Java, as Kafka's `Utils.abs` has it.

    >>> java_hash("orders"), java_hash("polygenelubricants")
    (1008770331, 0)
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (found * 31 + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    # The least int32 has no absolute value: Kafka takes 0.
    return found if found < 1 << 31 else (1 << 32) - found if found > 1 << 31 else 0


def _names(log: Log, field: str) -> Iterator[str]:
    """Yield some names of groups, or transactional ids, of a partition."""
    found: dict[str, None] = {}
    with contextlib.suppress(BrokerlessError, OSError):
        for rows in log.read(on_corrupt="skip", columns=["key"]):
            keys = pc.unique(rows["key"]).cast(pa.binary())
            nothing = pa.nulls(len(keys), pa.binary())
            named = pa.RecordBatch.from_arrays([keys, nothing], ["key", "value"])
            for _, decoded in decoded_records(str(log.topic), named):
                for key, unknown in zip(decoded["key"].to_pylist(), decoded["unknown"].to_pylist(), strict=True):
                    value = json.loads(key) if unknown is None and key is not None else {}
                    if isinstance(value, dict) and isinstance(value.get(field), str):
                        found[value[field]] = None
            if len(found) >= _ENOUGH:
                break
    yield from found
