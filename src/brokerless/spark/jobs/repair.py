"""The `repair` job: the log directories of a whole cluster repaired, each by one task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from brokerless.arguments import check_paths, some_or_all
from brokerless.healing.repair import repair as of_directory
from brokerless.io.remote import is_remote
from brokerless.spark.jobs.spark_tasks import SparkTasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from brokerless.healing.report import RepairReport


def repair(
    spark: SparkSession,
    *paths: str | os.PathLike[str],
    suffix: str = ".repaired",
    in_place: bool = False,
    topics: Iterable[str] | None = None,
    keep_suspect: bool = False,
    indexes_only: bool = False,
    dry_run: bool = False,
) -> list[RepairReport]:
    """Repair log directories with Spark tasks, one task per directory, as `brokerless.repair` does.

    Lost records of a directory are taken from the other directories, if these have the same history.

    Args:
        spark: a session, not one of Spark Connect.
        paths: the log directories of a cluster, which all executors see.
        suffix: the suffix of the result's name. The result for a directory is written beside it, under its name with
            this suffix.
        in_place: replace the damaged partitions with the results.
        topics: only these topics; None: all.
        keep_suspect: keep a batch with a wrong checksum, and give it a new one, if all its records can be decoded.
        indexes_only: leave logs with damaged batches unchanged.
        dry_run: change nothing, and return the planned repair.

    Returns:
        The repair of each directory, in the order of the paths.

    Raises:
        ValueError: no path is given, or the suffix is empty.

    Example: `repair(spark, "/kafka/data1", "/kafka/data2", dry_run=True)`
    """
    check_paths("repair", paths)
    names = some_or_all("topics", topics)
    if not paths or not suffix:
        raise ValueError("give at least one log directory, and a suffix")
    # Workers have another working directory.
    given = [os.fspath(path) for path in paths]
    given = [path if is_remote(path) else os.path.abspath(path) for path in given]
    beside = not (in_place or dry_run)

    def repaired(path: str) -> RepairReport:
        return of_directory(
            path,
            f"{path.rstrip('/')}{suffix}" if beside else None,
            in_place=in_place and not dry_run,
            sources=[other for other in given if other != path and not indexes_only],
            topics=names,
            keep_suspect=keep_suspect,
            indexes_only=indexes_only,
            dry_run=dry_run,
        )

    return list(SparkTasks(spark).map(repaired, given))
