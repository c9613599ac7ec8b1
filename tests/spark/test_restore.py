"""Restoring by Spark: both sides read alike, and a task that is killed counts once."""

import json
import signal

import pyarrow as pa
import pytest
from own_spark import run_patched

import brokerless as bl
from brokerless.spark import export, restore

COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType,headers,leaderEpoch"


def rows(frame):
    return sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_spark_reads_both_sides_alike(spark, load, golden, tmp_path, level):
    path = str(golden / "logs/kafka-4.1")
    export(spark, path, str(tmp_path / "e"), options={"kafka.isolation.level": level})
    restore(spark, str(tmp_path / "e"), str(tmp_path / "d"))
    expected = rows(load(path, columns=COLUMNS, kafka__isolation__level=level))
    assert rows(load(tmp_path / "d", columns=COLUMNS, kafka__isolation__level="read_committed")) == expected


def test_a_worker_that_is_killed(tmp_path):
    """Before the receipt, and behind it: its task is done again, and its rows are there once."""
    with bl.Producer(tmp_path / "s", "t", partitions=2) as producer:
        values = [b"%d" % number for number in range(20_000)]
        producer.send(pa.RecordBatch.from_pydict({"value": values, "partition": pa.array([0, 1] * 10_000, "int32")}))
    kill = f"""
        import os, signal
        from brokerless.io import disk
        from brokerless.staging.parts import PartWriter
        from brokerless.spark.jobs import restore
        restore._TARGET = 1
        def killing(real, name, is_wanted):
            def call(*arguments):
                result = real(*arguments)
                if is_wanted(*arguments):
                    try:
                        os.close(os.open({str(tmp_path)!r} + "/killed-" + name, os.O_CREAT | os.O_EXCL))
                    except FileExistsError:
                        return result
                    os.kill(os.getpid(), signal.SIGKILL)
                return result
            return call
        PartWriter.finish = killing(PartWriter.finish, "writing", lambda *_: True)
        disk.rename = killing(disk.rename, "receipt", lambda path, to: "/task-" in to)
    """
    done = run_patched(
        f"""
        from brokerless.spark import export, restore
        export(spark, {str(tmp_path / "s")!r}, {str(tmp_path / "e")!r}, options={{"minPartitions": "2"}})
        restored = restore(spark, {str(tmp_path / "e")!r}, {str(tmp_path / "d")!r})
        print(sum(partition.rows for partition in restored.partitions), restored.tasks)
        """,
        tmp_path,
        kill,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed-writing").exists()
    assert (tmp_path / "killed-receipt").exists()
    assert done.stdout.split() == ["20000", "2"]
    for number in range(2):
        source, copy = (bl.LogDirs(tmp_path / name).log("t", number) for name in "sd")
        columns = ["offset", "timestamp", "value"]
        assert pa.table(copy.read(columns=columns)) == pa.table(source.read(columns=columns))


def test_a_driver_that_is_killed_and_run_again(run, tmp_path):
    with bl.Producer(tmp_path / "s", "t", partitions=2) as producer:
        producer.send([{"value": b"%d" % number, "partition": number % 2} for number in range(200)])
    job = f"""
        from brokerless.spark import export, restore
        export(spark, {str(tmp_path / "s")!r}, {str(tmp_path / "e")!r}, options={{"minPartitions": "2"}})
        restored = restore(spark, {str(tmp_path / "e")!r}, {str(tmp_path / "d")!r})
        print(restored.tasks, restored.skipped)
    """
    kill = """
        import os, signal
        from brokerless.layout import commit_journal
        commit_journal.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run_patched(job, tmp_path, kill).returncode == -signal.SIGKILL
    assert bl.LogDirs(tmp_path / "d").topics() == []
    code, out, err = run("restore", tmp_path / "e", "--output", tmp_path / "d", "--json")
    assert code == 0, err
    assert "0 tasks; 1 had been done before" in err
    reports = list(map(json.loads, out.splitlines()))
    assert [(report["partition"], report["rows"]) for report in reports] == [(0, 100), (1, 100)]
    found = [row["value"] for log in bl.LogDirs(tmp_path / "d").logs() for b in log.read() for row in b.to_pylist()]
    assert sorted(map(int, found)) == list(range(200))
