"""Exports by Spark: its own reader gives the same rows, and what is killed does not show."""

import json
import shutil
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from own_spark import run_patched

import brokerless as bl
from brokerless import _native
from brokerless.spark import export
from support import damage

COLUMNS = ",".join(_native.ROW_COLUMNS)


def rows(frame):
    return sorted(map(repr, frame.select(*_native.ROW_COLUMNS).collect()))


@pytest.mark.parametrize("log_dir", ["kafka-4.1", "kafka-2.8-mixed"])
def test_spark_reads_the_rows_of_the_source(spark, load, golden, tmp_path, log_dir):
    path = str(golden / "logs" / log_dir)
    found = export(spark, path, str(tmp_path / "e"), options={"minPartitions": "5"})
    frame = spark.read.parquet(str(tmp_path / "e"))
    assert rows(frame) == rows(load(path, columns=COLUMNS))
    assert dict(frame.dtypes)["headers"] == "array<struct<key:string,value:binary>>"
    assert sum(partition.rows for partition in found.partitions) == frame.count()
    assert frame.where("topic = 'no such'").count() == 0


def test_times_of_all_readers(spark, golden, tmp_path):
    """The encoding of offsets and times is one that Spark's vectorised reader takes, and its other one."""
    log = bl.Log(golden / "logs/kafka-4.1/log-append-time-0")
    export(spark, log.path, str(tmp_path / "e"))
    expected = [
        (row["offset"], round(row["timestamp"].timestamp() * 1000))
        for batch in log.read(columns=["offset", "timestamp"])
        for row in batch.to_pylist()
    ]
    for vectorized in ("true", "false"):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        try:
            frame = spark.read.parquet(str(tmp_path / "e"))
            found = frame.selectExpr("offset", "unix_millis(timestamp)").orderBy("offset").collect()
            assert [tuple(row) for row in found] == expected
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.parametrize(
    ("form", "package"), [("delta", "io.delta:delta-spark"), ("iceberg", "org.apache.iceberg:iceberg-spark-runtime")]
)
@pytest.mark.parametrize("options", [{}, {"decode": "value=utf8"}])
def test_a_format_without_its_package(spark, golden, tmp_path, form, package, options):
    to = str(tmp_path / "e") if form == "delta" else "exported"
    version = ".".join(spark.version.split(".")[:2])
    with pytest.raises(ValueError, match=f"Spark has no format {form}.*{package}.{version}_2.13:"):
        export(spark, str(golden / "logs/kafka-4.1/nulls-0"), to, format=form, options=options)


def test_a_worker_that_is_killed_in_mid_file(tmp_path):
    """Its task is done again; rows are there once, and no piece of a file."""
    with bl.Producer(tmp_path / "d", "t", partitions=2) as producer:
        values = [b"%d" % number for number in range(200_000)]
        producer.send(pa.RecordBatch.from_pydict({"value": values, "partition": pa.array([0, 1] * 100_000, "int32")}))
    kill = f"""
        import os, signal
        from brokerless.spark.jobs import formats
        marker = {str(tmp_path / "killed")!r}
        real = formats._finished
        def killed(pending, schema):
            yield from real(pending, schema)
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)
        formats._finished = killed
        formats._ROW_GROUP = 1 << 20
    """
    done = run_patched(
        f"""
        from brokerless.spark import export
        found = export(spark, {str(tmp_path / "d")!r}, {str(tmp_path / "e")!r}, options={{"minPartitions": "2"}})
        print(sum(partition.rows for partition in found.partitions), found.tasks)
        """,
        tmp_path,
        kill,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").exists()
    assert done.stdout.split() == ["200000", "2"]
    table = ds.dataset(str(tmp_path / "e"), partitioning="hive").to_table()
    assert sorted(map(int, table["value"].to_pylist())) == list(range(200_000))
    assert sorted(path.name for path in (tmp_path / "e").iterdir()) == ["_SUCCESS", "_manifest.json", "topic=t"]


def test_a_driver_that_is_killed_and_run_again(spark, tmp_path):
    with bl.Producer(tmp_path / "d", "t", partitions=3) as producer:
        for number in range(300):
            producer.send([{"value": b"%d" % number, "partition": number % 3}])
    job = f"""
        from brokerless.spark import export
        found = export(spark, {str(tmp_path / "d")!r}, {str(tmp_path / "e")!r}, options={{"minPartitions": "3"}})
        print(found.tasks, found.skipped)
    """
    kill = """
        import os, signal
        from brokerless.spark.jobs import manifest
        real = manifest.Manifest.write
        def killed(self, place):
            if self.files:
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, place)
        manifest.Manifest.write = killed
    """
    assert run_patched(job, tmp_path, kill).returncode == -signal.SIGKILL
    assert not (tmp_path / "e/_SUCCESS").exists()
    found = export(spark, str(tmp_path / "d"), str(tmp_path / "e"), options={"minPartitions": "3"})
    assert (found.tasks, found.skipped) == (0, 3)
    table = ds.dataset(str(tmp_path / "e"), partitioning="hive").to_table()
    assert sorted(map(int, table["value"].to_pylist())) == list(range(300))


def test_an_error_comes_without_stack_traces(golden, tmp_path):
    """Forty lines of the JVM hid it."""
    shutil.copytree(golden / "logs/kafka-4.1/nulls-0", tmp_path / "nulls-0")
    damage.flip_bit(next((tmp_path / "nulls-0").glob("*.log")), 90)
    done = subprocess.run(
        [sys.executable, "-m", "brokerless", "spark", "export", tmp_path / "nulls-0", "--output", tmp_path / "e"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith("brokerless: record batch crc mismatch at")
    assert "\tat " not in done.stderr


def test_the_command(run, golden, tmp_path):
    arguments = ["export", golden / "logs/kafka-4.1", "--output", tmp_path / "e", "--topic", "nulls"]
    arguments += ["--columns", "key,value", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "brokerless.cli", "spark", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (report,) = map(json.loads, done.stdout.splitlines())
    assert (report["topic"], report["partition"], report["rows"]) == ("nulls", 0, 80)
    assert ds.dataset(str(tmp_path / "e"), partitioning="hive").to_table().num_rows == 80
    assert "FutureWarning" not in done.stderr
    code, _, err = run(*arguments, "--compression", "snappy")
    assert code == 2
    assert "has another export" in err
