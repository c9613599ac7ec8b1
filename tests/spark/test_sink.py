"""The sink as a Spark user meets it."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from pyspark.errors import AnalysisException

import brokerless as bl
from brokerless import _native
from brokerless.log import journal

pytestmark = pytest.mark.spark


@pytest.fixture
def save(tmp_path):
    """Return a function that writes a frame into `d`."""

    def save(frame, mode="append", topic="t", **options):
        writer = frame.write.format("brokerless").mode(mode).option("path", str(tmp_path / "d"))
        if topic is not None:
            writer = writer.option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name.replace("__", "."), value)
        writer.save()

    return save


def numbers(spark, start, end, tasks=3):
    return spark.range(start, end, 1, tasks).selectExpr("cast(id as string) key", "cast(id as string) value")


def rows(path, columns=("value",), **options):
    columns = list(columns)
    return [
        tuple(row[name] for name in columns)
        for log in bl.LogDir(path).logs()
        for found in log.read(columns=columns, **options)
        for row in found.to_pylist()
    ]


def values(path, **options):
    return sorted(int(value) for (value,) in rows(path, **options))


def test_rows_go_where_kafka_sends_their_keys_and_are_appended(spark, save, tmp_path):
    save(numbers(spark, 0, 1000), partitions=3, compression="lz4")
    topic_id = bl.LogDir(tmp_path / "d").log("t", 0).topic_id
    save(numbers(spark, 1000, 1500))
    assert values(tmp_path / "d") == list(range(1500))
    assert bl.LogDir(tmp_path / "d").log("t", 0).topic_id == topic_id
    import pyarrow as pa

    found = rows(tmp_path / "d", ["key", "partition", "offset"])
    expected = _native.partition_for_keys(pa.array([key for key, *_ in found]), 3).to_pylist()
    assert [partition for _, partition, _ in found] == expected
    for number in range(3):
        offsets = [offset for _, partition, offset in found if partition == number]
        assert offsets == list(range(len(offsets)))
    assert bl.Root(str(tmp_path / "d")).is_clean
    assert sorted(path.name for path in (tmp_path / "d").iterdir() if path.is_dir()) == ["t-0", "t-1", "t-2"]


def test_all_columns(spark, save, tmp_path):
    header = "array(named_struct('key', 'h', 'value', cast('1' as binary)))"
    frame = spark.range(4).selectExpr(
        "cast(null as binary) key",
        "if(id = 0, null, cast(id as string)) value",
        f"if(id = 1, null, {header}) headers",
        "timestamp_millis(1700000000000 + id) timestamp",
        "cast(id % 2 as int) partition",
        "'elsewhere' topic",
        "7L offset",
    )
    save(frame, partitions=2)
    found = rows(tmp_path / "d", ["value", "headers", "timestamp", "partition", "topic"])
    headers = [{"key": "h", "value": b"1"}]
    assert [(row[0], row[1], round(row[2].timestamp() * 1000) % 10, row[3], row[4]) for row in found] == [
        (None, headers, 0, 0, "t"),
        (b"2", headers, 2, 0, "t"),
        (b"1", [], 1, 1, "t"),
        (b"3", headers, 3, 1, "t"),
    ]


def test_transactional_tasks_each_commit(spark, save, tmp_path):
    save(numbers(spark, 0, 300, tasks=2), transactional="true")
    assert values(tmp_path / "d", isolation_level="read_committed") == list(range(300))
    assert len({row[0] for row in rows(tmp_path / "d", ["producerId"])}) == 2
    # each of the two has one marker
    assert bl.LogDir(tmp_path / "d").log("t", 0).log_end_offset == 302


def test_overwrite_makes_the_topic_anew(spark, save, tmp_path):
    save(numbers(spark, 0, 100), partitions=2, segmentBytes=1 << 20)
    save(numbers(spark, 0, 5), topic="other")
    before = bl.LogDir(tmp_path / "d").log("t", 0).topic_id
    save(numbers(spark, 200, 300), mode="overwrite")
    found = bl.LogDir(tmp_path / "d")
    assert sorted(int(row[0]) for row in rows(tmp_path / "d") if int(row[0]) >= 5) == list(range(200, 300))
    assert {log.name for log in found.logs()} == {"t-0", "t-1", "other-0"}
    assert found.log("t", 0).topic_id not in (None, before)
    assert found.log("t", 0).topic_id == found.log("t", 1).topic_id
    save(numbers(spark, 0, 1), mode="overwrite", partitions=1)
    assert {log.name for log in bl.LogDir(tmp_path / "d").logs()} == {"t-0", "other-0"}


def test_a_copy_keeps_its_offsets(spark, save, tmp_path, golden, load):
    source = golden / "logs/kafka-4.1/multi-partition-0"
    columns = "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp, "
    columns += "timestampType int, partition int, offset long, leaderEpoch int"
    frame = load(source, columns)
    save(frame.repartition(2, "partition").sortWithinPartitions("partition", "offset"), keepOffsets="true")
    wanted = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]
    assert rows(tmp_path / "d", wanted) == rows(source, wanted)
    with pytest.raises(Exception, match="are to come behind"):
        save(frame, keepOffsets="true")
    with pytest.raises(Exception, match="sort the rows"):
        save(frame.union(frame).coalesce(1), mode="overwrite", keepOffsets="true")
    assert rows(tmp_path / "d", wanted) == rows(source, wanted)
    assert not list((tmp_path / "d").glob("*-delete"))


def test_a_job_that_fails_leaves_nothing(spark, save, tmp_path):
    save(numbers(spark, 0, 10))
    with pytest.raises(Exception, match="no such row"):
        save(numbers(spark, 50, 100).selectExpr("if(value = '77', raise_error('no such row'), value) value"))
    # a broker would refuse it
    with pytest.raises(Exception, match="RecordTooLargeError"):
        save(spark.range(1).selectExpr("repeat('x', 2000000) value"))
    assert values(tmp_path / "d") == list(range(10))
    assert bl.Root(str(tmp_path / "d")).is_clean
    assert [path.name for path in (tmp_path / "d").iterdir() if path.is_dir()] == ["t-0"]


def test_a_broker_that_is_there_is_left_alone(spark, save, tmp_path):
    save(numbers(spark, 0, 10))
    with bl.LogDir.open(tmp_path / "d", sole_replica=True), pytest.raises(Exception, match="LogInUseError"):
        save(numbers(spark, 0, 10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "t"}, "unknown option 'topics'"),
        ({"topic": None, "partitions": 1}, "option topic is missing"),
        ({"compression": "brotli"}, "option compression must be none or gzip"),
        ({"keepOffsets": "true"}, "there is no column offset"),
        ({"keepOffsets": "true", "idempotent": "true"}, "no sequence or transaction"),
        ({"topicId": "x"}, "topic id"),
    ],
)
def test_options_that_cannot_be(spark, save, tmp_path, options, message):
    with pytest.raises(Exception, match=message):
        save(numbers(spark, 0, 1), **options)
    assert not (tmp_path / "d").exists() or not list((tmp_path / "d").glob("*-delete"))


def test_columns_that_cannot_be(spark, save):
    for column, message in (
        ("1 vlaue", "did you mean 'value'"),
        ("1 value", "column value is int"),
        ("'' key", "value"),
    ):
        with pytest.raises(Exception, match=message):
            save(spark.range(1).selectExpr(column))


def test_network_options_are_named_once(spark, save, tmp_path):
    save(numbers(spark, 0, 3), kafka__bootstrap__servers="there:9092")
    assert values(tmp_path / "d") == [0, 1, 2]


def test_a_read_does_not_know_a_sinks_options(load, tmp_path):
    with pytest.raises(AnalysisException, match="unknown option 'topic'"):
        load(tmp_path, topic="t")


def test_a_task_that_fails_once_is_done_again(tmp_path):
    """The first attempt has written rows by then: they do not count."""
    done = _run(
        tmp_path,
        master="local[2,3]",
        code="""
        def once(number):
            import pathlib
            marker = pathlib.Path(PATH + "-failed")
            if number in (90000, 190000) and not marker.exists():
                marker.touch()
                raise RuntimeError("first attempt")
            return str(number)
        from pyspark.sql.functions import udf
        write(spark.range(0, 200000, 1, 2).select(udf(once)("id").alias("value")))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "d-failed").exists()
    assert values(tmp_path / "d") == list(range(200000))


KILLS = {
    "while tasks write": ("brokerless.parts.PartWriter.finish", False),
    "before the commit point": ("brokerless.log.journal.commit", False),
    "behind the commit point": ("brokerless.log.journal.roll_forward", True),
}


@pytest.mark.parametrize(("at", "is_committed"), KILLS.values(), ids=KILLS)
def test_a_driver_that_is_killed(tmp_path, at, is_committed):
    """Its Python process takes the Java one with it, as a machine that dies would."""
    with bl.Producer(tmp_path / "d", "t", partitions=2) as producer:
        producer.send([{"value": b"-1", "partition": 0}])
    kill = f"""
import os, signal, importlib
def patched(real):
    def call(*args, **kwargs):
        import brokerless.log.journal as journal
        root = args[0] if args and isinstance(args[0], str) else PATH
        if {at!r}.endswith("roll_forward") and not os.path.isdir(root + "/" + journal.NAME):
            return real(*args, **kwargs)
        os.kill(int(os.environ["DRIVER"]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return call
PATH = {str(tmp_path / "d")!r}
"""
    module, _, name = at.rpartition(".")
    kill += f"import brokerless.parts; m = importlib.import_module({module!r})\n" if name != "finish" else ""
    kill += "from brokerless.parts import PartWriter as m\n" if name == "finish" else ""
    kill += f"m.{name} = patched(m.{name})\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        f"import os\nif 'DRIVER' in os.environ:\n{textwrap.indent(kill, '    ')}"
    )
    done = _run(
        tmp_path,
        master="local[2]",
        code='write(spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value"))',
        site=tmp_path / "site",
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    expected = [-1, *range(1000)] if is_committed else [-1]
    assert (tmp_path / "d" / journal.NAME).exists() == is_committed
    assert values(tmp_path / "d") == expected
    with bl.LogDir.open(tmp_path / "d", sole_replica=True) as log_dir:
        for key in log_dir.partitions():
            log_dir.log(*key)
    assert values(tmp_path / "d") == expected
    assert bl.Root(str(tmp_path / "d")).is_clean


def _run(tmp_path, *, master, code, site=None):
    """Run code in a Spark of its own."""
    script = f"""
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
from pyspark.sql import SparkSession
os.environ["DRIVER"] = str(os.getpid())
os.environ["PYTHONPATH"] = os.pathsep.join([{str(site or "")!r}, os.environ.get("PYTHONPATH", "")])
spark = SparkSession.builder.master({master!r}).config("spark.ui.enabled", "false").getOrCreate()
PATH = {str(tmp_path / "d")!r}
def write(frame):
    frame.write.format("brokerless").mode("append").option("path", PATH).option("topic", "t").save()
{textwrap.dedent(code)}
"""
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
