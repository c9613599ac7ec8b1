"""`format("brokerless")` against Spark's own Kafka connector with a broker on this machine.

The same topics, the same PySpark, `local[2]`, in alternation; the connector at its defaults, and with larger fetches. A
query looks at every value of the columns that it reads, and collects nothing. The session has the jar. Reads are also
compared with the source in Python workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from rivals import DATA, HERE, classpath
from spark_source import COLUMNS, session
from storing_sink import Storing

import brokerless as bl
import brokerless.spark
from brokerless.spark.data_source import BrokerlessSource

sys.path.insert(0, str(HERE.parent / "tests" / "conformance"))
import kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    Options = Mapping[str, str | int]

ROUNDS = 5
# Before anything counts: the JVM compiles what both sources use for some 20 s of their work.
WARM_UP = 5
PARTITIONS = 4
JARS = kafka.BUILD / "connector" / "lib"
TUNED = {
    "kafka.max.poll.records": 50_000,
    "kafka.max.partition.fetch.bytes": 16 << 20,
    "kafka.fetch.max.bytes": 64 << 20,
}


class Topic(NamedTuple):
    """Records of the measured shapes; the bars of a read against the connector's defaults, tuned, and in Python."""

    records: int
    value_bytes: int
    codec: str
    bar: float
    tuned_bar: float
    python_bar: float

    @property
    def name(self) -> str:
        return f"{self.codec}-{self.value_bytes}"


TOPICS = (
    Topic(10_000_000, 100, "none", 10, 5, 2.7),
    Topic(10_000_000, 100, "zstd", 6, 4, 2),
    Topic(1_000_000, 1000, "none", 6, 4, 2),
    Topic(1_000_000, 1000, "zstd", 2.5, 1.6, 1.4),
)
WRITE_BAR, EXPORT_BAR, CORES_BAR = 3, 5, 1.8
TEXT_BYTES = 64 << 10


def log_dir() -> Path:
    """Return a log directory with all topics, written by us for a broker to serve."""
    path = DATA / "connector"
    if path.exists():
        return path
    partial = DATA / "connector.part"
    shutil.rmtree(partial, ignore_errors=True)
    with bl.create_log_dir(partial) as directory:
        for topic in TOPICS:
            directory.create_topic(topic.name, PARTITIONS)
            batches = DATA / "connector.batches"
            sizes = (topic.records // PARTITIONS, topic.value_bytes, 0, 16384, 0)
            command = ["java", "-cp", classpath(), "Bench", "write", str(batches), topic.codec, *map(str, sizes)]
            subprocess.run(command, check=True)
            for partition in range(PARTITIONS):
                _append(batches, directory.log(topic.name, partition))
            batches.unlink()
    partial.rename(path)
    return path


def _append(batches: Path, log: bl.LogWriter) -> None:
    block, left = memoryview(bytearray(8 << 20)), 0
    with batches.open("rb", buffering=0) as file:
        while length := file.readinto(block[left:]):
            taken = log.append_each(block[: left + length], origin="replication").consumed
            left += length - taken
            block[:left] = block[taken : taken + left]


def seconds(do: Callable[[], object]) -> float:
    # A broker leaves its files to the kernel, and who then asks for his own to be durable waits for these as well.
    os.sync()
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def look_at_all(rows: DataFrame, records: int) -> None:
    found, _ = rows.selectExpr("count(*)", "sum(length(value) + length(key) + offset)").first()
    assert found == records, f"{found} of {records} records"


def against(
    name: str,
    ours: Callable[[], object],
    theirs: Mapping[str, tuple[Callable[[], object], float]],
    limit: tuple[str, Callable[[], object]] | None = None,
) -> bool:
    """Time what is ours against each of theirs in turn; print a line for each, and return whether all bars are met.

    Args:
        name: what is measured.
        ours: does it.
        theirs: does it, with the bar.
        limit: what Spark alone does of it, by its name: how far ahead of theirs it is, ours can be at most.
    """
    runs = {"": ours, **{rival: do for rival, (do, _) in theirs.items()}, **({limit[0]: limit[1]} if limit else {})}
    times: dict[str, list[float]] = {one: [] for one in runs}
    for _ in range(ROUNDS + 1):
        for one, do in runs.items():
            times[one].append(seconds(do))

    def ratio(one: str, other: str) -> float:
        return statistics.median(k / b for k, b in zip(times[one][1:], times[other][1:], strict=True))

    good = True
    for rival, (_, bar) in theirs.items():
        ahead = ratio(rival, "")
        good &= ahead >= bar
        print(
            f"connector: {name:17} {statistics.median(times[''][1:]):5.2f} s, "
            f"{rival:16} {statistics.median(times[rival][1:]):5.2f} s: {ahead:4.1f}x (bar {bar}x"
            f"{f'; {limit[0]}: {ratio(rival, limit[0]):.1f}x' if limit else ''}){'' if ahead >= bar else '   BELOW'}",
            flush=True,
        )
    return good


class InPython(BrokerlessSource):
    """The source in Python workers, in a session that has the jar."""

    @classmethod
    def name(cls) -> str:
        return "brokerless_in_python"


def reading(spark: SparkSession, broker: kafka.Broker, path: Path, topic: Topic) -> bool:
    """Compare batch reads of a whole topic."""

    def query(source: str, options: Options) -> Callable[[], object]:
        reader = spark.read.format(source).options(subscribe=topic.name, **options)
        return lambda: look_at_all(reader.load(), topic.records)

    servers = {"kafka.bootstrap.servers": broker.at}
    # The broker checkpoints its high watermark now and then only.
    files = {"path": str(path), "endingOffsets": "latest"}
    spark.dataSource.register(InPython)
    ours = query("brokerless", files)
    rivals = {
        "connector": (query("kafka", servers), topic.bar),
        "connector, tuned": (query("kafka", servers | TUNED), topic.tuned_bar),
        "in Python": (query(InPython.name(), files), topic.python_bar),
    }
    for do in (ours, *(do for do, _ in rivals.values())) if topic is TOPICS[0] else ():
        for _ in range(WARM_UP):
            do()
    return against(f"read {topic.name}", ours, rivals)


def cheap_rows(spark: SparkSession, topic: Topic) -> DataFrame:
    """Return rows that cost next to nothing to make: values are cut from one text."""
    text = "".join(hashlib.sha256(b"%d" % i).hexdigest() for i in range((TEXT_BYTES + topic.value_bytes) // 64 + 1))
    position = f"cast(1 + pmod(id * 7919, {TEXT_BYTES}) as int)"
    return spark.range(0, topic.records, 1, PARTITIONS).selectExpr(
        "cast(cast(id as string) as binary) as key",
        f"substring(X'{text.encode().hex()}', {position}, {topic.value_bytes}) as value",
    )


def writing(spark: SparkSession, broker: kafka.Broker, client: kafka.Client, topic: Topic, scratch: Path) -> bool:
    """Compare batch writes of the same rows: each into a topic of its own, made anew each time."""
    rows = cheap_rows(spark, topic)
    numbers = iter(range(1 << 30))

    def theirs() -> None:
        to = f"to-{topic.name}-{next(numbers)}"
        client.create(broker, to, PARTITIONS)
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", broker.at).option("topic", to)
        writer.option("kafka.compression.type", topic.codec).save()

    def ours() -> None:
        writer = rows.write.format("brokerless").mode("overwrite").option("path", str(scratch)).option("topic", "to")
        writer.option("partitions", PARTITIONS).option("compression", topic.codec).save()

    # They stay until the end, as the broker's: memory that they leave would be what ours takes next.
    stored = scratch.with_name("stored")
    stored.mkdir()

    def storing() -> None:
        rows.write.format("storing").mode("append").option("path", str(stored)).save()

    spark.dataSource.register(Storing)
    good = against(f"write {topic.name}", ours, {"connector": (theirs, WRITE_BAR)}, ("bytes in a file", storing))
    shutil.rmtree(scratch)
    shutil.rmtree(stored)
    return good


def exporting(spark: SparkSession, broker: kafka.Broker, path: Path, topic: Topic, scratch: Path) -> bool:
    """Compare what both make of a topic: Parquet with the same columns and codec."""

    def ours() -> None:
        shutil.rmtree(scratch / "ours", ignore_errors=True)
        options = {"endingOffsets": "latest", "columns": ",".join(COLUMNS)}
        brokerless.spark.export(spark, str(path), str(scratch / "ours"), topics=[topic.name], options=options)

    def theirs() -> None:
        reader = spark.read.format("kafka").options(subscribe=topic.name, **{"kafka.bootstrap.servers": broker.at})
        reader.load().write.mode("overwrite").option("compression", "zstd").parquet(str(scratch / "theirs"))

    good = against(f"export {topic.name}", ours, {"connector": (theirs, EXPORT_BAR)})
    sizes = {
        name: sum(file.stat().st_size for file in (scratch / name).rglob("*.parquet")) for name in ("ours", "theirs")
    }
    print(
        f"connector: export {topic.name}: {sizes['ours'] >> 20} MiB, connector {sizes['theirs'] >> 20} MiB", flush=True
    )
    rows = spark.read.parquet(str(scratch / "ours")).agg({"offset": "sum", "*": "count"}).collect()
    assert rows == spark.read.parquet(str(scratch / "theirs")).agg({"offset": "sum", "*": "count"}).collect()
    shutil.rmtree(scratch)
    return good


def cores(path: Path, topic: Topic) -> bool:
    """Compare `local[2]` with `local[1]`, each in a session of its own; and with `local[1]` that has one core only.

    A session is two processes, Spark and the worker that reads: with `local[1]` both cores have something to do. What
    `local[2]` takes of both cores is then all that it could save.
    """
    taken, busy = {}, {}
    for name, master, core in (
        ("local[1]", "local[1]", ""),
        ("one core", "local[1]", "0"),
        ("local[2]", "local[2]", ""),
    ):
        command = [sys.executable, __file__, master, str(path), topic.name, str(topic.records), core]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        wall, worked = zip(*json.loads(done.stdout.splitlines()[-1])[1:], strict=True)
        taken[name], busy[name] = statistics.median(wall), statistics.median(worked)
    ratio, to_one_core = (taken[name] / taken["local[2]"] for name in ("local[1]", "one core"))
    both = os.cpu_count() or 1
    print(
        f"connector: {topic.name}, local[2]: {ratio:.2f}x local[1] (bar {CORES_BAR}x; with all {both} cores busy: "
        f"{taken['local[1]'] * both / busy['local[2]']:.2f}x), {to_one_core:.2f}x local[1] on one core; "
        f"CPU time of local[1] {busy['local[1]']:.2f} s in {taken['local[1]']:.2f} s, "
        f"of local[2] {busy['local[2]']:.2f} s in {taken['local[2]']:.2f} s{'' if ratio >= CORES_BAR else '   BELOW'}",
        flush=True,
    )
    return ratio >= CORES_BAR


def cpu_seconds() -> float:
    """Return what this process, Spark and its workers have taken of all cores."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def main() -> bool:
    """Measure reads and writes of every topic."""
    path, good = log_dir(), []
    kafka.JAVA, kafka.HAS_ARCHIVES = ("java", "-Xmx1g"), False
    spark = session(jars=[*sorted(map(str, JARS.glob("*.jar"))), brokerless.spark.jar()])
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        # What it writes goes with it.
        served = Path(scratch) / "served"
        shutil.copytree(path, served, copy_function=_link_or_copy)
        indexes = {"log_index_size_max_bytes": bl.TopicConfig().segment_index_bytes}
        with kafka.Broker(served, log=Path(scratch) / "broker.log", **indexes) as broker:
            client = kafka.Client()
            good += [reading(spark, broker, served, topic) for topic in TOPICS]
            good += [exporting(spark, broker, served, topic, Path(scratch) / "exported") for topic in TOPICS]
            good += [writing(spark, broker, client, topic, Path(scratch) / "written") for topic in TOPICS[:2]]
            client.close()
    spark.stop()
    good += [cores(path, topic) for topic in TOPICS[:2]]
    return all(good)


def _link_or_copy(source: str, to: str) -> None:
    """A segment that nobody appends to is the same file; everything else is a copy."""
    if source.endswith(".log"):
        Path(to).hardlink_to(source)
    else:
        shutil.copyfile(source, to)


def _one_session(master: str, path: str, topic: str, records: str, core: str) -> None:
    if core:
        os.sched_setaffinity(0, {int(core)})
    spark = session(master=master)
    rows = spark.read.format("brokerless").option("path", path).option("subscribe", topic)
    taken = []
    # Here too the JVM compiles at first, on a core that would be the query's.
    for _ in range(WARM_UP + ROUNDS + 1):
        before = cpu_seconds()
        wall = seconds(lambda: look_at_all(rows.load(), int(records)))
        taken.append((wall, cpu_seconds() - before))
    spark.stop()
    print(json.dumps(taken[WARM_UP:]))


if __name__ == "__main__":
    _one_session(*sys.argv[1:])
