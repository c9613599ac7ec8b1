"""Profiling logs: what is in them, in numbers. Tasks count, Spark adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.arguments import check_several, unknown
from brokerless.inspection.profile import FACTS
from brokerless.spark.jobs.reading import read

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

GROUPS = ("topic", "partition", "hour", "magic", "compression")
"""What can be told apart."""

_SETS = ("magics", "compressions")


def profile(
    spark: SparkSession,
    *paths: str | os.PathLike[str],
    topics: Collection[str] = (),
    by: Collection[str] = ("topic",),
) -> DataFrame:
    """Count what logs hold. All that is on the disk counts, also aborted records.

    Args:
        spark: a session.
        paths: as `LogDirs` takes them, at least one. Of a replicated partition the replica counts that is read.
        topics: only these; none: all but Kafka's internal ones.
        by: what is told apart: "topic", "partition", "hour", "magic", "compression". A record counts in the hour of its
            timestamp, a batch in that of its largest one; null is for those without. Codec and magic are the batch's.

    Returns:
        A row for each group, with these columns behind those of `by`: `partitions` that have batches in it; `batches`,
        `bytes` (of whole batches, as stored), `min_batch_bytes`, `max_batch_bytes`; `control_records`, which are not
        among the `records`; `records`, `key_bytes`, `value_bytes`, `null_keys`, `tombstones` (null values), `headers`;
        `first_offset`, `last_offset`, `first_timestamp`, `last_timestamp`; `magics`, `compressions`; and `skew`: bytes
        of the largest of these partitions over those of the average one.

    Raises:
        ValueError: there is no such group.
        TypeError: a string in place of several topics or groups.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's usual name

    check_several("by", by)
    groups = list(dict.fromkeys(by))
    for name in groups:
        if name not in GROUPS:
            raise unknown("group", name, GROUPS)
    sums = read(spark, paths, topics, view="sums")
    add = {"sum": F.sum, "min": F.min, "max": F.max}
    facts = [add[how](name).alias(name) for name, how in FACTS.items()]
    of_partitions = sums.groupBy(*dict.fromkeys([*groups, "topic", "partition"])).agg(
        *facts, F.collect_set("magic").alias("magics"), F.collect_set("compression").alias("compressions")
    )
    return of_partitions.groupBy(*groups).agg(
        F.count(F.lit(1)).alias("partitions"),
        *facts,
        *(F.array_sort(F.array_distinct(F.flatten(F.collect_list(name)))).alias(name) for name in _SETS),
        F.try_divide(F.max("bytes"), F.avg("bytes")).alias("skew"),
    )
