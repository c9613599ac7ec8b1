"""Planning and reading as Spark's Python workers do it, in this process: what is said, and how work is packed."""

import pickle
import struct
import warnings

import pytest

pytest.importorskip("pyspark")

from brokerless.spark import tasks
from brokerless.spark.options import Options
from brokerless.spark.source import BrokerlessSource
from brokerless.spark.tasks import Piece, pack


def reader_of(path, **options):
    source = BrokerlessSource(
        {"path": str(path), **{name.replace("__", "."): value for name, value in options.items()}}
    )
    return source.reader(source.schema())


def read(path, **options):
    reader = reader_of(path, **options)
    return [rows for task in pickle.loads(pickle.dumps(reader.partitions())) for rows in reader.read(task)]


def test_timestamps_beyond_sparks_are_null_and_counted(copied):
    path = copied("kafka-4.1", "codec-none-0")
    file = min(path.glob("*.log"))
    content = bytearray(file.read_bytes())
    content[27:43] = struct.pack(">qq", (1 << 63) - 1000, (1 << 63) - 1)  # base and max timestamp of the first batch
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="17 timestamps are beyond Spark's range"):
        batches = read(path, kafka__check__crcs="false")
    assert sum(batch["timestamp"].null_count for batch in batches) == 17


def test_what_is_not_here_is_said(golden):
    with pytest.warns(UserWarning, match="tiered-zstd-0 has no offsets 0 to 671 here"):
        read(golden / "logs/kafka-4.1-tiered/tiered-zstd-0")


def test_lost_offsets_are_said(golden):
    with pytest.warns(UserWarning, match="lost offsets 408 to"):
        read(golden / "logs/kafka-4.1-crashed/crash-zstd-0", onCorrupt="skip")


def test_offsets_out_of_range_are_said_when_they_are_no_error(golden):
    options = {"startingOffsets": '{"nulls":{"0":70}}', "endingOffsets": '{"nulls":{"0":99}}'}
    with pytest.warns(UserWarning, match="end offset 99 of nulls-0 is behind the log end offset 80"):
        batches = read(golden / "logs/kafka-4.1/nulls-0", **options, failOnDataLoss="false")
    assert [row for batch in batches for row in batch["offset"].to_pylist()] == list(range(70, 80))


def test_batches_of_small_segments_are_handed_over_together(golden):
    """Handing over costs as much as some hundred rows: 80 segments are not 80 batches."""
    path = golden / "logs/kafka-4.1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = read(path, includeHeaders="true")
    assert sum(batch.num_rows for batch in batches) == 6741
    assert len(batches) <= 4


def test_every_batch_has_exactly_the_schema_that_spark_was_told(golden):
    """Spark checks the first one only and reads the others' buffers by it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for view in ("records", "batches"):
        source = BrokerlessSource({"path": str(golden / "logs/kafka-4.1"), "view": view})
        told = to_arrow_schema(source.schema(), timezone="UTC")
        reader = source.reader(source.schema())
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        assert batches
        assert all(batch.schema.equals(told) for batch in batches)


def options_with(**options):
    return Options.parse({"path": "/", **options})


def sizes(packed):
    return [len(task.work) for task in packed]


def test_packing_by_bytes():
    pieces = [Piece(None, 100 << 10)] * 10
    assert sizes(pack(pieces, 1 << 20, options_with())) == [6, 4]
    assert sizes(pack([Piece(None, 9 << 20)] * 3, 1 << 20, options_with())) == [1, 1, 1]
    assert sizes(pack([], 1 << 20, options_with())) == [0]


def test_packing_by_records():
    pieces = [Piece(None, 10, 40), Piece(None, 10, 60), Piece(None, 10, 1), Piece(None, 10, 100)]
    assert sizes(pack(pieces, 1 << 30, options_with(maxRecordsPerPartition="100"))) == [2, 1, 1]


def test_a_hundred_thousand_tiny_segments_are_some_tasks():
    pieces = [Piece(None, 1000)] * 100_000
    target = tasks.target_bytes([piece.size for piece in pieces], options_with())
    assert len(pack(pieces, target, options_with())) < 100


def test_several_tasks_for_each_core(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert tasks.target_bytes([400 << 20], options_with()) >> 20 == 50
    assert tasks.target_bytes([1 << 20], options_with()) == 4 << 20
    assert tasks.target_bytes([1 << 40], options_with()) == 128 << 20
    assert tasks.target_bytes([400 << 20], options_with(minPartitions="100")) >> 20 == 4


def test_an_empty_selection_is_one_task_without_work(golden):
    """Spark would turn an empty list into a partition of its own, which no reader of ours knows."""
    reader = reader_of(golden / "logs/kafka-4.1", subscribePattern="nothing")
    (task,) = reader.partitions()
    assert list(reader.read(task)) == []
