"""Processes of Spark that are killed in the middle of their work: nothing is lost, nothing is there twice."""

import os
import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest
from own_spark import run

import brokerless as bl
from brokerless.layout import commit_journal, streaming_epochs

SPLIT_IS_READ = "brokerless.log.reader:_open"
PART_IS_WRITTEN = "brokerless.staging.parts:PartWriter._append"
TASK_IS_WRITTEN = "brokerless.staging.parts:PartWriter.finish"
LOG_IS_STAGED = "brokerless.staging.atomic_write:append_parts"
COMMIT_POINT = "brokerless.layout.commit_journal:commit"
# Once where the log directory is opened, and once behind the commit point.
JOURNAL_IS_LOOKED_FOR = "brokerless.layout.commit_journal:roll_forward"
COMMITTED = "brokerless.staging.atomic_write:AtomicWrite._finish"

READ_AND_WRITE = """
frame = spark.read.format("brokerless").load(PATH).select("key", "value", "topic")
frame.write.parquet(PATH + "-read")
writer = frame.repartition(4, "value").write.format("brokerless").mode("append")
writer.option("path", PATH + "-written").option("partitions", 2).save()
"""
WRITE = """
frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value")
frame.write.format("brokerless").mode("append").option("path", PATH).option("topic", "t").save()
"""
FOLLOW = """
frame = spark.readStream.format("brokerless").option("startingOffsets", "earliest").load(PATH)
writer = frame.select("key", "value").writeStream.format("brokerless").trigger(availableNow=True)
writer = writer.option("topic", "t").option("checkpointLocation", PATH + "-checkpoint")
assert writer.start(PATH + "-written").awaitTermination(240)
"""


# Tasks in the JVM make no Python call at which to kill: see test_jar.py.
in_python = pytest.mark.skipif(bool(os.environ.get("BROKERLESS_JAR")), reason="tasks run in the JVM")


@pytest.fixture
def path(tmp_path):
    """Three topics of 3 partitions with 10,000 numbers."""
    for topic in ("a", "b", "c"):
        with bl.Producer(tmp_path / "d", topic, partitions=3, compression="zstd") as producer:
            producer.send([{"key": b"%d" % i, "value": b"%s%d" % (topic.encode(), i)} for i in range(10_000)])
    return tmp_path / "d"


def values(path):
    """Return how often each value is there."""
    found = Counter()
    for log in bl.LogDirs(path).logs():
        for rows in log.read(columns=["value"]):
            found.update(rows["value"].to_pylist())
    return found


def kills(path):
    """Return how often the places of the kills were passed."""
    return [len(file.read_bytes()) for file in sorted(path.parent.glob(f"{path.name}.kill-*"))]


def check_read_and_written(path):
    expected = values(path)
    assert len(expected) == 30_000
    assert Counter(pq.read_table(f"{path}-read")["value"].to_pylist()) == expected
    assert values(f"{path}-written") == expected
    assert not list(path.parent.glob("d-written/*-delete"))


@in_python
def test_workers_that_are_killed_in_the_middle_of_tasks(path):
    done = run(
        READ_AND_WRITE, path, master="local[2,4]", kill=[(SPLIT_IS_READ, 3, "worker"), (PART_IS_WRITTEN, 4, "worker")]
    )
    assert done.returncode == 0, done.stderr
    assert min(kills(path)) > 4, "nobody was killed, or nobody went on"
    check_read_and_written(path)


DRIVERS = {
    "while tasks write": pytest.param(TASK_IS_WRITTEN, 1, False, marks=in_python),
    # As in `crash/test_killed.py`, which kills a commit in place of each change to the disk.
    "while logs are staged": pytest.param(LOG_IS_STAGED, 2, False, marks=pytest.mark.again),
    "before the commit point": pytest.param(COMMIT_POINT, 1, False, marks=pytest.mark.again),
    "behind the commit point": (JOURNAL_IS_LOOKED_FOR, 2, True),
}


@pytest.mark.driver
@pytest.mark.parametrize(("place", "number", "is_committed"), DRIVERS.values(), ids=DRIVERS)
def test_a_driver_that_is_killed(tmp_path, place, number, is_committed):
    """Its Python process takes the Java one with it, as a machine that dies would."""
    with bl.Producer(tmp_path / "d", "t", partitions=2) as producer:
        producer.send([{"value": b"-1", "partition": 0}])
    done = run(WRITE, tmp_path / "d", kill=[(place, number, "driver")])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (tmp_path / "d" / commit_journal.NAME).exists() == is_committed
    expected = Counter([b"-1", *(b"%d" % number for number in range(1000 if is_committed else 0))])
    assert values(tmp_path / "d") == expected
    with bl.open_log_dir(tmp_path / "d", sole_replica=True) as log_dir:
        for key in log_dir.partitions():
            log_dir.log(*key)
    assert values(tmp_path / "d") == expected
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean


KILL_JAVA = """
import glob, signal, threading, time
java = spark._jvm.java.lang.ProcessHandle.current().pid()
def kill():
    while not any(os.stat(part).st_size for part in glob.glob(WRITTEN + "/*-delete/parts/*-[0-9]")):
        time.sleep(0.001)
    print("killed", flush=True)
    os.kill(java, signal.SIGKILL)
threading.Thread(target=kill, daemon=True).start()
"""
WRITE_MUCH = """
WRITTEN = PATH
frame = spark.range(0, 40_000_000, 1, 4).selectExpr("cast(id as string) key", "cast(id as string) value")
writer = frame.write.format("brokerless").mode("append").option("path", PATH).option("topic", "t")
"""
FOLLOW_MUCH = """
WRITTEN = PATH + "-written"
frame = spark.readStream.format("brokerless").option("startingOffsets", "earliest").load(PATH)
# Many rows of each, so that parts grow before the task ends.
frame = frame.selectExpr("key", "value", f"explode(sequence(1, {TIMES})) i").select("key", "value")
writer = frame.writeStream.format("brokerless").trigger(availableNow=True)
writer = writer.option("topic", "t").option("checkpointLocation", PATH + "-checkpoint")
"""


@pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="tasks run in Python")
def test_a_jvm_that_is_killed_while_its_tasks_write(spark, tmp_path):
    """Nothing is in force, the next write works, and what was left is what a broker deletes when it starts."""
    with bl.Producer(tmp_path / "d", "t", partitions=2) as producer:
        producer.send([{"value": b"-1", "partition": 0}])
    before = sorted(os.listdir(tmp_path / "d"))
    done = run(WRITE_MUCH + KILL_JAVA + "writer.save()", tmp_path / "d")
    assert "killed" in done.stdout, done.stderr
    assert done.returncode != 0
    left = sorted(set(os.listdir(tmp_path / "d")) - set(before))
    assert [name.endswith("-delete") for name in left] == [True]
    assert any(path.stat().st_size for path in (tmp_path / "d" / left[0] / "parts").iterdir())
    assert values(tmp_path / "d") == Counter([b"-1"])
    exec(WRITE, {"spark": spark, "PATH": str(tmp_path / "d")})
    assert values(tmp_path / "d") == Counter([b"-1", *(b"%d" % number for number in range(1000))])
    assert sorted(set(os.listdir(tmp_path / "d")) - set(before)) == left


@pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="tasks run in Python")
def test_a_stream_whose_jvm_is_killed_while_its_tasks_write(spark, path):
    """The query's next start writes the rows, and removes what was left."""
    expected = values(path)
    much = f"TIMES = 200\n{FOLLOW_MUCH}\n{KILL_JAVA}\nwriter.start(WRITTEN).awaitTermination()"
    done = run(much, path)
    assert "killed" in done.stdout, done.stderr
    assert done.returncode != 0
    assert list(path.parent.glob("d-written/*-delete/parts/query-*"))
    assert values(f"{path}-written") == Counter()
    few = f"TIMES = 1\n{FOLLOW_MUCH}\nassert writer.start(WRITTEN).awaitTermination(240)"
    exec(few, {"spark": spark, "PATH": str(path)})
    assert values(f"{path}-written") == expected
    assert not list(path.parent.glob("d-written/*-delete"))


@pytest.mark.driver
def test_a_stream_whose_driver_is_killed_before_spark_knows_of_the_commit(spark, path):
    """Spark repeats the epoch: its rows are in force already."""
    expected = values(path)
    done = run(FOLLOW, path, kill=[(COMMITTED, 1, "driver")])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not list((path.parent / "d-checkpoint/commits").glob("[0-9]*"))
    assert values(f"{path}-written") == expected
    with bl.Producer(path, "a") as producer:
        producer.send([{"value": b"later"}])
    # with 4.1 the repeated epoch is all that the first one does
    for _ in range(2):
        exec(FOLLOW, {"spark": spark, "PATH": str(path)})
    assert values(f"{path}-written") == expected + Counter([b"later"])
    assert list(streaming_epochs.committed(f"{path}-written").values()) == [1]


@pytest.mark.driver
@pytest.mark.conformance
def test_a_stream_whose_driver_is_killed_while_it_writes(spark, path):
    expected = values(path)
    done = run(FOLLOW, path, kill=[(COMMIT_POINT, 1, "driver")])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert values(f"{path}-written") == Counter()
    exec(FOLLOW, {"spark": spark, "PATH": str(path)})
    assert values(f"{path}-written") == expected
    # what the first attempt staged is gone, too
    assert not list(path.parent.glob("d-written/*-delete"))


@in_python
@pytest.mark.slow
@pytest.mark.conformance
def test_executors_that_are_killed_and_what_a_broker_makes_of_it(path, tmp_path):
    from filling import ISOLATION_LEVELS, check_with_dump_tool, seen
    from kafka import Broker, Client, complaints

    done = run(
        READ_AND_WRITE,
        path,
        master="local-cluster[2,1,1024]",
        kill=[(SPLIT_IS_READ, 3, "executor"), (PART_IS_WRITTEN, 4, "executor")],
    )
    assert done.returncode == 0, done.stderr
    assert min(kills(path)) > 4, "nobody was killed, or nobody went on"
    check_read_and_written(path)
    written = tmp_path / "d-written"
    before = {topic: seen(written, topic) for topic in ("a", "b", "c")}
    client = Client()
    try:
        for log in bl.LogDirs(written).logs():
            check_with_dump_tool(client, written / log.name)
        with Broker(written, log=tmp_path / "broker.log") as broker:
            for topic, rows in before.items():
                for level in ISOLATION_LEVELS:
                    assert client.consume(broker, topic, level) == rows[level]
            said = broker.log
    finally:
        client.close()
    assert complaints(said) == []
    assert "Skipping recovery of" in said
