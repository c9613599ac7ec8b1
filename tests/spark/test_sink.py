"""The sink as a Spark user meets it."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException

import brokerless as bl
from brokerless import _native


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
        for log in bl.LogDirs(path).logs()
        for found in log.read(columns=columns, **options)
        for row in found.to_pylist()
    ]


def values(path, **options):
    return sorted(int(value) for (value,) in rows(path, **options))


def test_rows_go_where_kafka_sends_their_keys_and_are_appended(spark, save, tmp_path):
    save(numbers(spark, 0, 1000), partitions=3, compression="lz4")
    topic_id = bl.LogDirs(tmp_path / "d").log("t", 0).topic_id
    save(numbers(spark, 1000, 1500))
    assert values(tmp_path / "d") == list(range(1500))
    assert bl.LogDirs(tmp_path / "d").log("t", 0).topic_id == topic_id
    import pyarrow as pa

    found = rows(tmp_path / "d", ["key", "partition", "offset"])
    keys = pa.array([key for key, *_ in found])
    expected = _native.Partitioner("t", range(3), 1, 0).choose(None, keys, len(keys), 1).to_pylist()
    assert [partition for _, partition, _ in found] == expected
    for number in range(3):
        offsets = [offset for _, partition, offset in found if partition == number]
        assert offsets == list(range(len(offsets)))
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean
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
    assert bl.LogDirs(tmp_path / "d").log("t", 0).log_end_offset == 302


def test_a_new_topic_has_the_settings_that_options_name(spark, save, tmp_path):
    save(numbers(spark, 0, 10), topic__retention__ms="-1", **{"topic.message.timestamp.type": "LogAppendTime"})
    save(numbers(spark, 10, 20))
    assert {row[0] for row in rows(tmp_path / "d", ["timestampType"])} == {1}
    with bl.open_log_dir(tmp_path / "d") as directory:
        assert directory.log("t", 0).config.retention_ms == -1
    with pytest.raises(Exception, match="has retention_ms=-1, not 5"):
        save(numbers(spark, 0, 10), topic__retention__ms="5")


def test_overwrite_makes_the_topic_anew(spark, save, tmp_path):
    save(numbers(spark, 0, 100), partitions=2, segmentBytes=1 << 20)
    save(numbers(spark, 0, 5), topic="other")
    before = bl.LogDirs(tmp_path / "d").log("t", 0).topic_id
    save(numbers(spark, 200, 300), mode="overwrite")
    found = bl.LogDirs(tmp_path / "d")
    assert sorted(int(row[0]) for row in rows(tmp_path / "d") if int(row[0]) >= 5) == list(range(200, 300))
    assert {log.name for log in found.logs()} == {"t-0", "t-1", "other-0"}
    assert found.log("t", 0).topic_id not in (None, before)
    assert found.log("t", 0).topic_id == found.log("t", 1).topic_id
    save(numbers(spark, 0, 1), mode="overwrite", partitions=1)
    assert {log.name for log in bl.LogDirs(tmp_path / "d").logs()} == {"t-0", "other-0"}


@pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="Spark refuses these modes to a Python source")
def test_modes_that_depend_on_what_exists(spark, save, tmp_path):
    """As in Spark's file sources: the default mode never adds rows to a topic that exists."""
    save(numbers(spark, 0, 3), mode="errorifexists")
    for topic in ("t", None):
        frame = numbers(spark, 3, 6).selectExpr("*", "'other' topic")
        with pytest.raises(AnalysisException, match=r"FileExistsError: .* has topic t already"):
            save(frame, mode="errorifexists", topic=topic)
        save(frame, mode="ignore", topic=topic)
    assert values(tmp_path / "d") == [0, 1, 2]
    save(numbers(spark, 3, 5), mode="ignore", topic="u")
    assert values(tmp_path / "d") == [0, 1, 2, 3, 4]
    with pytest.raises(AnalysisException, match="column value is int"):
        save(spark.range(1).selectExpr("1 value"), mode="ignore", topic="v")
    with pytest.raises(Exception, match=r"partitionBy .* do not apply"):
        numbers(spark, 0, 1).write.format("brokerless").partitionBy("key").save(str(tmp_path / "d"))


def test_append_can_refuse_a_topic_that_exists(spark, save, tmp_path):
    save(numbers(spark, 0, 3), ifExists="error")
    with pytest.raises(AnalysisException, match=r"FileExistsError: .* has topic t already"):
        save(numbers(spark, 0, 3), ifExists="error")
    with pytest.raises(AnalysisException, match="ifExists cannot be error in mode overwrite"):
        save(numbers(spark, 0, 3), mode="overwrite", ifExists="error")
    assert values(tmp_path / "d") == [0, 1, 2]
    assert not list((tmp_path / "d").glob("*-delete"))


def test_a_copy_keeps_its_offsets(spark, save, tmp_path, golden, load):
    source = golden / "logs/kafka-4.1/multi-partition-0"
    columns = "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp, "
    columns += "timestampType int, partition int, offset long, leaderEpoch int"
    frame = load(source, columns)
    save(frame.repartition(2, "partition").sortWithinPartitions("partition", "offset"), keepOffsets="true")
    wanted = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]
    assert rows(tmp_path / "d", wanted) == rows(source, wanted)
    with pytest.raises(Exception, match="are not all above offset"):
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
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean
    assert [path.name for path in (tmp_path / "d").iterdir() if path.is_dir()] == ["t-0"]


def test_threads_write_side_by_side_once_the_session_is_theirs(spark, save, tmp_path):
    """As the guide says: without the empty frame Spark looks for the data source in another session."""

    def write(start):
        spark.createDataFrame([], "x int")
        save(numbers(spark, start, start + 50))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (0, 50)))
    assert values(tmp_path / "d") == list(range(100))


def test_a_broker_that_is_there_is_left_alone(spark, save, tmp_path):
    save(numbers(spark, 0, 10))
    with bl.open_log_dir(tmp_path / "d", sole_replica=True), pytest.raises(Exception, match="LogInUseError"):
        save(numbers(spark, 0, 10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "t"}, "unknown option 'topics'"),
        ({"topic": None, "partitions": 1}, "there is no column topic"),
        ({"topic": None, "topicId": "x"}, "option topicId is that of one topic"),
        ({"topic": None, "mode": "overwrite"}, "overwriting needs option topic"),
        ({"compression": "brotli"}, "option compression must be none or gzip"),
        ({"keepOffsets": "true"}, "there is no column offset"),
        ({"keepOffsets": "true", "idempotent": "true"}, "a sequence or a transaction"),
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


def test_rows_go_to_the_topics_of_their_column(spark, save, tmp_path):
    frame = spark.range(0, 100, 1, 3).selectExpr("cast(id as string) value", "concat('t-', id % 3) topic")
    save(frame, topic=None, partitions=2, compression="zstd")
    save(frame, topic=None)
    for number in range(3):
        found = [row for row in rows(tmp_path / "d", ["value", "topic"]) if row[1] == f"t-{number}"]
        assert sorted(int(value) for value, _ in found) == sorted([*range(number, 100, 3)] * 2)
    assert len(bl.LogDirs(tmp_path / "d").logs(["t-0"])) == 2
    # an option goes before the column, as in Spark's own sink
    save(frame, topic="one")
    assert len([1 for row in rows(tmp_path / "d", ["topic"]) if row[0] == "one"]) == 100
    with pytest.raises(Exception, match="1 rows have a null in column topic"):
        save(frame.selectExpr("value", "if(value = '7', null, topic) topic"), topic=None)
    assert len(rows(tmp_path / "d")) == 300


def test_network_options_are_named_once(spark, save, tmp_path):
    save(numbers(spark, 0, 3), kafka__bootstrap__servers="there:9092")
    assert values(tmp_path / "d") == [0, 1, 2]


def test_a_read_does_not_know_a_sinks_options(load, tmp_path):
    with pytest.raises(AnalysisException, match="unknown option 'topic'"):
        load(tmp_path, topic="t")


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("__consumer_offsets", "is internal to Kafka"),
        ("__cluster_metadata", "Raft|cannot go"),
        ("a/b", "not a topic name"),
    ],
)
def test_rows_do_not_go_to_topics_that_no_write_may_create(spark, save, tmp_path, topic, reason):
    frame = numbers(spark, 0, 10).selectExpr("key", "value", f"'{topic}' topic")
    with pytest.raises(Exception, match=reason):
        save(frame, topic=None)
    assert not list((tmp_path / "d").glob("*-0"))
