"""The `check` job: every fault of the logs, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.spark.jobs.reading import read

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession


def check(spark: SparkSession, *paths: str | os.PathLike[str], topics: Collection[str] = ()) -> DataFrame:
    """Check every batch and record of logs: checksums, framing, structure, offsets. Nothing is changed.

    The result is that of the source's view `findings`. Tasks read whole segments, and send only the findings to Spark.

    Args:
        spark: a session.
        paths: one or more paths, as for `LogDirs`; every replica in them is checked.
        topics: the topics to check; empty: all but Kafka's internal ones.

    Returns:
        One row per finding. The columns are:

        - `topic`, `partition`, `path`: the file
        - `kind`: "damage"; "tail", the end of a log that a broker cuts off when it starts after an unclean shutdown;
          "order", the fewest batches whose offsets go back or leave the range of their segment; or "unsupported", legal
          Kafka data that brokerless does not read
        - `position`: the first damaged byte
        - `base_offset`: the base offset stored there
        - `next_position`: where reading continues; null: nowhere in this file
        - `start_offset`, `end_offset`: the range of offsets that may be lost; a null end is open
        - `reason`: the fault, in words

        check(spark, "/kafka/data1", "/kafka/data2", topics=["orders"]).show(truncate=False)
    """
    return read(spark, paths, topics, view="findings")
