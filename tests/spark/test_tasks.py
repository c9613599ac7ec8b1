"""Planning and reading as Spark's Python workers do it, in this process: what is said, and how work is packed."""

import gc
import pickle
import struct
import warnings

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.spark.data_source import BrokerlessSource
from brokerless.spark.sink.batch_sink import write_parts
from brokerless.spark.source import findings, records, tasks
from brokerless.spark.source.options import Options
from brokerless.spark.source.tasks import WorkItem, pack
from support import log_files
from support.metadata_images import image_of
from support.write_tasks import begin, send


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


def test_a_commit_that_comes_while_a_read_is_planned_is_in_all_partitions_or_in_none(tmp_path, monkeypatch):
    path, partitions = tmp_path / "d", pa.array([0, 1, 2], pa.int32())
    committed = []

    def commit():
        write, staging = begin(path, partitions=3)
        write.commit(send(staging, *[len(committed)] * 3, partition=partitions))
        committed.append(None)

    commit()
    pieces_of = records.pieces_of

    def interrupted(log, **arguments):
        if log.partition == 1 and len(committed) == 1:
            commit()
        return pieces_of(log, **arguments)

    monkeypatch.setattr(records, "pieces_of", interrupted)
    found = [(row["partition"], row["offset"]) for rows in read(path) for row in rows.to_pylist()]
    assert found == [(number, offset) for number in range(3) for offset in range(2)]


@pytest.mark.parametrize("kind", ["read", "write"])
def test_collections_in_a_worker_pass_over_what_it_has_imported(golden, tmp_path, kind):
    """Spark's worker collects after each task: for a small one that would be most of its time."""
    staging = begin(tmp_path / "d")[1]

    def task():
        return read(golden / "logs/kafka-4.1/nulls-0") if kind == "read" else write_parts(staging, [], ["value"])

    tasks.keep_modules.cache_clear()
    gc.unfreeze()
    try:
        task()
        assert gc.get_freeze_count() > 1000
        count = gc.get_freeze_count()
        made = [[number] for number in range(10_000)]
        task()
        assert gc.get_freeze_count() < count + len(made), "what is made later is collected"
    finally:
        gc.unfreeze()


def test_a_read_notes_offsets_that_are_remote_or_deleted(golden):
    with pytest.warns(UserWarning, match="tiered-zstd-0 has no offsets 0 to 671 here"):
        read(golden / "logs/kafka-4.1-tiered/tiered-zstd-0")


def test_lost_offsets_are_said(golden):
    with pytest.warns(UserWarning, match="lost: offsets 408 to"):
        read(golden / "logs/kafka-4.1-crashed/crash-zstd-0", onCorrupt="skip")


def test_offsets_out_of_range_are_said_when_they_are_no_error(golden):
    options = {"startingOffsets": '{"nulls":{"0":70}}', "endingOffsets": '{"nulls":{"0":99}}'}
    with pytest.warns(UserWarning, match="end offset 99 of nulls-0 is beyond the log end offset 80"):
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
    pieces = [WorkItem(None, 100 << 10)] * 10
    assert sizes(pack(pieces, 1 << 20, options_with())) == [6, 4]
    assert sizes(pack([WorkItem(None, 9 << 20)] * 3, 1 << 20, options_with())) == [1, 1, 1]
    assert sizes(pack([], 1 << 20, options_with())) == [0]


def test_packing_by_records():
    pieces = [WorkItem(None, 10, 40), WorkItem(None, 10, 60), WorkItem(None, 10, 1), WorkItem(None, 10, 100)]
    assert sizes(pack(pieces, 1 << 30, options_with(maxRecordsPerPartition="100"))) == [2, 1, 1]


def test_a_hundred_thousand_tiny_segments_are_some_tasks():
    pieces = [WorkItem(None, 1000)] * 100_000
    target = tasks.target_bytes([piece.size for piece in pieces], options_with())
    assert len(pack(pieces, target, options_with())) < 100


def test_several_tasks_for_each_core(monkeypatch):
    monkeypatch.setattr("brokerless.spark.source.tasks.cores", lambda: 4)
    assert tasks.target_bytes([400 << 20], options_with()) >> 20 == 50
    assert tasks.target_bytes([1 << 20], options_with()) == 4 << 20
    assert tasks.target_bytes([1 << 40], options_with()) == 256 << 20
    assert tasks.target_bytes([400 << 20], options_with(minPartitions="100")) * 11 // 10 >> 20 == 4


@pytest.mark.parametrize("least", [11, 12, 30])
def test_as_many_tasks_as_are_asked_for(tmp_path, least):
    """Pieces may be a tenth larger than they should be, and still there are not fewer tasks."""
    with bl.create_log_dir(tmp_path) as log_dir:
        log_dir.create_topic("t", index_interval_bytes=0)
        for _ in range(1000):
            log_dir.log("t", 0).append(log_files.batch(0, [b"x" * 10_000]))
    planned = reader_of(tmp_path, minPartitions=str(least)).partitions()
    assert least <= len(planned) <= least * 1.2


def test_an_empty_selection_is_one_task_without_work(golden):
    """Spark would turn an empty list into a partition of its own, which no reader of ours knows."""
    reader = reader_of(golden / "logs/kafka-4.1", subscribePattern="nothing")
    (task,) = reader.partitions()
    assert list(reader.read(task)) == []


def rows_of_pieces(path, most):
    """Return the offsets that each piece of each task gives."""
    reader = reader_of(path, maxRecordsPerPartition=str(most), columns="offset")
    parts = reader.partitions()
    assert len(parts) < 100
    return [[offset for rows in reader.read(task) for offset in rows["offset"].to_pylist()] for task in parts]


@pytest.mark.parametrize("name", ["v0-none-huge-offset", "v1-none-huge-offset", "v2-none-huge-offsets"])
def test_offsets_far_apart_are_not_as_many_pieces(name, golden, tmp_path):
    partition = tmp_path / "sparse-0"
    partition.mkdir()
    huge = (golden / "batches" / f"{name}.bin").read_bytes()
    (partition / f"{0:020d}.log").write_bytes(log_files.batch(0, [b"x"] * 5))
    # No segment has both.
    (partition / f"{int.from_bytes(huge[:8]):020d}.log").write_bytes(huge)
    found = rows_of_pieces(partition, 2)
    everything = [offset for rows in read(partition, columns="offset") for offset in rows["offset"].to_pylist()]
    assert [offset for rows in found for offset in rows] == everything
    assert max(map(len, found)) <= 2


def test_gaps_do_not_put_more_records_into_a_task(tmp_path):
    batches = [log_files.batch(i * 1_000_000_000, [b"x"] * 3) for i in range(20)]
    log_files.write_segment(tmp_path / "sparse-0", 0, batches, indexed=False)
    for path in (tmp_path / "sparse-0", tmp_path / "sparse-0" / f"{0:020d}.log"):
        found = rows_of_pieces(path, 7)
        offsets = [i * 1_000_000_000 + j for i in range(20) for j in range(3)]
        assert [offset for rows in found for offset in rows] == offsets
        assert [len(rows) for rows in found] == [6] * 10


def test_a_batch_that_claims_all_offsets_is_not_as_many_pieces(tmp_path):
    claim = log_files.batch(0, [b"x"] * 30, last_offset_delta=(1 << 31) - 1)
    log_files.write_segment(tmp_path / "claim-0", 0, [claim])
    reader = reader_of(tmp_path / "claim-0", maxRecordsPerPartition="2")
    parts = reader.partitions()
    assert len(parts) < 10_000


def test_findings_come_in_pieces(copied, monkeypatch):
    """All that is wrong with a damaged disk may be more than a task has memory for."""
    path = copied("kafka-4.1", "codec-none-0")
    monkeypatch.setattr(findings, "_ROWS", 2)
    for file in path.glob("*.log"):
        content = file.read_bytes()
        file.write_bytes(content[:61] + b"\x7f" + content[62:-3])
    pieces = [batch.num_rows for batch in read(path, view="findings")]
    assert len(pieces) > 1
    assert set(pieces[:-1]) == {2}


def test_a_partition_without_anything_to_read_is_no_task(tmp_path):
    with bl.Producer(tmp_path, "t", partitions=2) as producer:
        producer.send([{"value": b"a", "partition": 0}])
    found = read(tmp_path, maxRecordsPerPartition="5")
    assert [rows.num_rows for rows in found] == [1]


def test_rows_that_may_never_have_been_committed_are_named(tmp_path, monkeypatch):
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"v"}] * 10)
    (tmp_path / "d" / checkpoints.HIGH_WATERMARKS).write_text("0\n1\nt 0 5\n")
    image = image_of({("t", 0): (1, 2)})
    monkeypatch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)
    monkeypatch.setattr("brokerless.metadata.topic_settings.bootstrap", lambda *_: None)
    with pytest.warns(UserWarning, match="not known whether offsets 5 to 9 of t-0 were committed"):
        records.plan(Options.parse({"path": str(tmp_path / "d")}))
    for end in ("latest", '{"t": {"0": 10}}'):
        with pytest.warns(UserWarning, match="not known whether offsets 5 to 9 of t-0 were committed"):
            records.plan(Options.parse({"path": str(tmp_path / "d"), "endingOffsets": end}))
    for end in ("high-watermark", '{"t": {"0": 5}}'):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            records.plan(Options.parse({"path": str(tmp_path / "d"), "endingOffsets": end}))
