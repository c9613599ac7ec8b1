"""Topics as lazy frames of polars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.arguments import check_paths
from brokerless.log.frames import library
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Unpack

    import polars as pl

    from brokerless.log.read_options import ReadOptions


def scan_polars(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    **options: Unpack[ReadOptions],
) -> pl.LazyFrame:
    """Return topics as a lazy frame of polars, which reads only the columns and the rows that a query needs.

    polars passes on which columns it needs, comparisons of numbers and of text, and `head`. It applies all else itself,
    as comparisons of bytes and of times. `filter`, offsets and times given here leave out more.

    Args:
        paths: log directories, partition directories or `.log` files.
        topics: the topics, by name or glob; None: all but Kafka's internal ones.
        partitions: the partition numbers; None: all.
        options: as of `LogDirs.read`.

    Raises:
        ModuleNotFoundError: polars is not installed.
        ValueError: a topic, a partition or a column does not exist.

    >>> import polars as pl
    >>> rows = scan_polars(SAMPLE_DIR, topics=["multi-partition"])
    >>> rows.filter(pl.col("partition") == 2, pl.col("offset") < 3).select("offset").collect().to_series().to_list()
    [0, 1, 2]
    """
    check_paths("scan_polars", paths)
    polars = library("polars", "scan_polars")
    frame: pl.LazyFrame = polars.scan_pyarrow_dataset(LogDirs(*paths).dataset(topics, partitions, **options))
    return frame
