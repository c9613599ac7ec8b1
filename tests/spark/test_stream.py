"""Spark follows a log directory: every record once, from restart to restart."""

import contextlib
import shutil

import pyarrow as pa
import pytest

import brokerless as bl

pytest.importorskip("pyspark")

from brokerless.spark.source.options import Options
from brokerless.spark.source.records import SCHEMA
from brokerless.spark.stream import stream_reader as readers
from brokerless.spark.stream.stream_reader import IS_ADMISSION_CONTROLLED, stream_reader


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data"
    send(path, range(100))
    return path


def send(path, numbers, topic="t"):
    with bl.Producer(path, topic, partitions=3, compression="zstd", batch_size=200) as producer:
        producer.send([{"key": b"%d" % i, "value": b"%d" % i} for i in numbers])


@contextlib.contextmanager
def query(spark, path, tmp_path, trigger, **options):
    reader = spark.readStream.format("brokerless").option("path", str(path))
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    rows = reader.load().selectExpr("cast(value as string) value", "topic", "partition", "offset", "timestamp")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writer.trigger(**trigger).start(str(tmp_path / "out"))
    try:
        yield running
    finally:
        running.stop()


def run(spark, path, tmp_path, **options):
    with query(spark, path, tmp_path, {"availableNow": True}, startingOffsets="earliest", **options) as running:
        assert running.awaitTermination(120)
        return running.recentProgress


def written(spark, tmp_path):
    return sorted(int(row.value) for row in spark.read.parquet(str(tmp_path / "out")).collect())


def test_every_record_arrives_once_over_restarts(spark, path, tmp_path):
    run(spark, path, tmp_path)
    assert written(spark, tmp_path) == list(range(100))
    run(spark, path, tmp_path)
    assert written(spark, tmp_path) == list(range(100))
    send(path, range(100, 150))
    send(path, range(150, 200), topic="u")
    run(spark, path, tmp_path)
    assert written(spark, tmp_path) == list(range(200))


@pytest.mark.skipif(not IS_ADMISSION_CONTROLLED, reason="PySpark 4.1 does not ask how much")
def test_batches_are_as_small_as_asked_for(spark, path, tmp_path):
    progress = run(spark, path, tmp_path, maxOffsetsPerTrigger=30)
    assert written(spark, tmp_path) == list(range(100))
    sizes = [batch["numInputRows"] for batch in progress]
    assert len([size for size in sizes if size]) >= 4
    assert max(sizes) <= 32


def test_a_running_query_sees_what_comes(spark, path, tmp_path):
    options = {"startingOffsets": "earliest"}
    with query(spark, path, tmp_path, {"processingTime": "100 milliseconds"}, **options) as running:
        running.processAllAvailable()
        assert written(spark, tmp_path) == list(range(100))
        send(path, range(100, 130))
        running.processAllAvailable()
    assert written(spark, tmp_path) == list(range(130))


@pytest.mark.driver
def test_loss_ends_the_query_with_its_reason(spark, path, tmp_path):
    run(spark, path, tmp_path)
    send(path, range(100, 400))
    (path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    with pytest.raises(Exception, match="retention deleted"):
        run(spark, path, tmp_path)
    run(spark, path, tmp_path, failOnDataLoss="false")


@pytest.mark.driver
def test_what_a_stream_cannot_have_is_said_by_our_own_error(spark, path, tmp_path):
    """PySpark covers up what is raised while a reader is made: with an UnboundLocalError."""
    with pytest.raises(Exception, match="endingTimestamp gives an end") as refused:
        run(spark, path, tmp_path, endingTimestamp="5")
    assert "UnboundLocalError" not in str(refused.value)


@pytest.mark.driver
@pytest.mark.parametrize("limited", {False, IS_ADMISSION_CONTROLLED})
def test_what_is_deleted_between_plan_and_read_is_loss(path, limited):
    kind = type(stream_reader(None)) if limited else readers._UnlimitedReader

    def reader(**options):
        parsed = Options.parse({"path": str(path), "startingOffsets": "earliest", **options})
        return kind(lambda: (parsed, pa.schema([SCHEMA.field("value")])))

    send(path, range(100, 200), topic="u")
    reading = reader()
    tasks = reading.partitions(reading.initialOffset(), {name: {str(i): 1 for i in range(3)} for name in "tu"})
    shutil.rmtree(path / "u-1")
    with pytest.raises(FileNotFoundError, match="deleted, truncated or replaced"):
        [list(reading.read(task)) for task in tasks]
    with pytest.warns(UserWarning, match=r"some data may be lost \(failOnDataLoss is false\).*u-1"):
        rows = [rows for task in tasks for rows in reader(failOnDataLoss="false").read(task)]
    assert sum(len(values) for values in rows) == 5
    # one that is only moved aside for an instant, or has been cleaned, is not
    for log in (path / "t-0").glob("*.log"):
        log.rename(log.with_suffix(".moved"))
    with pytest.raises(FileNotFoundError, match="deleted, truncated or replaced"):
        [list(reader(failOnDataLoss="false").read(task)) for task in tasks]
    # nor is a machine that does not see the path
    shutil.rmtree(path)
    with pytest.raises(FileNotFoundError):
        [list(reader(failOnDataLoss="false").read(task)) for task in tasks]
