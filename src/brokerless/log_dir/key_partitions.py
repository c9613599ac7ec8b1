"""The partitions to which the default partitioner sends keys."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.arguments import listed_few
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.io import storage
from brokerless.layout import file_names
from brokerless.metadata.topic_settings import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.log.log import Log

# More keys than that are in most partitions.
_MOST_KEYS = 100


def likely_first(logs: Sequence[Log], keys: Sequence[bytes]) -> tuple[list[Log], list[str]]:
    """Return logs, those first to which the default partitioner sends one of these keys; and notes that say so.

    Another partitioner, or a topic that has got more partitions since, has these keys in other logs: none is left out.
    """
    if not keys or len(keys) > _MOST_KEYS:
        return list(logs), []
    counts = _partition_counts(logs)
    likely: dict[str, list[Log]] = {}
    for log in logs:
        if log.topic is None or log.partition is None or counts[log.topic] < 2:
            continue
        if log.partition in {_partition_of(key, counts[log.topic]) for key in keys}:
            likely.setdefault(log.topic, []).append(log)
    first = [log for of_topic in likely.values() for log in of_topic]
    what = "the key" if len(keys) == 1 else f"the {len(keys)} keys"
    notes = [
        f"{topic}: of {counts[topic]} partitions, the default partitioner sends {what} to "
        f"{listed_few([log.name for log in of_topic])}, searched first"
        for topic, of_topic in likely.items()
    ]
    return [*first, *(log for log in logs if log not in first)], notes


def _partition_of(key: bytes, count: int) -> int:
    """Return a key's partition (`BuiltInPartitioner.partitionForKey`)."""
    return (_native.murmur2(key) & 0x7FFFFFFF) % count


def _partition_counts(logs: Sequence[Log]) -> dict[str, int]:
    """Return the number of partitions of each topic, according to the log directories and their metadata."""
    topics = {log.topic for log in logs}
    counts = dict.fromkeys((topic for topic in topics if topic is not None), 0)
    for root in {log.root.path: log.root for log in logs}.values():
        for name in storage.list_directory(root.path) if root.is_there else ():
            with suppress(ValueError):
                parsed = file_names.parse_directory_name(name)
                if parsed.topic in counts and not parsed.leftover:
                    counts[parsed.topic] = max(counts[parsed.topic], parsed.partition + 1)
        # Metadata only tell the order of the search.
        with suppress(CorruptRecordError, UnsupportedFormatError, ValueError):
            if (image := Cluster.of(root.path, root.node_id).image) is not None:
                counts = {topic: max(count, len(image.partitions_of(topic))) for topic, count in counts.items()}
    return counts
