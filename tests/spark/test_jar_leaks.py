"""The jar: many queries in one session leak nothing. `make hunt` makes them 1,000."""

import json
import os
import shutil

import pytest
from needing_jar import jar_or_skip
from own_spark import run

import brokerless as bl
import brokerless.spark
from support.damage import overwrite

jar_or_skip()

QUERIES, WARM_UP = (1000, 500) if os.environ.get("BROKERLESS_HUNT") else (36, 24)
MOST_MB = 48
"""What native memory may grow by: less than 13 writers, or 24 readers, have. Threads of Spark have some, too."""

MANY = """
import gc, json, threading, time
from pathlib import Path
from pyspark.errors import PySparkException

java = int(spark._jvm.java.lang.ProcessHandle.current().pid())
temporary = Path(spark._jvm.java.lang.System.getProperty("java.io.tmpdir"))
spark.sparkContext.setLogLevel("OFF")
small = spark.range(0, 300, 1, 2).selectExpr("cast(id as string) key", "repeat('x', 25000) value")
small = small.localCheckpoint()
slow = "reflect('java.lang.Thread', 'sleep', 20L) slowly"


def load(name, **options):
    return spark.read.format("brokerless").options(**options).load(f"{PATH}/{name}")


def same(batches):
    yield from batches


def fails(action):
    try:
        action()
    except Exception:
        return
    raise AssertionError("it has not failed")


def cancelled(action):
    def act():
        spark.sparkContext.setJobGroup("cancelled", "", True)
        fails(action)

    thread = threading.Thread(target=act)
    thread.start()
    time.sleep(0.3)
    while thread.is_alive():
        spark.sparkContext.cancelJobGroup("cancelled")
        thread.join(0.1)


def save(frame):
    frame.write.format("brokerless").option("topic", "t").mode("append").save(f"{PATH}/written")


KINDS = [
    lambda: load("sound").collect(),
    lambda: load("sound").count(),
    lambda: load("sound").where("offset >= 100 and offset < 120").collect(),
    lambda: load("sound", includeHeaders="true").limit(3).collect(),
    lambda: load("sound", minPartitions="8").selectExpr("max(value)", "count(distinct key)").collect(),
    lambda: save(small),
    lambda: load("sound").select("offset", "value").mapInArrow(same, "offset long, value binary").limit(5).collect(),
    lambda: fails(lambda: load("damaged").collect()),
    lambda: load("damaged", onCorrupt="skip").collect(),
    lambda: fails(lambda: save(small.selectExpr("value", "raise_error('no value') key"))),
    lambda: cancelled(lambda: load("sound").selectExpr("value", slow).collect()),
    lambda: cancelled(lambda: save(small.selectExpr("key", "value", slow).where("slowly is null").drop("slowly"))),
]


def measure(queries):
    spark._jvm.java.lang.System.gc()
    status = Path(f"/proc/{java}/status").read_text()
    links = [os.readlink(link) for link in Path(f"/proc/{java}/fd").iterdir() if link.is_symlink()]
    non_heap = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage()
    print("measured", json.dumps({
        "queries": queries,
        "rss_mb": int(status.split("VmRSS:")[1].split()[0]) >> 10,
        "code_and_classes_mb": non_heap.getCommitted() >> 20,
        "files": [link for link in links if PATH in link],
        "descriptors": len(links),
        "mappings": Path(f"/proc/{java}/maps").read_text().count("\\n"),
        "threads": int(status.split("Threads:")[1].split()[0]),
        "libraries": Path(f"/proc/{java}/maps").read_text().count("libbrokerless_jvm"),
        "temporary": [path.name for path in temporary.glob("brokerless*")],
    }), flush=True)


for number in range(WARM_UP + QUERIES + 1):
    if number >= WARM_UP and (number - WARM_UP) % (QUERIES // 10) == 0:
        measure(number - WARM_UP)
    KINDS[number % len(KINDS)]()
"""


@pytest.mark.slow
def test_many_queries_leak_no_memory_files_or_mappings(golden, tmp_path, monkeypatch):
    """Reads and writes that end, fail or are cancelled. The heap is resident from the start: what grows is native."""
    (tmp_path / "temporary").mkdir()
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={tmp_path}/temporary"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{options} -Xms1g -XX:+AlwaysPreTouch")
    # The path of a socket has to be short.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.python.unix.domain.socket.dir=/tmp pyspark-shell")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    (tmp_path / "d").mkdir()
    with bl.Producer(tmp_path / "d/sound", "large") as producer:
        producer.send([{"value": b"%d" % number * 250} for number in range(5000)])
    for name in ("codec-mixed-0", "codec-zstd-0", "headers-0"):
        shutil.copytree(golden / "logs/kafka-4.1" / name, tmp_path / "d/sound" / name)
    shutil.copytree(golden / "logs/kafka-4.1/codec-none-0", tmp_path / "d/damaged/codec-none-0")
    overwrite(min((tmp_path / "d/damaged/codec-none-0").glob("*.log")), 100, b"\xff")
    code = f"WARM_UP, QUERIES = {WARM_UP}, {QUERIES}\n{MANY}"
    done = run(code, tmp_path / "d", seconds=3600)
    assert done.returncode == 0, done.stderr
    measured = [json.loads(line[9:]) for line in done.stdout.splitlines() if line.startswith("measured ")]
    first, *_, last = measured
    assert last["queries"] == QUERIES
    assert last["files"] == []
    assert last["temporary"] == first["temporary"] == []
    assert last["libraries"] == first["libraries"] > 0
    assert last["descriptors"] <= first["descriptors"] + 10
    # A thread has two.
    assert last["mappings"] - 2 * last["threads"] <= first["mappings"] - 2 * first["threads"] + 50
    grown = {name: last[name] - first[name] for name in ("rss_mb", "code_and_classes_mb")}
    assert grown["rss_mb"] - grown["code_and_classes_mb"] < MOST_MB, measured
    assert not list((tmp_path / "d").glob("written/*-delete"))
    assert bl.LogDirs(tmp_path / "d/written").topics() == ["t"]
