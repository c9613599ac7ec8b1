"""What Spark's jobs do a second on each of two cores: the rates that docs/guides/scale.md reckons with."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from connector import TOPICS, log_dir, look_at_all, seconds
from rivals import DATA
from spark_source import session

import brokerless as bl
import brokerless.spark
from brokerless.spark import check, export, profile, restore, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from connector import Topic
    from pyspark.sql import SparkSession

ROUNDS = 3
CORES = 2


def jobs(spark: SparkSession, path: Path, scratch: Path, topic: Topic) -> dict[str, tuple[Callable[[], object], ...]]:
    """Return what is measured, and what makes room for it."""
    source, topics = str(path), [topic.name]
    copy, exported, restored = (scratch / name for name in ("copy", "exported", "restored"))

    def fresh(*paths: Path) -> None:
        for directory in paths:
            shutil.rmtree(directory, ignore_errors=True)

    def copied() -> None:
        fresh(copy)
        others = [f"{other.name}-*" for other in TOPICS if other != topic]
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns(*others))

    def read() -> None:
        rows = spark.read.format("brokerless").option("path", source).option("subscribe", topic.name)
        look_at_all(rows.load(), topic.records)

    other = "lz4" if topic.codec == "zstd" else "zstd"
    return {
        "check": (lambda: check(spark, source, topics=topics).count(),),
        "check deep": (lambda: check(spark, source, topics=topics, level="deep").count(),),
        "profile": (lambda: profile(spark, source, topics=topics).count(),),
        "read, aggregated": (read,),
        "export to Parquet": (
            lambda: export(spark, source, str(exported), topics=topics),
            lambda: fresh(exported),
        ),
        "restore": (
            lambda: restore(spark, str(exported), str(restored), compression=topic.codec),
            lambda: fresh(restored),
        ),
        f"convert to {other}": (
            lambda: rewrite(spark, bl.Conversion(compression=other), str(copy), topics=topics),
            copied,
        ),
        "compact": (
            lambda: rewrite(spark, bl.Compaction(roll=True, cleanup_policy="compact"), str(copy), topics=topics),
            copied,
        ),
    }


def main() -> bool:
    """Print a line for each job, with records of 100 bytes in batches of 16 KB."""
    path, spark = log_dir(), session(jars=[brokerless.spark.jar()])
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        for topic in TOPICS[:2]:
            size = sum(file.stat().st_size for file in path.glob(f"{topic.name}-*/*.log"))
            for name, (do, *before) in jobs(spark, path, Path(scratch), topic).items():
                taken = []
                for _ in range(ROUNDS):
                    for make_room in before:
                        make_room()
                    taken.append(seconds(do))
                least = statistics.median(taken) * CORES
                print(
                    f"jobs: {topic.codec:4} {name:18} {topic.records / least / 1e6:6.2f} M records/s and "
                    f"{size / least / 1e6:4.0f} MB/s stored, a core",
                    flush=True,
                )
    spark.stop()
    return True
