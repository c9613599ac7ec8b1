"""The jar: tasks that Spark cancels, or runs twice, while they read and write."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from needing_jar import jar_or_skip
from own_spark import run

import brokerless as bl
import brokerless.spark

jar_or_skip()

SLOWLY = "reflect('java.lang.Thread', 'sleep', 2L) slowly"
"""A column that takes the JVM 2 ms a row."""
BLOCK = 4 << 20
"""The bytes of rows that wait before a part grows: see `PartWriter.java`."""


def descriptors(spark, path):
    """Return the files below a path that the JVM of the session has open."""
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    links = [os.readlink(link) for link in Path(f"/proc/{java}/fd").glob("*") if link.is_symlink()]
    return [link for link in links if str(path) in link]


def eventually(condition, seconds=60):
    """Wait for a condition, and return whether it came true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def cancelled(spark, action, is_under_way):
    """Run an action in another thread, cancel it when it is under way, and return its error."""
    errors = []

    def act():
        spark.sparkContext.setJobGroup("to be cancelled", "", interruptOnCancel=True)
        try:
            action()
        except Exception as error:  # noqa: BLE001 - it is returned
            errors.append(str(error))

    thread = threading.Thread(target=act)
    thread.start()
    try:
        assert eventually(is_under_way) or errors, "it never was under way"
    finally:
        spark.sparkContext.cancelJobGroup("to be cancelled")
        thread.join(timeout=120)
    assert not thread.is_alive()
    return errors[0] if errors else None


@pytest.fixture
def log(tmp_path):
    """A log of 20,000 records: more than waits between a reader and a function."""
    with bl.Producer(tmp_path / "log", "t", partitions=2) as producer:
        producer.send([{"value": b"%d" % number * 200} for number in range(20_000)])
    return tmp_path / "log"


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("reader", ["jvm", "python"])
def test_a_cancelled_read_closes_its_files(spark, load, log, reader):
    """Its rows go to the JVM, or to a Python function whose thread reads ahead."""

    def slowly(batches):
        for batch in batches:
            time.sleep(60)
            yield batch

    frame = load(log, minPartitions="2")
    # Small ones: the first must not be all that a task reads.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    if reader == "python":
        frame = frame.select("value").mapInArrow(slowly, "value binary")
    else:
        frame = frame.selectExpr("value", SLOWLY)
    write = frame.write.format("noop").mode("overwrite")
    try:
        for _ in range(3):
            error = cancelled(spark, write.save, lambda: descriptors(spark, log))
            assert "cancel" in (error or "").lower(), error
            assert eventually(lambda: not descriptors(spark, log))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert load(log).count() == 20_000


def test_a_cancelled_write_removes_its_parts(spark, log, tmp_path):
    """And nothing of it is ever in the log directory."""
    rows = "cast(id as string) key", f"repeat('x', {BLOCK // 50}) value", SLOWLY
    frame = spark.range(0, 20_000, 1, 2).selectExpr(*rows).select("key", "value", "slowly")
    frame = frame.where("slowly is null or slowly <> 'x'").select("key", "value")
    before = sorted(os.listdir(log))
    write = frame.write.format("brokerless").option("topic", "t").mode("append")

    def parts():
        return [path for path in log.glob("*-delete/parts/*-[0-9]*") if path.stat().st_size]

    for _ in range(3):
        error = cancelled(spark, lambda: write.save(str(log)), lambda: len(parts()) > 1)
        assert "cancel" in (error or "").lower(), error
        assert eventually(lambda: not descriptors(spark, log) and not list(log.glob("*-delete"))), os.listdir(log)
        assert sorted(os.listdir(log)) == before
    frame = spark.range(5).selectExpr("cast(id as string) value")
    frame.write.format("brokerless").option("topic", "t").mode("append").save(str(log))
    assert sum(one.to_table().num_rows for one in bl.LogDirs(log).logs()) == 20_005


SPECULATIVE = f"""
import time
from pyspark import TaskContext

jvm, new_array = spark._jvm, spark.sparkContext._gateway.new_array
spark.stop()
# Spark runs a copy on another host only: two addresses of this one.
deploy, conf, option = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf(), jvm.scala.Option
master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
urls = new_array(jvm.String, 1)
urls[0] = f"spark://127.0.0.1:{{master._1().address().port()}}"
for i in (2, 3):
    place = f"127.0.0.{{i}}", 0, 0, 1, 1024, urls, PATH + "-work", option.apply(i), conf, option.empty()
    deploy.worker.Worker.startRpcEnvAndEndpoint(*place)
builder = SparkSession.builder.master(urls[0]).config("spark.speculation", "true")
builder = builder.config("spark.executor.memory", "1g")
builder = builder.config("spark.speculation.interval", "50ms").config("spark.speculation.quantile", "0.5")
builder = builder.config("spark.speculation.multiplier", "1.1").config("spark.speculation.minTaskRuntime", "10ms")
spark = builder.getOrCreate()


def rows(number, _):
    attempt = TaskContext.get().attemptNumber()
    for i in range(300):
        # What is beyond a block of rows is in a part when the task waits.
        if i == 200 and number == 0:
            open(f"{{PATH}}-attempt-{{attempt}}", "w").close()
            if attempt == 0:
                time.sleep(100)
        yield (f"{{number}}-{{i}}", "x" * {BLOCK // 100})


frame = spark.sparkContext.parallelize(range(4), 4).mapPartitionsWithIndex(rows).toDF("key string, value string")
started = time.monotonic()
frame.write.format("brokerless").mode("append").option("topic", "t").option("partitions", 2).save(PATH)
print("seconds", time.monotonic() - started)
# The attempt that lost may still be ending, and finds its directory gone.
time.sleep(2)
"""


def test_a_speculative_copy_of_a_task_writes_no_row_twice(tmp_path):
    done = run(SPECULATIVE, tmp_path / "d")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("d-attempt-*"))) == 2, "no task ran twice"
    assert float(done.stdout.split("seconds ")[1].split()[0]) < 100, "the slow attempt was waited for"
    keys = Counter(key for log in bl.LogDirs(tmp_path / "d").logs() for key in log.to_table()["key"].to_pylist())
    assert keys == Counter(b"%d-%d" % (number, i) for number in range(4) for i in range(300))
    assert not list((tmp_path / "d").glob("*-delete"))
