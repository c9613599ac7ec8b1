"""The `report` job: the page of `brokerless.report`, computed by Spark tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from brokerless.arguments import check_paths, some_or_all
from brokerless.io import storage
from brokerless.reporting.report import ClusterReport, check_installed, check_samples
from brokerless.reporting.tables import compute
from brokerless.spark.jobs.spark_tasks import SparkTasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


def report(
    spark: SparkSession, *paths: str | os.PathLike[str], topics: Iterable[str] | None = None, samples: int = 0
) -> ClusterReport:
    """Read whole log directories with Spark tasks, and return a report of them as one page and as tables.

    The numbers are the same as from `brokerless.report`. Executors read the segments. The driver lists the directories
    and makes the page, which requires Jinja and Matplotlib: `pip install 'brokerless[report]'`.

    Args:
        spark: a session, not one of Spark Connect.
        paths: one or more paths, as for `LogDirs`.
        topics: only these topics; None: all.
        samples: as for `brokerless.report`.

    Raises:
        ValueError: `samples` is below 0 or above 20.
        ModuleNotFoundError: Jinja or Matplotlib is not installed.

    Example: `report(spark, "/kafka/data1", "/kafka/data2").save("report.html")`
    """
    check_paths("report", paths)
    names = some_or_all("topics", topics)
    check_installed()
    check_samples(samples)

    # Executors may have another working directory.
    absolute = tuple(storage.absolute(os.fspath(path)) for path in paths)
    return ClusterReport(compute(absolute, names, SparkTasks(spark), samples=samples))
