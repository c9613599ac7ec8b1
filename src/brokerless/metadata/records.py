"""Records of Kafka's internal topics and of its metadata log, decoded and encoded by Kafka's message schemas."""

from __future__ import annotations

import json
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.wording import in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

RECORD_MEMORY = 250_000_000
"""The maximum memory of a decoded record, in bytes."""

# Arrow's offsets have 32 bits, and memory must be bounded.
_ROWS_BYTES = 16 << 20
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""The resource types of a ConfigRecord (`ConfigResource.Type`)."""


def decoded_records(
    topic: str, rows: pa.RecordBatch, *, memory: int = RECORD_MEMORY
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows in parts, each with the records that `_native.state_records` decodes from it.

    A part takes at most a quarter of the memory, unless it is a single record. A record that takes more than the whole
    memory is not decoded, and its `is_too_large` is true.
    """
    start = 0
    while start == 0 or start < rows.num_rows:
        left = rows.slice(start)
        decoded = _native.state_records(topic, left["key"], left["value"], memory)
        yield left.slice(0, decoded.num_rows), decoded
        start += decoded.num_rows
        if not decoded.num_rows:
            return


class MetadataRecord(NamedTuple):
    """A record of the metadata log, with the type, version, name and fields of its message, if they are known.

    `unknown` is the reason why the fields are missing. `content` is the bytes of the record.
    """

    kind: int | None
    version: int | None
    name: str | None
    fields: dict[str, Any]
    unknown: str | None
    content: bytes

    @property
    def is_malformed(self) -> bool:
        """True if no release can have written the record. Records of later releases have an unknown type or version."""
        if self.unknown is None:
            return False
        return self.version is None or (self.name is not None and not self.unknown.startswith("unknown version"))


def metadata_records(rows: pa.RecordBatch) -> Iterator[MetadataRecord]:
    """Yield the records of the metadata log in rows."""
    for part, decoded in decoded_records(METADATA_TOPIC, rows):
        columns = [decoded[name].to_pylist() for name in ("type", "version", "name", "value", "unknown")]
        columns[-1] = [
            f"it takes too much memory: decoded, about {in_bytes(memory or 0)}" if is_too_large else unknown
            for unknown, is_too_large, memory in zip(
                columns[-1], decoded["is_too_large"].to_pylist(), decoded["memory"].to_pylist(), strict=True
            )
        ]
        for kind, version, name, value, unknown, content in zip(*columns, part["value"].to_pylist(), strict=True):
            fields = {} if unknown is not None or name is None else json.loads(value)
            yield MetadataRecord(kind, version, name, fields, unknown, content or b"")


def rows_of(records: Iterable[bytes], *, most_bytes: int = _ROWS_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield rows with records of the metadata log, up to `most_bytes` at a time, but at least one record."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    waiting = iter(records)
    ahead = next(waiting, None)
    while ahead is not None:
        contents: list[bytes] = []
        size = 0
        while ahead is not None and (not contents or size + len(ahead) <= most_bytes):
            contents.append(ahead)
            size += len(ahead)
            ahead = next(waiting, None)
        # `pa.array` would import pandas, which takes longer than everything else.
        ends = array("i", accumulate(map(len, contents), initial=0))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(contents))]
        values = pa.Array.from_buffers(pa.binary(), len(contents), buffers)
        yield pa.RecordBatch.from_arrays([pa.nulls(len(values), pa.binary()), values], ["key", "value"])


def metadata_record(name: str, version: int = 0, /, **fields: Any) -> bytes:  # noqa: ANN401 - as the definition has them
    """Return a record of the metadata log.

    Args:
        name: the name of the message's definition.
        version: the version of the message.
        fields: the fields of the message. Only tagged fields may be left out.

    Raises:
        ValueError: the fields do not fit the definition.

    >>> metadata_record("TopicRecord", name="orders", topicId="AAECAwQFBgcICQoLDA0ODw").hex()
    '010200076f7264657273000102030405060708090a0b0c0d0e0f00'
    """
    return _native.metadata_record(name, version, json.dumps(fields).encode())


def topic_record(name: str, topic_id: str) -> bytes:
    """Return the record of a topic."""
    return metadata_record("TopicRecord", name=name, topicId=topic_id)


def partition_record(
    partition: int,
    topic_id: str,
    replicas: Sequence[int],
    leader_epoch: int,
    directories: Sequence[str],
    **fields: Any,  # noqa: ANN401 - as the definition has them
) -> bytes:
    """Return the record of a partition whose replicas are all in sync. The first replica leads.

    Args:
        partition: the partition's number.
        topic_id: the topic's id.
        replicas: the nodes.
        leader_epoch: the leader epoch.
        directories: the id of the log directory on each node (KIP-858).
        fields: values that replace the values of the record's fields.
    """
    nodes = list(replicas)
    known: dict[str, Any] = {"replicas": nodes, "isr": nodes, "removingReplicas": [], "addingReplicas": []}
    known |= {"leader": nodes[0], "leaderEpoch": leader_epoch, "partitionEpoch": 0, "directories": list(directories)}
    return metadata_record("PartitionRecord", 1, partitionId=partition, topicId=topic_id, **(known | fields))


def config_record(resource_type: int, resource: str, name: str, value: str | None) -> bytes:
    """Return the record of a setting of a topic or a broker ("" for all brokers). The value None removes it."""
    return metadata_record("ConfigRecord", resourceType=resource_type, resourceName=resource, name=name, value=value)


def producer_ids_record(node_id: int, next_producer_id: int) -> bytes:
    """Return the record which states that the producer ids below `next_producer_id` have been allocated to brokers."""
    return metadata_record("ProducerIdsRecord", brokerId=node_id, brokerEpoch=-1, nextProducerId=next_producer_id)
