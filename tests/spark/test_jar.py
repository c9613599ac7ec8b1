"""The jar: the same source, whose reads of records run in the JVM."""

import json
import os

import pytest
from needing_jar import plan
from own_spark import run
from pyspark.sql import functions as f

import brokerless as bl
import brokerless.spark
from support.damage import overwrite

try:
    JAR = brokerless.spark.jar()
except FileNotFoundError:
    pytest.skip("built without a JDK", allow_module_level=True)


with_jar = pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="the session has no jar")


@with_jar
def test_records_are_read_in_the_jvm_and_all_else_in_python(golden, load):
    path = golden / "logs/kafka-4.1"
    assert "ColumnarToRow" in plan(load(path, subscribe="codec-mixed"))
    for view in ("batches", "findings", "sums"):
        assert "ColumnarToRow" not in plan(load(path, view=view, subscribe="codec-mixed"))


@with_jar
def test_only_the_columns_of_a_query_are_decoded(golden, load):
    frame = load(golden / "logs/kafka-4.1", subscribe="codec-mixed").select("offset")
    assert "BatchScan brokerless[offset" in plan(frame)
    assert frame.count() == 605
    assert frame.distinct().count() == 605


@with_jar
def test_a_field_of_headers_alone(golden, load):
    frame = load(golden / "logs/kafka-4.1", includeHeaders="true", assign='{"headers":[0]}')
    whole = [row.headers for row in frame.select("headers").collect()]
    assert any(whole)
    for field in ("key", "value"):
        found = [row[0] for row in frame.selectExpr(f"headers.{field}").collect()]
        assert found == [None if row is None else [header[field] for header in row] for row in whole]
    exploded = frame.selectExpr("explode(headers) h").selectExpr("h.value").collect()
    assert [row.value for row in exploded] == [header.value for row in whole for header in row or ()]


@with_jar
def test_a_limit_reads_only_what_it_needs(topics, load):
    frame = load(topics, subscribe="codec-mixed", maxRecordsPerPartition="1000").limit(3)
    assert "PushedLimit: 3 " in plan(frame)
    assert {row.offset for row in frame.collect()} == {0, 1, 2}
    # In the JVM, too: a task ends with the batch that has the last row.
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert 3 <= leaf.metrics().apply("records").value() < 100
    for limit in (0, 1, 604, 605, 1000):
        few = load(topics, subscribe="codec-mixed", minPartitions="40").limit(limit)
        assert few.count() == min(limit, 605)
        assert few.select("offset").distinct().count() == min(limit, 605)
    # Damage in the last segment is not met, since each task ends before it.
    log = max((topics / "codec-mixed-0").glob("*.log"))
    overwrite(log, log.stat().st_size - 5, b"garbage")
    assert load(topics, subscribe="codec-mixed", maxRecordsPerPartition="1000").limit(1).count() == 1


@pytest.fixture
def setting(spark):
    """Return a function that changes a setting of the session until the test ends."""
    changed = []

    def setting(name, value):
        changed.append(name)
        spark.conf.set(name, value)

    yield setting
    for name in changed:
        spark.conf.unset(name)


@with_jar
def test_joins_know_the_size_of_what_is_read(setting, topics, load):
    """A small log goes to every task of a join; one whose size nobody knows never does."""
    left, right = (load(topics, subscribe=name).alias(name[6:]) for name in ("codec-mixed", "codec-zstd"))
    assert "BroadcastHashJoin" in plan(left.join(right, "offset"))
    setting("spark.sql.autoBroadcastJoinThreshold", "1000")
    assert "BroadcastHashJoin" not in plan(left.join(right, "offset"))


@with_jar
def test_spark_knows_how_many_rows_are_read(setting, topics, load):
    """Where it plans by cost."""
    setting("spark.sql.cbo.enabled", "true")

    def estimated(frame):
        leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
        return int(str(leaf.stats().rowCount().get()))

    frame = load(topics, subscribe="codec-mixed", minPartitions="40")
    assert estimated(frame) == frame.count() == 605
    assert estimated(frame.select("offset").where("offset >= 200 and offset < 220")) == 20
    cut = load(topics, subscribe="codec-mixed", maxRecordsPerPartition="100")
    assert estimated(cut) == 605
    sizes = [
        one._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats().sizeInBytes() for one in (frame, cut)
    ]
    assert str(sizes[0]) == str(sizes[1])


@with_jar
def test_equal_reads_of_a_query_are_shuffled_once(setting, topics, load):
    setting("spark.sql.adaptive.enabled", "false")

    def sums(subscribe, column="value", **options):
        return load(topics, subscribe=subscribe, **options).groupBy("partition").agg({column: "max"})

    def reused(left, right):
        return "ReusedExchange" in plan(left.join(right, "partition"))

    few = load(topics, subscribe="codec-mixed").limit(2).groupBy("partition").agg({"value": "max"})
    assert reused(sums("codec-mixed"), sums("codec-mixed"))
    assert not reused(sums("codec-mixed"), sums("codec-zstd"))
    assert not reused(sums("codec-mixed"), sums("codec-mixed", "key"))
    assert not reused(sums("codec-mixed"), sums("codec-mixed", endingOffsets='{"codec-mixed":{"0":9}}'))
    assert not reused(sums("codec-mixed"), few)


@with_jar
def test_a_query_says_what_it_read(spark, topics, load):
    frame = load(topics, subscribe="codec-mixed")
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    metrics = {name: leaf.metrics().apply(name).value() for name in ("batches", "records", "batchBytes", "readNanos")}
    log = bl.Log(topics / "codec-mixed-0")
    headers = [header for batches in log.scan() for header in batches.select(["size", "is_control"]).to_pylist()]
    assert metrics["records"] == 605
    assert metrics["batches"] == len(headers)
    assert metrics["batchBytes"] == sum(header["size"] for header in headers)
    assert metrics["readNanos"] > 0


@with_jar
def test_a_plan_shows_what_is_read(topics, load):
    shown = plan(load(topics, maxRecordsPerPartition="100").where("topic like 'codec-%'"))
    assert f"Path: {topics}, Topics: [codec-mixed, codec-none, codec-zstd], Partitions: 3, Bytes: " in shown
    one = plan(load(topics).where("topic = 'codec-none'"))
    assert "Topics: [codec-none], Partitions: 1, Bytes: " in one
    assert f"Path: {topics}, View: batches (Python)" in plan(load(topics, view="batches"))


@with_jar
def test_a_plan_that_fails_can_be_shown(topics, load):
    """The query raises the error, not the text of its plan."""
    frame = load(topics, subscribe="nope")
    assert f"Path: {topics}, PushedFilters" in plan(frame)
    with pytest.raises(Exception, match="unknown topic 'nope'"):
        frame.collect()


@with_jar
@pytest.mark.parametrize("loss", ["true", "false"])
def test_the_progress_of_a_stream_shows_its_source_and_how_far_it_is_behind(spark, topics, tmp_path, loss):
    """By the names of Spark's Kafka source, so that dashboards keep working."""
    reader = spark.readStream.format("brokerless").option("startingOffsets", "earliest").option("failOnDataLoss", loss)
    frame = reader.option("subscribe", "codec-none,codec-zstd").option("maxOffsetsPerTrigger", "300").load(str(topics))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    sources = [progress["sources"][0] for progress in query.recentProgress]
    assert {source["description"] for source in sources} == {f"brokerless[{topics}, subscribe=codec-none,codec-zstd]"}
    for source in sources:
        behind = [
            end - json.loads(source["endOffset"])[topic][number]
            for topic, ends in json.loads(source["latestOffset"]).items()
            for number, end in ends.items()
        ]
        assert source["metrics"] == {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        }
    assert int(sources[0]["metrics"]["maxOffsetsBehindLatest"]) > 0


@with_jar
def test_sql_reads_a_path(setting, spark, topics):
    setting("spark.sql.catalog.brokerless", "brokerless.spark.PathCatalog")
    assert spark.sql(f"SELECT count(DISTINCT topic) FROM brokerless.`{topics}`").first() == (3,)
    assert spark.sql(f"SELECT max(offset) FROM brokerless.`{topics}`.`codec-mixed`").first() == (604,)
    with pytest.raises(Exception, match="does not support append"):
        spark.sql(f"INSERT INTO brokerless.`{topics}`.`codec-mixed` SELECT * FROM brokerless.`{topics}`")


@with_jar
def test_a_query_says_how_many_offsets_damage_has_cost(topics, load):
    overwrite(min((topics / "codec-none-0").glob("*.log")), 100, b"\xff")
    frame = load(topics, subscribe="codec-none", onCorrupt="skip")
    rows = len(frame.collect())
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    lost = leaf.metrics().apply("lostOffsets").value()
    assert lost > 0
    assert rows + lost == bl.Log(topics / "codec-none-0").log_end_offset


@with_jar
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_counts_and_offsets_of_every_log(golden, load, level):
    """Made from headers where these suffice: not for compacted batches, markers, transactions and old formats."""
    for path in (golden / "logs").iterdir():
        expected, assigned = {}, {}
        for log in bl.LogDirs(path).logs():
            try:
                rows = log.to_table(columns=["offset"], isolation_level=level)
            except bl.errors.BrokerlessError:
                continue
            expected[log.topic, log.partition] = rows["offset"].to_pylist()
            assigned.setdefault(log.topic, []).append(log.partition)
        frame = load(path, assign=json.dumps(assigned), kafka__isolation__level=level)
        found = {place: [] for place in expected}
        for topic, partition, offset in frame.select("topic", "partition", "offset").collect():
            found[topic, partition].append(offset)
        assert found == expected, path
        # The same numbers, of tasks that are asked for no column.
        spread = load(path, assign=json.dumps(assigned), kafka__isolation__level=level, minPartitions=len(expected))
        task = f.spark_partition_id()
        with_columns = spread.select(task.alias("task"), "offset").groupBy("task").agg(f.count("offset"))
        without = spread.groupBy(task.alias("task")).count()
        counted = dict(map(tuple, without.collect()))
        assert counted == dict(map(tuple, with_columns.collect())), path
        assert sum(counted.values()) == spread.count() == sum(map(len, expected.values())), path


@with_jar
def test_a_running_session_takes_the_jar(golden, monkeypatch):
    """Once or again, and so does a second session. And the rows are those of the Python source."""
    monkeypatch.delenv("BROKERLESS_JAR", raising=False)
    done = run(
        f"""
        for session in (spark, spark, spark.newSession()):
            session.sql("ADD JAR '{JAR}'")
            frame = session.read.format("brokerless").option("includeHeaders", "true").load(PATH)
            assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()
            print("rows", frame.count())
        """,
        golden / "logs/kafka-4.1/codec-mixed-0",
    )
    assert done.stdout.count("rows 605") == 3, done.stderr


@with_jar
@pytest.mark.parametrize(("loss", "expected"), [("true", "ColumnarToRow"), ("false", "Python")])
def test_a_stream_is_read_in_the_jvm_unless_it_goes_on_without_lost_logs(spark, topics, tmp_path, loss, expected):
    reader = spark.readStream.format("brokerless").option("startingOffsets", "earliest")
    frame = reader.option("failOnDataLoss", loss).load(str(topics))
    query = frame.writeStream.format("memory").queryName(f"loss_{loss}").trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    plan = query._jsq.explainInternal(True)
    assert ("ColumnarToRow" in plan) == (expected == "ColumnarToRow"), plan
    found = spark.table(f"loss_{loss}").selectExpr("topic", "partition", "offset").collect()
    assert len(found) == len(set(found)) == sum(bl.Log(path).to_table().num_rows for path in topics.iterdir())


@with_jar
def test_a_table_of_the_catalog(spark, topics):
    """Spark passes a table's options to no Python source."""
    spark.sql(f"CREATE TABLE of_logs USING brokerless OPTIONS (path '{topics}', subscribe 'codec-mixed')")
    try:
        assert spark.sql("SELECT count(*), max(offset) FROM of_logs").first() == (605, 604)
        assert spark.table("of_logs").where("offset < 10").count() == 10
        described = {row.col_name: row.data_type for row in spark.sql("DESCRIBE of_logs").collect()}
        assert described["value"] == "binary"
    finally:
        spark.sql("DROP TABLE of_logs")
    assert bl.LogDirs(topics).topics() == ["codec-mixed", "codec-none", "codec-zstd"]


@with_jar
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_python_function_that_needs_only_some_rows(spark, topics, load):
    """The end of the task closes the reader while the function has rows."""

    def same(batches):
        yield from batches

    for _ in range(20):
        frame = load(topics, minPartitions="8").select("offset", "value")
        assert len(frame.mapInArrow(same, "offset long, value binary").limit(5).collect()) == 5


@with_jar
def test_a_script_that_needs_only_some_rows(spark, tmp_path, load):
    """Spark gives it the rows in a thread that goes on after the end of the task, which closes the reader."""
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"x" * 500} for _ in range(100_000)])
    load(tmp_path / "d").selectExpr("cast(value as string) text").createOrReplaceTempView("texts")
    # It prints at once what Spark waits for, and takes the rest.
    script = """awk "NR <= 5 { print; fflush() }" """
    some = f"SELECT TRANSFORM(text) USING '{script}' AS (text string) FROM texts LIMIT 5"
    for _ in range(10):
        assert [row.text for row in spark.sql(some).collect()] == ["x" * 500] * 5
    assert load(tmp_path / "d").count() == 100_000
