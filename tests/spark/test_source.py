"""The source as a Spark user meets it."""

import json
import os
import sys
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f

import brokerless as bl
import brokerless.spark
from brokerless.spark.source.concise_errors import concise_errors
from support.damaged_headers import COUNT, DAMAGED, write_log

FULL = "codec-mixed"  # 605 rows, three segments


@pytest.fixture
def data(golden):
    return golden / "logs/kafka-4.1"


def offsets(frame):
    return sorted(
        (row.topic, row.partition, row.offset) for row in frame.select("topic", "partition", "offset").collect()
    )


def test_the_columns_of_sparks_kafka_source(data, load):
    columns = {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
    }
    assert dict(load(data).dtypes) == columns
    assert load(data, includeHeaders="true").dtypes == [
        *columns.items(),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert all(field.nullable for field in load(data, includeHeaders="true").schema)


def test_headers_are_null_where_there_are_none(data, load):
    frame = load(data / "headers-0", includeHeaders="true")
    assert frame.where("headers is null").count() > 0
    assert frame.where("size(headers) = 0").count() == 0


def test_every_topic_but_the_internal_ones(data, load):
    topics = {row.topic for row in load(data).select("topic").distinct().collect()}
    assert FULL in topics
    assert not [topic for topic in topics if topic.startswith("__")]
    assert load(data, subscribe="__transaction_state").count() > 0
    assert load(data / "__transaction_state-1").count() == 282
    beside = load(json.dumps([str(data), str(data / "__transaction_state-1")]), columns="topic")
    assert beside.where("topic = '__transaction_state'").count() == 282


@pytest.mark.driver
def test_choosing_topics(data, load):
    def names(**options):
        return {(row[0], row[1]) for row in load(data, **options).select("topic", "partition").distinct().collect()}

    assert names(subscribe="codec-gzip, nulls") == {("codec-gzip", 0), ("nulls", 0)}
    assert names(subscribePattern="codec-(gzip|zstd)") == {("codec-gzip", 0), ("codec-zstd", 0)}
    # As in Spark's Kafka source: anywhere in the name.
    assert names(subscribePattern="gz") == {("codec-gzip", 0)}
    assert names(subscribePattern="^codec-gz$") == set()
    assert names(assign='{"multi-partition":[1,3],"nulls":[0]}') == {
        ("multi-partition", 1),
        ("multi-partition", 3),
        ("nulls", 0),
    }


@pytest.mark.driver
def test_a_temporary_view_of_sql(data, spark):
    options = f"OPTIONS (path '{data}', subscribe 'codec-gzip', includeHeaders 'true')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_sql USING brokerless {options}")
    found = spark.sql("SELECT count(*), count(DISTINCT topic), count(headers) FROM of_sql").first()
    assert found == (bl.Log(data / "codec-gzip-0").to_table().num_rows, 1, found[2])
    spark.catalog.dropTempView("of_sql")


def test_a_schema_prunes_and_reaches_the_lineage(data, load):
    frame = load(data / "codec-zstd-0", "leaderEpoch int, position long, compression string, offset long")
    row = frame.orderBy("offset").first()
    assert (row.compression, row.position, row.offset) == ("zstd", 0, 0)
    assert load(data / "codec-zstd-0", columns="offset,magic").columns == ["offset", "magic"]


@pytest.mark.parametrize(("view", "column"), [("records", "offset"), ("batches", "magic")])
def test_a_column_that_is_asked_for_twice_shows_at_load(data, load, view, column):
    with pytest.raises(AnalysisException, match=f"column {column} is named twice"):
        load(data, view=view, columns=f"{column},{column}")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("ofset long", "did you mean 'offset'?"),
        ("offset string", "column offset is bigint"),
        ("value binary not null", "NOT NULL"),
        ("headers array<struct<key:string not null,value:binary>>", "column headers"),
    ],
)
def test_a_schema_that_is_not_ours(schema, message, data, load):
    with pytest.raises((AnalysisException, PythonException)) as refused:
        load(data, schema).count()
    assert message in str(refused.value)


@pytest.mark.driver
def test_offsets_by_partition(data, load):
    chosen = {"subscribe": "multi-partition"}
    starts = {"multi-partition": {"0": 100, "1": -2, "2": 150, "3": 10}}
    ends = {"multi-partition": {"0": -1, "1": 5, "2": -1, "3": 10}}
    everything = offsets(load(data, **chosen))
    found = offsets(load(data, **chosen, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends)))
    assert found == [
        row
        for row in everything
        if {0: 100, 1: 0, 2: 150, 3: 10}[row[1]] <= row[2] < {0: 9999, 1: 5, 2: 9999, 3: 10}[row[1]]
    ]
    del starts["multi-partition"]["3"]
    with pytest.raises(AnalysisException, match="missing: multi-partition-3"):
        load(data, **chosen, startingOffsets=json.dumps(starts)).count()


def test_times(data, load):
    path = data / "codec-zstd-0"
    every = load(path).select("offset", f.unix_millis("timestamp").alias("ms")).orderBy("offset").collect()
    middle = every[250].ms
    first = next(row.offset for row in every if row.ms >= middle)
    assert load(path, startingTimestamp=middle).count() == 500 - first
    assert load(path, endingTimestamp=middle).count() == first
    by_partition = json.dumps({"codec-zstd": {"0": middle}})
    assert load(path, startingOffsetsByTimestamp=by_partition).count() == 500 - first
    assert load(path, endingOffsetsByTimestamp=by_partition).count() == first


@pytest.mark.driver
def test_a_time_behind_all_records(data, load):
    path = data / "codec-zstd-0"
    with pytest.raises(AnalysisException, match="startingOffsetsByTimestampStrategy"):
        load(path, startingTimestamp=4_000_000_000_000).count()
    later = load(path, startingTimestamp=4_000_000_000_000, startingOffsetsByTimestampStrategy="latest")
    assert later.count() == 0
    assert load(path, endingTimestamp=4_000_000_000_000).count() == 500


@pytest.mark.driver
def test_offsets_that_are_not_there(data, load):
    path = data / "trimmed-delete-records-0"
    ranges = {
        "startingOffsets": '{"trimmed-delete-records":{"0":5}}',
        "endingOffsets": '{"trimmed-delete-records":{"0":9999}}',
    }
    for name, value in ranges.items():
        with pytest.raises(AnalysisException, match="OffsetOutOfRangeError"):
            load(path, **{name: value}).count()
    assert load(path, **ranges, failOnDataLoss="false").count() == load(path).count() == 83


def test_the_high_watermark_is_an_end(copied, load):
    path = copied("kafka-4.1", "codec-zstd-0")
    (path.parent / "replication-offset-checkpoint").write_text("0\n1\ncodec-zstd 0 123\n")
    assert load(path, endingOffsets="high-watermark").count() == 123
    assert load(path).count() == 500


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("most", [1, 7, 100, 1000])
def test_no_task_has_more_records_than_allowed(most, isolation_level, data, load):
    topics = (FULL, "txn-interleaved", "nulls")
    chosen = {"subscribe": ",".join(topics), "kafka__isolation__level": isolation_level}
    if most == 1:
        # A task costs much more than its records.
        chosen["startingOffsets"] = json.dumps({topic: {"0": 500 if topic == FULL else -2} for topic in topics})
    frame = load(data, **chosen, maxRecordsPerPartition=most)
    # once for both: it has up to as many tasks as there are records
    rows = frame.select("topic", "partition", "offset", f.spark_partition_id().alias("task")).collect()
    assert max(Counter(row.task for row in rows).values()) <= most
    assert sorted((row.topic, row.partition, row.offset) for row in rows) == offsets(load(data, **chosen))


def test_tiny_segments_share_a_task_unless_more_are_asked_for(data, load):
    assert load(data).rdd.getNumPartitions() <= 4
    spread = load(data, minPartitions=12)
    assert 12 <= spread.rdd.getNumPartitions() <= 18
    assert offsets(spread) == offsets(load(data))


@pytest.mark.driver
def test_several_roots_are_one_view(copied, load, spark):
    roots = [copied("kafka-4.1", "nulls-0", "headers-0"), copied("kafka-2.8-v1", "codec-gzip-0", "codec-lz4-0")]
    for root in roots:
        (root / "meta.properties").unlink()
    topics = {"nulls", "headers", "codec-gzip", "codec-lz4"}
    together = spark.read.format("brokerless").load([str(root) for root in roots])
    assert {row.topic for row in together.select("topic").distinct().collect()} == topics
    as_json = load(json.dumps([str(root) for root in roots]))
    assert offsets(as_json) == offsets(together)


def test_damage_names_the_place_and_can_be_skipped(golden, load):
    path = golden / "logs/kafka-4.1-crashed/crash-zstd-0"
    with pytest.raises(PythonException, match=r"00000000000000000282.log:13983 \(base_offset 408\)"):
        load(path).count()
    kept = {row.offset for row in load(path, onCorrupt="skip").collect()}
    assert set(range(408)) < kept


# Without the jar, a query decodes all columns of the source: Spark tells a Python source none that it needs.
def test_a_record_with_damaged_headers_is_refused_whatever_a_query_needs(tmp_path, load):
    write_log(tmp_path / "t-0", DAMAGED["a value beyond the record"])
    frame = load(tmp_path, includeHeaders="true")
    for query in (
        frame.select("headers"),
        frame.select("timestamp"),
        frame.where("value is not null").groupBy().count(),
    ):
        with pytest.raises(Exception, match=r"record 1 of 3 at .*\(base_offset 2\)"):
            query.collect()
    # Three rows of sound batches. What decodes no record counts by the headers of the batches.
    skipping = load(tmp_path, includeHeaders="true", onCorrupt="skip")
    assert len(skipping.select("key").collect()) == 3
    # Also a session that another test has started, with the jar, is the one of this process from then on.
    if "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString():
        assert [frame.count(), skipping.count(), frame.select("offset").distinct().count()] == [COUNT] * 3
        bare = load(tmp_path, includeHeaders="true", kafka__check__crcs="false")
        with pytest.raises(Exception, match="record 1 of 3"):
            bare.count()
    else:
        with pytest.raises(Exception, match="record 1 of 3"):
            frame.count()


def test_a_stream_refuses_a_record_with_damaged_headers_whatever_it_needs(spark, tmp_path):
    write_log(tmp_path / "logs/t-0", DAMAGED["one header too many"])
    stream = spark.readStream.format("brokerless").option("startingOffsets", "earliest").load(str(tmp_path / "logs"))
    writer = stream.select("key").writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="record 1 of 3"):
        query.awaitTermination()


def one_message(call):
    """A user reads one sentence, and no frames of ours or PySpark's."""
    with pytest.raises(Exception) as refused:
        call()
    text = str(refused.value).partition("JVM stacktrace")[0].partition("Driver stacktrace")[0]
    assert "Traceback (most recent call last)" not in text
    assert 'File "' not in text
    return text


def test_an_error_of_a_read_is_one_message_without_the_workers_traceback(golden, data, load):
    assert "unknown option" in one_message(lambda: load(data, startingOffset="earliest"))
    assert "unknown column" in one_message(lambda: load(data, columns="keys"))
    assert "unknown topic" in one_message(lambda: load(data, subscribe="codec-zsdt").count())
    damaged = golden / "logs/kafka-4.1-crashed/crash-zstd-0"
    assert "CorruptRecordError" in one_message(lambda: load(damaged).count())
    schema = "key string"
    assert "cast it in the query" in one_message(lambda: load(data, schema=schema).count())


def test_an_error_of_a_write_is_one_message_without_the_workers_traceback(spark, tmp_path):
    def save(frame, **options):
        frame.write.format("brokerless").options(**options).mode("append").save(str(tmp_path / "d"))

    rows = spark.range(3).selectExpr("cast(id as string) value")
    assert "unknown option" in one_message(lambda: save(rows, topics="t"))
    assert "there is no column topic" in one_message(lambda: save(rows))
    null = rows.selectExpr("value", "cast(null as string) topic")
    assert "topic" in one_message(lambda: save(null))
    save(rows, topic="t")
    with bl.open_log_dir(tmp_path / "d", sole_replica=True):
        assert "LogInUseError" in one_message(lambda: save(rows, topic="t"))


@pytest.mark.driver
def test_an_error_of_a_stream_is_one_message_without_the_workers_traceback(spark, data, tmp_path):
    def follow(**options):
        frame = spark.readStream.format("brokerless").options(**options).load(str(data))
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
        query.processAllAvailable()

    assert "unknown topic" in one_message(lambda: follow(subscribe="codec-zsdt"))

    def write():
        frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
        sink = frame.writeStream.format("brokerless").option("checkpointLocation", str(tmp_path / "s"))
        query = sink.start(str(tmp_path / "d"))
        query.processAllAvailable()

    assert "there is no column topic" in one_message(write)


@pytest.mark.driver
def test_an_error_of_a_job_is_one_message_without_the_workers_traceback(spark, golden, tmp_path):
    damaged = str(golden / "logs/kafka-4.1-crashed/crash-zstd-0")
    found = one_message(lambda: brokerless.spark.export(spark, damaged, str(tmp_path / "e")))
    assert "CorruptRecordError" in found


@pytest.mark.driver
def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    """Only our own sentences stand alone: another library's error says nothing without its frames."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))
    for error in (pa.ArrowInvalid("x"), UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), KeyError("x")):
        monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)

        @concise_errors
        def fail(error=error):
            raise error

        with pytest.raises(type(error)):
            fail()
        assert "SPARK_HIDE_TRACEBACK" not in os.environ
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")

    @concise_errors
    def refuse():
        raise ValueError("one sentence")

    with pytest.raises(ValueError, match="one sentence"):
        refuse()
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "", "as the user set it"


def test_crcs_are_checked_unless_told_otherwise(copied, load):
    path = copied("kafka-4.1", "codec-none-0")
    file = min(path.glob("*.log"))
    content = bytearray(file.read_bytes())
    content[61 + 40] ^= 1  # in the first record's value
    file.write_bytes(content)
    with pytest.raises(PythonException, match="crc mismatch"):
        load(path).count()
    assert load(path, kafka__check__crcs="false").count() == 350


def test_batches(data, load):
    frame = load(data / "txn-commit-abort-0", view="batches")
    assert frame.columns[:5] == ["topic", "partition", "path", "position", "size"]
    assert "is_valid" not in frame.columns
    assert frame.where("is_control").count() == 30
    assert frame.select("path").distinct().count() == 2


def test_an_empty_log(data, load):
    assert load(data / "empty-topic-0").count() == 0
    assert load(data / "empty-topic-0", view="batches").count() == 0


@pytest.mark.driver
def test_unknown_names_are_refused_with_the_nearest(data, load):
    with pytest.raises(AnalysisException, match="unknown option 'startingoffset': did you mean 'startingOffsets'"):
        load(data, startingOffset="earliest")
    with pytest.raises(AnalysisException, match="unknown topic 'codec-zsdt': did you mean 'codec-zstd'"):
        load(data, subscribe="codec-zsdt").count()
