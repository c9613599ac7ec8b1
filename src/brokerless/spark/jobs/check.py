"""Checking logs: all that is wrong with them, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.spark.jobs.reading import read

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession


def check(spark: SparkSession, *paths: str | os.PathLike[str], topics: Collection[str] = ()) -> DataFrame:
    """Check every batch and record of logs: checksums, framing, structure, offsets. Nothing is changed.

    The same as view `findings` of the source. Tasks read whole segments; only what is wrong crosses to Spark.

    Args:
        spark: a session.
        paths: as `LogDirs` takes them, at least one; every replica that they hold is checked.
        topics: only these; none: all but Kafka's internal ones.

    Returns:
        A row for each place where something is wrong: `topic`, `partition`, `kind`, `path`, `position` (of the
        bad bytes), `base_offset` (what stands there for one), `next_position` (where reading goes on; null: not in this
        file), `start_offset` and `end_offset` (what lies between may be lost; null: from there on), `reason`. Of kind
        "damage"; "tail": at the end of a log, what a broker cuts off when it starts after an unclean shutdown; "order":
        batches whose offsets go back, or leave the range of their segment, as few as possible; or "unsupported": legal
        Kafka that is not read here.
    """
    return read(spark, paths, topics, view="findings")
