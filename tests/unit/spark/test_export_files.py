"""What is in the files of an export: the rows of the source, whatever reads them."""

import random
import struct

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless import _native
from brokerless.log.reader import SparkReader
from brokerless.spark import export
from brokerless.spark.jobs.export_directory import ExportDirectory
from brokerless.spark.jobs.formats import JSON_COLUMNS, RESTORED_COLUMNS, reading
from brokerless.spark.jobs.manifest import Manifest
from support.damage import flip_bit
from support.log_files import NOW
from support.spark_stand_in import Here


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    "log_dir", ["kafka-4.1", "kafka-2.8-mixed", "kafka-2.8-v0", "kafka-2.8-v1", "kafka-4.1-tiered"]
)
@pytest.mark.filterwarnings("ignore:.* has no offsets")
def test_parquet_has_the_rows_of_the_source(golden, tmp_path, log_dir, level):
    """Nulls, tombstones, duplicate headers, and the lineage of every row."""
    options = {"kafka.isolation.level": level}
    found = export(Here(), str(golden / "logs" / log_dir), str(tmp_path / "e"), options=options)
    logs = [log for log in bl.LogDirs(golden / "logs" / log_dir).logs() if not log.topic.startswith("__")]
    assert [(p.topic, p.partition) for p in found.partitions] == [(log.topic, log.partition) for log in logs]
    columns = [name for name in _native.ROW_COLUMNS if name not in ("topic", "partition")]
    for log, report in zip(logs, found.partitions, strict=True):
        expected = [
            row
            for rows in SparkReader(log.plan(isolation_level=level, target_bytes=None), columns)
            for row in rows.to_pylist()
        ]
        files = sorted((tmp_path / "e" / f"topic={log.topic}" / f"partition={log.partition}").glob("*"))
        rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        paths = {segment.path for segment in log.segments}
        for row in rows:
            assert row.pop("path") in paths
            assert row.pop("timestampMillis") is None
        assert rows == expected, log.name
        assert (report.rows, report.bytes) == (len(rows), sum(file.stat().st_size for file in files))
        partition = Manifest.read(ExportDirectory(str(tmp_path / "e"))).topics[log.topic].partitions[log.partition]
        assert partition.start_offset == log.local_log_start_offset
        assert partition.end_offset == (log.log_end_offset if level == "read_uncommitted" else log.last_stable_offset)


@pytest.mark.parametrize(("form", "compression"), [("json", None), ("json", "gzip"), ("parquet", None)])
def test_what_is_written_is_read_back(golden, tmp_path, form, compression):
    """As restored records are made of it: exact bytes, times in ms, headers."""
    path = str(golden / "logs/kafka-4.1")
    export(Here(), path, str(tmp_path / "e"), format=form, compression=compression)
    for log in bl.LogDirs(path).logs():
        files = sorted((tmp_path / "e" / f"topic={log.topic}" / f"partition={log.partition}").glob("*"))
        found = [row for file in files for rows in reading(str(file), form) for row in _plain(rows)]
        expected = [row for rows in log.read(columns=RESTORED_COLUMNS) for row in _plain(rows)]
        assert found == (expected if not log.topic.startswith("__") else [])


def _plain(rows):
    times = rows["timestamp"].cast("int64").to_pylist()
    return [
        {**row, "timestamp": time, "headers": row["headers"] or []}
        for row, time in zip(rows.drop_columns("timestamp").to_pylist(), times, strict=True)
    ]


def test_json_lines_are_those_of_read(golden, tmp_path):
    log = bl.Log(golden / "logs/kafka-4.1/headers-0")
    export(Here(), log.path, str(tmp_path / "e"), format="json")
    (file,) = (tmp_path / "e").glob("*/*/*.json")
    assert file.read_bytes() == b"".join(_native.json_lines(rows) for rows in log.read(columns=JSON_COLUMNS))


def test_pandas_and_others_see_one_table(golden, tmp_path):
    path = golden / "logs/kafka-4.1"
    export(Here(), str(path), str(tmp_path / "e"), topics=["multi-partition"], options={"columns": "value,topic"})
    table = ds.dataset(str(tmp_path / "e"), partitioning="hive").to_table()
    assert sorted(table.column_names) == ["offset", "partition", "topic", "value"]
    expected = sorted(
        (log.partition, row["offset"], row["value"])
        for log in bl.LogDirs(path).logs(["multi-partition"])
        for rows in log.read()
        for row in rows.to_pylist()
    )
    rows = table.to_pylist()
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == expected
    assert {row["topic"] for row in rows} == {"multi-partition"}


def test_times_that_spark_does_not_have_are_kept_beside(copied, tmp_path):
    path = copied("kafka-4.1", "codec-none-0")
    file = min(path.glob("*.log"))
    content = bytearray(file.read_bytes())
    content[27:43] = struct.pack(">qq", (1 << 63) - 1000, (1 << 63) - 1)  # base and max timestamp of the first batch
    file.write_bytes(content)
    export(Here(), str(path), str(tmp_path / "e"), options={"kafka.check.crcs": "false"})
    (file,) = (tmp_path / "e").glob("*/*/*.parquet")
    table = pq.ParquetFile(file).read(columns=["timestamp", "timestampMillis"])
    assert table["timestamp"].null_count == 17
    assert len(table) - table["timestampMillis"].null_count == 17
    expected = [t for rows in bl.Log(path).read(check_crcs=False) for t in rows["timestamp"].cast("int64").to_pylist()]
    assert [t for rows in reading(str(file), "parquet") for t in rows["timestamp"].to_pylist()] == expected


def test_header_keys_that_are_no_text_are_counted(tmp_path):
    """They cannot be as they were: no consumer has them otherwise."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        rows = pa.RecordBatch.from_pydict(
            {
                "value": pa.array([b"1", b"2"]),
                "headers": pa.array(
                    [[{"key": b"a\xff", "value": b"1"}, {"key": b"b", "value": None}], None],
                    pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
                ),
            }
        )
        log_dir.log("t", 0).append(_native.Encoder().encode(rows, timestamp=NOW))
    found = export(Here(), str(tmp_path / "d"), str(tmp_path / "e"))
    assert found.replaced_keys == 1
    (file,) = (tmp_path / "e").glob("*/*/*.parquet")
    (first, second) = pq.ParquetFile(file).read()["headers"].to_pylist()
    assert first == [{"key": "a\ufffd", "value": b"1"}, {"key": "b", "value": None}]
    assert second is None


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_flipped_bit_comes_back_as_no_record(golden, tmp_path, compression):
    """The checksums of a log are made anew when it is restored: what was wrong by then would look right."""
    path = str(golden / "logs/kafka-4.1")
    export(Here(), path, tmp_path / "e", topics=["headers"], compression=compression)
    (file,) = (tmp_path / "e").rglob("*.parquet")
    expected = [row for rows in reading(str(file), "parquet") for row in rows.to_pylist()]
    content, dice = file.read_bytes(), random.Random(compression)
    errors = 0
    for _ in range(100):
        position = dice.randrange(len(content))
        flip_bit(file, position, dice.randrange(8))
        try:
            found = [row for rows in reading(str(file), "parquet") for row in rows.to_pylist()]
        except ValueError as error:
            found, errors = expected if str(file) in str(error) else None, errors + 1
        # How many there are is told by what is no page; a restore counts them.
        assert found == expected[: len(found)]
        file.write_bytes(content)
    assert errors > 50
