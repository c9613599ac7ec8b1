"""The `check` job: every finding of a check, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.arguments import check_paths, unknown
from brokerless.checking.codes import LEVELS
from brokerless.spark.jobs.reading import read

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from brokerless.checking.codes import Level


def check(
    spark: SparkSession,
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    level: Level = "default",
) -> DataFrame:
    """Check log directories with Spark tasks. The findings are those of `brokerless.check`. Nothing is changed.

    The result is the same as the source's view `findings`. One task checks each log, and one more task checks the other
    files of the log directories. Tasks send only findings to Spark.

    Args:
        spark: a session.
        paths: log directories of one broker or several, partition directories, or `.log` files. Every replica in them
            is checked.
        topics: only these topics, and no findings about directories; None: all topics, including Kafka's internal ones.
        level: "quick": check names, small files and batch headers; "default": also verify checksums, and compare
            indexes and snapshots with the batches; "deep": also decode every record.

    Returns:
        One row per finding, in no order. The columns are:

        - `code`: the kind of finding. The meaning of a code never changes: see `brokerless finding CODE`
        - `severity`: "error", "warning" or "note"
        - `topic`, `partition`, `path`: the place of the fault; topic and partition are null outside of partitions
        - `position`: the byte position in the file
        - `start_offset`, `end_offset`: the offsets that may be lost or wrong; a null end means no upper limit
        - `next_position`: the position where the log is sound again; null if the rest of the file is not sound
        - `message`: the defect, with stored and computed values
        - `broker`, `reader`, `cure`: the effect on a broker and on readers, and the remedy

    Raises:
        ValueError: the level is unknown.
        TypeError: `topics` is a string.

    Example: `check(spark, "/kafka/data1", "/kafka/data2", topics=["orders"]).show(truncate=False)`
    """
    check_paths("check", paths)
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    return read(spark, paths, topics, view="findings", level=level)


def in_order(found: DataFrame) -> DataFrame:
    """Return findings sorted by topic, partition, file and position; those without a topic come first.

    To sort, Spark computes its input twice, once for a sample. Findings are shuffled first, so that Spark reads the
    shuffled rows again and not the logs.
    """
    return found.repartition("path").orderBy("topic", "partition", "path", "position", "code", "message")
