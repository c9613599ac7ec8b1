"""A view of logs as a DataFrame, for the read-only jobs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from brokerless.arguments import some_or_all
from brokerless.io import storage
from brokerless.layout.file_names import is_glob
from brokerless.log_dir.log_dirs import LogDirs, topics_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame, SparkSession

    Path = str | os.PathLike[str]


def read(spark: SparkSession, paths: Collection[Path], topics: Iterable[str] | None, **options: str) -> DataFrame:
    """Return a view of logs as a DataFrame; `options` are the options of the source."""
    given = _options(paths, topics)
    return spark.read.format("brokerless").options(**given, **options).load()


def _options(paths: Collection[Path], topics: Iterable[str] | None) -> dict[str, str]:
    # Spark plans in a process that may have another working directory.
    options = {"path": json.dumps([storage.absolute(os.fspath(path)) for path in paths])}
    return options | subscription(topics, paths)


def subscription(topics: Iterable[str] | None, paths: Iterable[Path]) -> dict[str, str]:
    """Return the option of the source that selects topics by names or globs; None: all topics."""
    names = some_or_all("topics", topics) or []
    if any(map(is_glob, names)):
        names = topics_in(LogDirs(*paths), names)
    return {"subscribe": ",".join(names)} if names else {}
