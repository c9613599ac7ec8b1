"""The `profile` job: counts and sizes of the records in logs. Tasks count, and Spark adds up the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.arguments import check_paths, check_several, unknown
from brokerless.inspection.profile import FACTS
from brokerless.spark.jobs.reading import read

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame, SparkSession

GROUPS = ("topic", "partition", "hour", "magic", "compression")
"""The columns that a profile can group by."""

_SETS = ("magics", "compressions")


def profile(
    spark: SparkSession,
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    by: Collection[str] = ("topic",),
) -> DataFrame:
    """Count the records and batches of logs, and their sizes. All records on disk are counted, even aborted ones.

    Args:
        spark: a session.
        paths: one or more paths, as for `LogDirs`. If a partition has several replicas, the job counts only the one
            that reads use.
        topics: the topics to count; None: all except Kafka's internal topics.
        by: the columns to group by: "topic", "partition", "hour", "magic", "compression". A record is counted in the
            hour of its timestamp, a batch in the hour of its largest timestamp. Without a timestamp the hour is null.
            The groups "magic" and "compression" are those of the record's batch.

    Returns:
        One row per group. The columns, after those of `by`, are:

        - `partitions`: the number of partitions with batches in the group
        - `batches`, `bytes` (of whole batches, as stored), `min_batch_bytes`, `max_batch_bytes`
        - `control_records`, which `records` does not include
        - `records`, `key_bytes`, `value_bytes`, `null_keys`, `tombstones` (null values), `headers`
        - `first_offset`, `last_offset`, `first_timestamp`, `last_timestamp`
        - `magics`, `compressions`
        - `skew`: the bytes of the largest partition divided by the average bytes of a partition

    Raises:
        ValueError: a group does not exist.
        TypeError: `topics` or `by` is a string.

    Example: `profile(spark, "/kafka/data1", by=["topic", "hour"]).show()`
    """
    check_paths("profile", paths)
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
