"""Exports of decoded keys and values, as their tasks make them, in this process."""

import json
import struct

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.cli import main
from brokerless.notes import collected
from brokerless.spark import export as export_warning
from brokerless.spark import restore
from brokerless.spark.source.spark_types import spark_column
from support.spark_stand_in import FailedError, Here, failing_at

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEWER = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
EMPTY = {"type": "record", "name": "Order", "fields": []}
REGISTRY = {"decode": "value=registry"}
FINE = {"minPartitions": "100"}


def register(path, version, schema, topic="t"):
    """Write what a registry writes: the id is the version."""
    key = {"keytype": "SCHEMA", "subject": f"{topic}-value", "version": version, "magic": 1}
    value = {"subject": f"{topic}-value", "version": version, "id": version, "schema": json.dumps(schema)}
    with bl.Producer(path, "_schemas", partitions=1) as producer:
        producer.send([{"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}])


@pytest.fixture
def orders(tmp_path):
    """A topic of two partitions; the third value of each is cut, and the fourth is a tombstone."""
    path = tmp_path / "d"
    register(path, 1, ORDER)
    name = struct.pack(">bi", 0, 1)
    with bl.Producer(path, "t", partitions=2) as producer:
        for body in (b"\x02", b"\x04", b"", None):
            value = None if body is None else name + body
            producer.send([{"key": b"k", "value": value, "partition": number} for number in (0, 1)])
    return str(path)


def export(*args, **kwargs):
    """Export without warnings: the report has the notes."""
    with collected():
        return export_warning(*args, **kwargs)


def rows_of(to):
    table = ds.dataset(str(to), partitioning="hive").to_table()
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def test_a_row_that_does_not_decode_keeps_its_bytes(orders, tmp_path):
    found = export(Here(), orders, tmp_path / "e", topics=["t"], options={**REGISTRY, **FINE})
    rows = rows_of(tmp_path / "e")
    assert rows["value"].to_pylist() == [{"id": 1}, {"id": 2}, None, None] * 2
    assert rows["valueBytes"].to_pylist() == [None, None, b"\0\0\0\0\x01", None] * 2
    assert [error is None for error in rows["decodeError"].to_pylist()] == [True, True, False, True] * 2
    assert rows["key"].to_pylist() == [b"k"] * 8
    # One note for all tasks, and also in the report of a run that does nothing.
    (text,) = found.notes
    assert text.startswith("t: 2 values do not decode, the first at t-0, offset 2: the body ends")
    again = Here()
    assert export(again, orders, tmp_path / "e", topics=["t"], options={**REGISTRY, **FINE}).notes == found.notes
    assert again.made == []


def test_rows_that_do_not_decode_are_left_out_or_an_error(orders, tmp_path):
    options = {**REGISTRY, "columns": "value"}
    found = export(Here(), orders, tmp_path / "e", topics=["t"], options={**options, "onDecodeError": "skip"})
    assert [partition.rows for partition in found.partitions] == [3, 3]
    assert rows_of(tmp_path / "e")["offset"].to_pylist() == [0, 1, 3] * 2
    with pytest.raises(bl.errors.RecordDeserializationError, match="t-0, offset 2"):
        export(Here(), orders, tmp_path / "x", topics=["t"], options={**options, "onDecodeError": "raise"})
    assert not list(tmp_path.glob("x/topic=t/*/*"))


def test_a_resumed_export_decodes_as_it_began(orders, tmp_path):
    options = {**REGISTRY, **FINE}
    with pytest.raises(FailedError):
        export(Here(failing_at(1)), orders, tmp_path / "e", topics=["t"], options=options)
    for other in (
        FINE,
        {"decode": "value=registry,key=utf8", **FINE},
        {**options, "schema": "writer"},
        {**options, "schema": "1"},
        {**options, "subject": "t-value"},
        {**options, "onDecodeError": "skip"},
    ):
        with pytest.raises(ValueError, match="has another export"):
            export(Here(), orders, tmp_path / "e", topics=["t"], options=other)
    again = Here()
    found = export(again, orders, tmp_path / "e", topics=["t"], options=options)
    assert (again.made, found.skipped) == ([1], 1)
    assert len(rows_of(tmp_path / "e")) == 8
    register(orders, 2, NEWER)
    with pytest.raises(ValueError, match="or the logs or the newest schemas have changed"):
        export(Here(), orders, tmp_path / "e", topics=["t"], options=options)


def test_a_decoded_export_is_not_restored(orders, tmp_path):
    for form in ("parquet", "json"):
        export(Here(), orders, tmp_path / form, topics=["t"], format=form, options={"decode": "value=hex,key=utf8"})
        with pytest.raises(ValueError, match="has decoded keys and values, not the stored bytes"):
            restore(Here(), tmp_path / form, tmp_path / "r")
        assert not (tmp_path / "r").exists()


def test_values_of_several_topics_are_json_text(orders, tmp_path):
    register(orders, 3, NEWER, "u")
    with bl.Producer(orders, "u", partitions=1) as producer:
        producer.send([{"value": struct.pack(">bi", 0, 3) + b"\x06\x02x"}])
    export(Here(), orders, tmp_path / "e", options={**REGISTRY, "columns": "value"})
    values = {text for text in rows_of(tmp_path / "e")["value"].to_pylist() if text is not None}
    assert values == {'{"id":1}', '{"id":2}', '{"id":3,"note":"x"}'}
    with pytest.raises(ValueError, match="takes the versions of one subject, and the topics have several"):
        export(Here(), orders, tmp_path / "x", options={**REGISTRY, "schema": "latest"})
    assert not (tmp_path / "x").exists()


def test_a_type_that_parquet_lacks_is_refused_before_the_export_begins(orders, tmp_path):
    register(orders, 2, EMPTY)
    with pytest.raises(ValueError, match="Cannot write struct type 'value' with no child field to Parquet"):
        export(Here(), orders, tmp_path / "e", topics=["t"], options=REGISTRY)
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("topic", ["avro-types", "proto-purchase", "json-orders"])
def test_rows_are_those_of_other_reads(registries, tmp_path, topic, capfd):
    path = registries / "confluent/logs"
    options = {"decode": "value=registry,key=registry"}
    columns = ["offset", "key", "keyBytes", "value", "valueBytes", "decodeError", "valueSubject", "valueVersion"]
    export(Here(), path, tmp_path / "e", topics=[topic], options=options | {"columns": ",".join(columns)})
    export(Here(), path, tmp_path / "j", topics=[topic], format="json", options=options)
    with collected():
        expected = bl.LogDirs(path).to_table([topic], decode=options["decode"], columns=["partition", *columns])
    found = rows_of(tmp_path / "e").select(["partition", *columns])
    expected = expected.sort_by([("partition", "ascending"), ("offset", "ascending")])
    for name in columns:
        # To Arrow, a file has no intervals: Spark's types are in its metadata.
        wanted = spark_column(expected[name].combine_chunks(), found[name].type)
        assert list(map(str, found[name].to_pylist())) == list(map(str, wanted.to_pylist()))
    with pytest.raises(SystemExit):
        main(["read", str(path), "--topic", topic, "--decode", options["decode"]])
    lines = {line for file in tmp_path.glob("j/*/*/*.json") for line in file.read_text().splitlines()}
    assert lines == set(capfd.readouterr().out.splitlines())


def test_fields_that_repeat_have_a_dictionary_and_numbers_their_limits(orders, tmp_path):
    export(Here(), orders, tmp_path / "e", topics=["t"], options=REGISTRY)
    group = pq.ParquetFile(next(tmp_path.glob("e/*/*/*.parquet"))).metadata.row_group(0)
    found = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    assert "RLE_DICTIONARY" in found["value.id"].encodings
    assert (found["value.id"].statistics.min, found["value.id"].statistics.max) == (1, 2)
    assert found["valueBytes"].statistics is None
