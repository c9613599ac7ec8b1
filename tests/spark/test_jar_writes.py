"""The jar: writes whose tasks run in the JVM, and executors that have no Python."""

import contextlib
import os
import random
import signal
import stat
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from needing_jar import jar_or_skip
from own_spark import run

import brokerless as bl
import brokerless.spark

jar_or_skip()

SCHEMA = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp, topic string, "
    "partition int"
)


def read(path, columns):
    """Return the rows of each topic, in no order."""
    found = []
    for log in bl.LogDirs(path).logs():
        for batch in log.read(columns=columns):
            found += [tuple(row[name] for name in columns) for row in batch.to_pylist()]
    return found


def value(size, chance):
    return None if chance.random() < 0.2 else chance.randbytes(chance.randrange(size))


def row(number, chance):
    headers = [(f"h{i}", value(20, chance)) for i in range(chance.randrange(4))]
    return (
        value(100, chance),
        # Larger than the block in which rows wait.
        chance.randbytes(5 << 20) if number in (3, 700) else value(9000, chance),
        None if chance.random() < 0.2 else headers,
        datetime.fromtimestamp(chance.randrange(1 << 30), UTC).replace(microsecond=chance.randrange(1000) * 1000),
        chance.choice(["a", "b", "c"]),
        None if chance.random() < 0.5 else chance.randrange(3),
    )


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "idempotent": "true"}, {"transactional": "true"}])
def test_rows_of_all_kinds_are_written_as_they_are(spark, tmp_path, options):
    chance = random.Random(17)
    rows = [row(number, chance) for number in range(1000)]
    frame = spark.createDataFrame(rows, SCHEMA).repartition(3)
    writer = frame.write.format("brokerless").mode("append").option("topic.max.message.bytes", 16 << 20)
    writer.options(partitions="3", **options).save(str(tmp_path / "d"))
    found = Counter()
    for row_of in read(tmp_path / "d", ["key", "value", "headers", "timestamp", "topic"]):
        key, content, headers, *rest = row_of
        found[key, content, tuple((header["key"], header["value"]) for header in headers or ()), *rest] += 1
    expected = Counter((key, content, tuple(headers or ()), *rest) for key, content, headers, *rest, _ in rows)
    assert found == expected
    of_partition = Counter((topic, number) for *_, topic, number in rows if number is not None)
    there = Counter(read(tmp_path / "d", ["topic", "partition"]))
    assert all(there[place] >= count for place, count in of_partition.items())
    for topic in "abc":
        for number in range(3):
            offsets = bl.LogDirs(tmp_path / "d").log(topic, number).to_table(columns=["offset"])["offset"].to_pylist()
            # A marker of the transaction of a task has an offset, too.
            assert offsets == (list(range(len(offsets))) if "transactional" not in options else sorted(set(offsets)))


def test_copies_keep_their_offsets_and_epochs(spark, golden, tmp_path):
    path = golden / "logs/kafka-4.1/codec-mixed-0"
    columns = ("key", "value", "headers", "timestamp", "topic", "partition", "offset", "timestampType", "leaderEpoch")
    reader = spark.read.format("brokerless").option("includeHeaders", "true").option("columns", ",".join(columns))
    frame = reader.load(str(path))
    writer = frame.write.format("brokerless").option("keepOffsets", "true").option("topic", "codec-mixed")
    writer.mode("append").save(str(tmp_path / "d"))
    columns = [name for name in columns if name != "topic"]
    assert bl.Log(tmp_path / "d/codec-mixed-0").to_table(columns=columns) == bl.Log(path).to_table(columns=columns)


ROUND_TRIPS = """
def written_and_read(count, path):
    frame = spark.range(0, count, 1, 4).selectExpr("cast(id as string) key", "cast(id as string) value")
    writer = frame.write.format("brokerless").mode("append").option("topic", "t").option("partitions", 2)
    writer.save(path)
    frame = spark.read.format("brokerless").load(path)
    return frame.selectExpr("sum(cast(cast(value as string) as bigint))").first()[0]

print("sum", written_and_read(200_000, PATH))
print("sum", written_and_read(4_000_000, PATH + "-killed"), flush=True)
spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
"""


def test_executors_that_have_no_python_and_one_that_is_killed(tmp_path, monkeypatch):
    """The driver has one: it plans and commits. And of tasks that are repeated, it takes what the last ones wrote."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        "if grep -q CoarseGrainedExecutorBackend /proc/$PPID/cmdline; then echo no Python here >&2; exit 1; fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    killed = []

    def kill():
        while not killed and watching.is_set():
            time.sleep(0.001)
            if any(file.stat().st_size for file in tmp_path.glob("d-killed/*-delete/parts/*-0")):
                killed.extend(executors()[:1])
                for process in killed:
                    os.kill(process, signal.SIGKILL)

    watching = threading.Event()
    watching.set()
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        done = run(ROUND_TRIPS, tmp_path / "d", master="local-cluster[2,1,1024]")
    finally:
        watching.clear()
        thread.join()
    assert f"sum {sum(range(200_000))}" in done.stdout, done.stderr
    assert killed
    assert f"sum {sum(range(4_000_000))}" in done.stdout, done.stderr
    assert not list(tmp_path.glob("d*/*-delete"))
    assert done.returncode != 0, "the executors found a Python"
    assert "no Python here" in done.stderr


def executors():
    """Return those of this process's descendants that are executors of Spark."""
    commands, children = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            commands[int(path.name)] = (path / "cmdline").read_bytes()
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return [process for process in found if b"CoarseGrainedExecutorBackend" in commands.get(process, b"")]


def test_many_reads_and_writes_leave_nothing_behind(spark, tmp_path):
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    frame = (
        spark.range(0, 2000, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value").localCheckpoint()
    )

    def once():
        frame.write.format("brokerless").option("topic", "t").mode("append").save(str(tmp_path / "d"))
        rows = spark.read.format("brokerless").option("startingOffsets", "earliest").load(str(tmp_path / "d"))
        rows.selectExpr("max(key)", "max(value)").collect()

    def descriptors():
        links = [os.readlink(link) for link in Path(f"/proc/{java}/fd").glob("*") if link.is_symlink()]
        return [link for link in links if str(tmp_path / "d") in link]

    def libraries():
        return [line for line in Path(f"/proc/{java}/maps").read_text().splitlines() if "libbrokerless_jvm" in line]

    once()
    before = libraries()
    assert before
    for _ in range(20):
        once()
    assert descriptors() == []
    assert libraries() == before
    # A process that is killed while it loads its library leaves one behind: others' files say nothing of this one.
    assert all(line.endswith(" (deleted)") for line in before)
