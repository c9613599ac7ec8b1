"""A view of logs as a DataFrame, for the read-only jobs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from brokerless.arguments import check_several
from brokerless.io import storage

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    Path = str | os.PathLike[str]


def read(spark: SparkSession, paths: Collection[Path], topics: Collection[str], **options: str) -> DataFrame:
    """Return a view of logs as a DataFrame; `options` are those of the source."""
    given = _options(paths, topics)
    return spark.read.format("brokerless").options(**given, **options).load()


def _options(paths: Collection[Path], topics: Collection[str]) -> dict[str, str]:
    check_several("topics", topics)
    # Spark plans in a process that may have another working directory.
    options = {"path": json.dumps([storage.absolute(os.fspath(path)) for path in paths])}
    return options | ({"subscribe": ",".join(topics)} if topics else {})
