"""The options of `df.write.format("brokerless")`: those of Spark's Kafka sink, and our own of a topic at rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.parts import Encoding
from brokerless.spark.option_values import boolean, canonical, choice, local, positive

if TYPE_CHECKING:
    from collections.abc import Mapping

# Those that the source does not know: with one of them, options are a sink's.
OF_SINKS = (
    "topic",
    "compression",
    "partitions",
    "topicId",
    "batchSize",
    "segmentBytes",
    "idempotent",
    "transactional",
    "keepOffsets",
    "soleReplica",
)
# Of Spark's Kafka sink; headers are written where there is a column of them.
_IGNORED = ("includeHeaders",)
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """What the options say, checked as far as that goes without looking at the disk."""

    path: str
    topic: str
    partitions: int | None
    topic_id: str | None
    segment_bytes: int | None
    sole_replica: bool
    encoding: Encoding

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check `options` and take them apart.

        Raises:
            ValueError: an unknown option (with the nearest name), a value that its option does not have, or options
                that do not go together.
        """
        given = canonical(options, ("path", *OF_SINKS), _IGNORED)
        for name, what in (("path", "a Kafka log directory, made if there is none"), ("topic", "where rows go")):
            if not given.get(name):
                raise ValueError(f"option {name} is missing: {what}")
        encoding = Encoding(
            compression=choice(given, "compression", _CODECS),
            batch_size=positive(given, "batchSize") or 16384,
            idempotent=boolean(given, "idempotent", default=False),
            transactional=boolean(given, "transactional", default=False),
            keep_offsets=boolean(given, "keepOffsets", default=False),
        )
        return cls(
            path=local(given["path"]),
            topic=given["topic"],
            partitions=positive(given, "partitions"),
            topic_id=given.get("topicId"),
            segment_bytes=positive(given, "segmentBytes"),
            sole_replica=boolean(given, "soleReplica", default=False),
            encoding=encoding,
        )


def is_of_sink(options: Mapping[str, str]) -> bool:
    """Tell whether options are those of a write: Spark makes the source before it says what for."""
    return not {name.lower() for name in OF_SINKS}.isdisjoint(option.lower() for option in options)
