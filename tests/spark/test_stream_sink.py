"""The sink of streams as a Spark user meets it: every row once, from restart to restart."""

import json

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.layout import streaming_epochs
from support.write_tasks import begin

pytest.importorskip("pyspark")

from brokerless.spark.sink.batch_sink import write_parts
from brokerless.spark.stream.stream_reader import IS_ADMISSION_CONTROLLED


@pytest.fixture
def source(tmp_path):
    send(tmp_path / "source", range(100))
    return tmp_path / "source"


def send(path, numbers, topic="s"):
    with bl.Producer(path, topic, partitions=3) as producer:
        producer.send([{"key": b"%d" % i, "value": b"%d" % i} for i in numbers])


def values(path, topic="t"):
    found = bl.LogDirs(path)
    logs = found.logs([topic]) if topic in found.topics() else []
    return sorted(
        int(value) for log in logs for rows in log.read(columns=["value"]) for value in rows["value"].to_pylist()
    )


@pytest.fixture
def run(spark, source, tmp_path):
    """Return a function that follows the source into `d` with what is there now, in one or several epochs."""

    def run(prepare=lambda frame: frame.select("key", "value"), mode="append", per_epoch=None, **options):
        reader = spark.readStream.format("brokerless").option("path", str(source)).option("subscribe", "s")
        if per_epoch and IS_ADMISSION_CONTROLLED:
            reader = reader.option("maxOffsetsPerTrigger", per_epoch)
        frame = prepare(reader.option("startingOffsets", "earliest").load())
        writer = frame.writeStream.format("brokerless").outputMode(mode).trigger(availableNow=True)
        options = {"topic": "t", "checkpointLocation": str(tmp_path / "checkpoint"), **options}
        for name, value in options.items():
            if value is not None:
                writer = writer.option(name, value)
        query = writer.start(str(tmp_path / "d"))
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return query

    return run


def test_every_row_is_written_once_over_restarts(run, source, tmp_path):
    query = run(partitions=3, per_epoch=40)
    assert values(tmp_path / "d") == list(range(100))
    last = streaming_epochs.committed(str(tmp_path / "d"))
    assert list(last) == [query.id]
    assert last[query.id] >= IS_ADMISSION_CONTROLLED
    run(partitions=3)
    assert values(tmp_path / "d") == list(range(100))
    send(source, range(100, 150))
    # others write here meanwhile
    send(tmp_path / "d", range(1000, 1003), topic="t")
    run(partitions=3)
    assert values(tmp_path / "d") == [*range(150), 1000, 1001, 1002]
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean
    assert not list((tmp_path / "d").glob("*-delete"))


def forget(checkpoint, epochs=1):
    """Take back what Spark knows of its last epochs' commits, as if its driver had died before it wrote that down."""
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in commits[-epochs:]:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.driver
def test_an_epoch_that_spark_repeats_is_recognised(run, source, tmp_path):
    run()
    forget(tmp_path / "checkpoint")
    send(source, range(100, 120))
    run()
    # with 4.1 the repeated epoch was all that this did
    run()
    assert values(tmp_path / "d") == list(range(120))
    # another query, or the same without its checkpoint, writes anew
    run(checkpointLocation=str(tmp_path / "another"))
    assert values(tmp_path / "d") == sorted([*range(120)] * 2)


@pytest.mark.driver
def test_a_checkpoint_that_is_an_old_copy_is_an_error(run, source, tmp_path):
    run()
    path = next((tmp_path / "d").glob(streaming_epochs.FILE))
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "epochs": dict.fromkeys(known["epochs"], 5)}))
    send(source, range(100, 120))
    with pytest.raises(Exception, match="its checkpoint is an old copy"):
        run()
    assert values(tmp_path / "d") == list(range(100))
    assert not list((tmp_path / "d").glob("*-delete"))


def test_mode_complete_makes_the_topic_anew_each_time(run, source, tmp_path):
    def counted(frame):
        numbers = frame.selectExpr("cast(cast(value as string) as int) % 3 number")
        return numbers.groupBy("number").count().selectExpr("cast(number as string) key", "cast(count as string) value")

    run(counted, mode="complete", partitions=2)
    assert values(tmp_path / "d") == [33, 33, 34]
    before = bl.LogDirs(tmp_path / "d").log("t", 0).topic_id
    send(source, range(100, 130))
    run(counted, mode="complete", partitions=2)
    assert values(tmp_path / "d") == [43, 43, 44]
    assert bl.LogDirs(tmp_path / "d").log("t", 0).topic_id != before
    with pytest.raises(Exception, match="each epoch recreates the topic"):
        run(counted, mode="complete", topicId="AAECAwQFBgcICQoLDA0ODw", checkpointLocation=str(tmp_path / "another"))


def test_rows_go_to_the_topics_of_their_column(run, tmp_path):
    run(lambda frame: frame.selectExpr("value", "concat('t-', partition % 2) topic"), topic=None)
    assert sorted(values(tmp_path / "d", "t-0") + values(tmp_path / "d", "t-1")) == list(range(100))


def test_a_stream_keeps_a_copy_of_a_log_up_to_date(run, source, tmp_path):
    columns = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value"]

    def rows(path):
        return [
            row for log in bl.LogDirs(path).logs() for rows in log.read(columns=columns) for row in rows.to_pylist()
        ]

    for _ in range(2):
        run(lambda frame: frame.select(columns), topic=None, keepOffsets="true", partitions=3)
        assert rows(tmp_path / "d") == rows(source)
        send(source, range(100, 150))


@pytest.mark.driver
def test_epochs_without_rows_are_harmless(run, source, tmp_path):
    def none(frame):
        return frame.where("value = 'no such value'").select("key", "value")

    query = run(none)
    assert values(tmp_path / "d") == []
    assert streaming_epochs.committed(str(tmp_path / "d")) == {query.id: 0}
    forget(tmp_path / "checkpoint")
    send(source, range(100, 120))
    run(none)
    run(none)
    assert streaming_epochs.committed(str(tmp_path / "d")) == {query.id: 1}


def test_an_epoch_that_fails_leaves_nothing_once_one_is_committed(run, tmp_path):
    """Nor does each restart leave another directory until then: Spark kills a task's Python without a word."""
    for _ in range(2):
        with pytest.raises(Exception, match="no such row"):
            run(lambda frame: frame.selectExpr("if(value = '77', raise_error('no such row'), value) value"))
        assert len(list((tmp_path / "d").glob("*-delete"))) <= 1
    assert values(tmp_path / "d") == []
    run()
    assert values(tmp_path / "d") == list(range(100))
    assert not list((tmp_path / "d").glob("*-delete"))


@pytest.mark.driver
def test_a_task_that_fails_takes_its_parts_with_it_and_no_others(tmp_path):
    _, staging = begin(tmp_path / "d")
    rows = pa.RecordBatch.from_pydict({"value": [b"x" * (5 << 20)]})

    def failing():
        yield rows
        assert sum(path.is_file() for path in parts.iterdir()) == len(before) + 1
        raise RuntimeError("no more rows")

    write_parts(staging, [rows], ["value"], "q")
    (parts,) = (tmp_path / "d").glob("*-delete/parts")
    before = sorted(parts.iterdir())
    with pytest.raises(RuntimeError, match="no more rows"):
        write_parts(staging, failing(), ["value"], "q")
    assert sorted(parts.iterdir()) == before


def test_an_epoch_that_cannot_begin_says_why(run, tmp_path):
    """PySpark makes a PicklingError of it, unless it is a task that raises."""
    send(tmp_path / "d", range(3), topic="t")
    with pytest.raises(Exception, match="partitions") as refused:
        run(partitions=5)
    assert "ValueError: " in str(refused.value)
    assert "PicklingError" not in str(refused.value)


@pytest.mark.driver
def test_options_of_a_new_topic_may_stay(run, source, tmp_path):
    options = {"topicId": "AAECAwQFBgcICQoLDA0ODw", "segmentBytes": 1 << 20, "partitions": 2}
    run(per_epoch=40, **options)
    run(**options)
    assert values(tmp_path / "d") == list(range(100))
    assert bl.LogDirs(tmp_path / "d").log("t", 0).topic_id == options["topicId"]


@pytest.mark.driver
def test_options_that_cannot_be(run):
    for options, message in (
        ({"topics": "t"}, "unknown option 'topics'"),
        ({"topic": None}, "there is no column topic"),
        ({"partitions": 0}, "partitions must be positive"),
    ):
        with pytest.raises(Exception, match=message):
            run(**options)
