"""`format("brokerless")` with the jar, whose tasks run in Spark's JVM, against the same source in Python workers.

Two sessions, each `local[2]` in a process of its own with Spark's default heap, work in alternation on the same topics.
CPU time is that of all processes of a session. Memory is the greatest sum of what they have resident.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from connector import PARTITIONS, TOPICS, cheap_rows, cpu_seconds, log_dir, look_at_all, seconds
from rivals import DATA
from spark_source import session

import brokerless.spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from connector import Topic
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
# Seconds of a query in each session before anything counts: the JVM compiles what the query uses for as long.
WARM_UP = 15
MEMORY_BAR = 0.6
# What is measured of each topic, and the least ratio of the Python source's time to the jar's. "wall" or "cpu" says
# which time has the bar.
BARS: dict[str, dict[str, tuple[str, float]]] = {
    "none-100": {
        "aggregate": ("cpu", 2.7),
        "noop": ("cpu", 3),
        "parquet": ("cpu", 1.2),
        "write": ("cpu", 2),
        "count": ("cpu", 8),
        "offsets": ("cpu", 5),
        "times": ("cpu", 5),
        "tiny": ("wall", 3),
    },
    "zstd-100": {"aggregate": ("cpu", 2.2), "noop": ("cpu", 2.4), "write": ("cpu", 1.3)},
    "none-1000": {"aggregate": ("cpu", 2), "noop": ("cpu", 2.8)},
    "zstd-1000": {"aggregate": ("cpu", 1.6), "noop": ("cpu", 1.6)},
}


class Session:
    """A session in a process of its own."""

    def __init__(self, kind: str) -> None:
        command = [sys.executable, __file__, kind]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        # Bytes: of all processes at once, and of PySpark's own and the JVM of these.
        self.most_resident, self.of_spark = 0, 0
        self._is_measured = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            if self._is_measured:
                try:
                    here = psutil.Process(self._process.pid)
                    processes = (here, *here.children(recursive=True))
                    resident = {process: process.memory_full_info().pss for process in processes}
                    if sum(resident.values()) > self.most_resident:
                        self.most_resident = sum(resident.values())
                        jvm = sum(of_it for process, of_it in resident.items() if process.name() == "java")
                        self.of_spark = resident[here] + jvm
                except psutil.Error:
                    pass
            time.sleep(0.1)

    def run(self, topic: Topic, query: str) -> dict[str, float]:
        """Return the seconds, by "wall" and "cpu"."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([topic.name, query]), file=self._process.stdin, flush=True)
        taken: dict[str, float] = json.loads(self._process.stdout.readline())
        return taken

    def warm_up(self, topic: Topic, query: str) -> None:
        """Run a query until it no longer becomes faster, and watch the memory of the plainest ones."""
        left = float(WARM_UP)
        self._is_measured = query in ("aggregate", "noop")
        while left > 0:
            left -= self.run(topic, query)["wall"]
        self._is_measured = False

    def stop(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> bool:
    """Measure each query of each topic, in alternation."""
    log_dir()
    sessions = {"jar": Session("jar"), "python": Session("python")}
    good = []
    for topic in TOPICS:
        for query, (bar_of, bar) in BARS[topic.name].items():
            for one in sessions.values():
                one.warm_up(topic, query)
            taken: dict[str, list[dict[str, float]]] = {kind: [] for kind in sessions}
            for _ in range(ROUNDS):
                for kind, one in sessions.items():
                    taken[kind].append(one.run(topic, query))
            medians = {
                kind: {of: statistics.median(one[of] for one in runs) for of in ("wall", "cpu")}
                for kind, runs in taken.items()
            }
            ratios = {of: medians["python"][of] / medians["jar"][of] for of in ("wall", "cpu")}
            allowed = ""
            if query == "tiny":
                alone = statistics.median(sessions["jar"].run(topic, "nothing")["wall"] for _ in range(ROUNDS))
                allowed = f"; PySpark alone: {medians['python']['wall'] / alone:.1f}x"
            good.append(ratios[bar_of] >= bar)
            print(
                f"jvm: {topic.name:9} {query:9} {medians['jar']['wall']:5.2f} s, CPU {medians['jar']['cpu']:5.2f} s; "
                f"{ratios['wall']:4.1f}x the Python source, CPU {ratios['cpu']:4.1f}x (bar {bar_of} {bar}x{allowed})"
                f"{'' if good[-1] else '   BELOW'}",
                flush=True,
            )
    jar, python = sessions["jar"], sessions["python"]
    share, of_spark = jar.most_resident / python.most_resident, jar.of_spark / python.most_resident
    good.append(share <= MEMORY_BAR)
    print(
        f"jvm: {jar.most_resident >> 20} MiB resident at most, {share:.2f} of the Python source's "
        f"(bar {MEMORY_BAR}; PySpark and its JVM alone: {of_spark:.2f}){'' if good[-1] else '   BELOW'}"
    )
    for one in sessions.values():
        one.stop()
    return all(good)


def _queries(spark: SparkSession, topic: Topic, scratch: Path) -> dict[str, Callable[[], Any]]:
    per_partition = topic.records // PARTITIONS
    middle = per_partition // 2

    def rows(**options: str) -> DataFrame:
        return spark.read.format("brokerless").options(subscribe=topic.name, **options).load(str(log_dir()))

    def write() -> None:
        writer = cheap_rows(spark, topic).write.format("brokerless").mode("overwrite").option("topic", "to")
        writer.option("partitions", PARTITIONS).option("compression", topic.codec).save(str(scratch / "written"))

    def times() -> None:
        starts = {topic.name: dict.fromkeys(map(str, range(PARTITIONS)), per_partition - 1)}
        last = rows(startingOffsets=json.dumps(starts))
        time_of_last = last.selectExpr("min(unix_millis(timestamp))").first()[0]
        rows().where(f"timestamp >= timestamp_millis({time_of_last})").selectExpr("count(value)").first()

    def tiny() -> None:
        one = {topic.name: {"0": middle}}
        end = {topic.name: {"0": middle + 10}}
        some = spark.read.format("brokerless").option("assign", json.dumps({topic.name: [0]}))
        some = some.option("startingOffsets", json.dumps(one)).option("endingOffsets", json.dumps(end))
        assert len(some.load(str(log_dir())).collect()) == 10

    return {
        "aggregate": lambda: look_at_all(rows(), topic.records),
        "noop": lambda: rows().write.format("noop").mode("overwrite").save(),
        "parquet": lambda: rows().write.mode("overwrite").parquet(str(scratch / "parquet")),
        "write": write,
        "count": lambda: rows().count(),
        "offsets": lambda: (
            rows().where(f"offset >= {middle} and offset < {middle + 500}").selectExpr("sum(length(value))").first()
        ),
        "times": times,
        "tiny": tiny,
        "nothing": lambda: spark.range(10).collect(),
    }


def _serve(kind: str) -> None:
    """Run queries as they are asked for on standard input."""
    spark = session(jars=[brokerless.spark.jar()] if kind == "jar" else [], memory="1g")
    topics = {topic.name: topic for topic in TOPICS}
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        for line in sys.stdin:
            name, query = json.loads(line)
            do = _queries(spark, topics[name], Path(scratch))[query]
            before = cpu_seconds()
            wall = seconds(do)
            print(json.dumps({"wall": wall, "cpu": cpu_seconds() - before}), flush=True)
            for made in Path(scratch).iterdir():
                shutil.rmtree(made)
    spark.stop()


if __name__ == "__main__":
    _serve(sys.argv[1])
