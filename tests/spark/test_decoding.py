"""Spark decodes keys and values as every other read does, in types of its own."""

import json
import math
import struct

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException

import brokerless as bl
from brokerless.notes import collected
from brokerless.values.decoding import Decoding

# Schemas of all types, and topics whose values have no one type.
TOPICS = ("avro-types", "proto-purchase", "orders", "deleted-hard", "header-avro", "json-orders", "events-union")
COLUMNS = (
    *("topic", "partition", "offset", "key", "keyBytes", "keyDecodeError", "keySchemaId", "value", "valueBytes"),
    *("decodeError", "valueFraming", "valueSchemaId", "valueSubject", "valueVersion", "timestamp", "headers"),
)


def plain(value):
    """Return a value of Arrow in the form that it has in Spark, where times are numbers."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: plain(value[name]) for name in value}
    if pa.types.is_map(kind):
        return [(plain(key), plain(item)) for key, item in zip(*value.values.flatten(), strict=True)]
    if pa.types.is_list(kind):
        return [plain(one) for one in value.values]
    if pa.types.is_timestamp(kind):
        return value.value * (1000 if kind.unit == "ms" else 1)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return value.value
    found = value.as_py()
    if isinstance(found, float) and math.isnan(found):
        return "NaN"
    return found


def read(spark, path, **options):
    return spark.read.format("brokerless").options(**options).load(str(path))


def rows_of(table):
    rows = [{name: plain(table[name][row]) for name in table.column_names} for row in range(table.num_rows)]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize("schema", [None, "writer", "latest", "union"])
@pytest.mark.parametrize("topic", TOPICS)
def test_spark_decodes_as_other_reads_do(registries, spark, topic, schema):
    path = registries / "confluent/logs"
    options = {} if schema is None else {"schema": schema}
    columns = ",".join(COLUMNS)
    frame = read(spark, path, subscribe=topic, decode="value=registry,key=registry", columns=columns, **options)
    decode = Decoding(value="registry", key="registry", schema=schema)
    with collected():
        expected = bl.LogDirs(path).to_table([topic], decode=decode, columns=COLUMNS)
    found = frame.toArrow()
    assert pa.types.is_string(found.schema.field("value").type) == pa.types.is_string(expected["value"].type)
    for row, other in zip(rows_of(found), rows_of(expected), strict=True):
        # Without headers, Spark's Kafka source has null.
        assert row == other | {"headers": other["headers"] or None}


OF_SPARK = {
    "decBytes": "decimal(20,4)",
    "date": "date",
    "tms": "int",
    "tus": "bigint",
    "tsms": "timestamp",
    "tsus": "timestamp",
    "ltsms": "timestamp_ntz",
    "ltsus": "timestamp_ntz",
    "fx": "binary",
    "m": "map<string,array<double>>",
}


def test_the_types_of_spark(registries, spark):
    frame = read(spark, registries / "confluent/logs", subscribe="avro-types", decode="value=registry")
    assert frame.columns[-2:] == ["valueBytes", "decodeError"]
    types = {field.name: field.dataType.simpleString() for field in frame.schema["value"].dataType}
    assert {name: types[name] for name in OF_SPARK} == OF_SPARK
    frame = read(spark, registries / "confluent/logs", subscribe="proto-purchase", decode="value=registry")
    types = {field.name: field.dataType.simpleString() for field in frame.schema["value"].dataType}
    assert [types[name] for name in ("u32", "u64", "took")] == ["bigint", "decimal(20,0)", "interval day to second"]


V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
V2 = V1 | {"fields": [*V1["fields"], {"name": "note", "type": "string", "default": ""}]}


def register(path, version, schema):
    """Write what a registry writes: the id is the version."""
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": version, "magic": 1}
    value = {"subject": "orders-value", "version": version, "id": version, "schema": json.dumps(schema)}
    with bl.Producer(path, "_schemas", partitions=1) as producer:
        producer.send([{"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}])


def send(path, schema_id, payload):
    with bl.Producer(path, "orders", partitions=1) as producer:
        producer.send([{"value": struct.pack(">bi", 0, schema_id) + payload}])


@pytest.fixture
def growing(tmp_path):
    """A log directory with a value of the first version of its subject."""
    path = tmp_path / "data"
    register(path, 1, V1)
    send(path, 1, b"\x02")
    return path


def add_version(path):
    register(path, 2, V2)
    send(path, 2, b"\x04\x02x")


AS_ROWS = ['{"id":1}', '{"id":2}']
AS_WRITTEN = ['{"id":1}', '{"id":2,"note":"x"}']


@pytest.mark.parametrize(
    ("schema", "expected"), [("latest", AS_ROWS), ("union", AS_ROWS), ("1", AS_ROWS), ("writer", AS_WRITTEN)]
)
def test_a_stream_decodes_versions_that_are_registered_while_it_runs(growing, spark, tmp_path, schema, expected):
    options = {"subscribe": "orders", "startingOffsets": "earliest", "decode": "value=registry", "schema": schema}
    # Without an error for lost data, a task reads its logs one by one.
    fails = str(schema != "writer").lower()
    rows = spark.readStream.format("brokerless").options(path=str(growing), failOnDataLoss=fails, **options).load()
    value = "value" if schema == "writer" else "to_json(value) value"
    writer = rows.selectExpr(value, "decodeError").writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "out"))
    try:
        query.processAllAvailable()
        add_version(growing)
        query.processAllAvailable()
    finally:
        query.stop()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert [row.decodeError for row in found] == [None, None]
    assert sorted(row.value for row in found) == expected


def test_a_message_that_is_not_the_first_one(registries, spark):
    path = registries / "confluent/logs"
    options = {"subscribe": "proto-refund", "decode": "value=registry", "message": "acme.proto.Refund"}
    expected = bl.LogDirs(path).to_table(
        ["proto-refund"], decode=Decoding(value="registry", message="acme.proto.Refund"), columns=["offset", "value"]
    )
    found = read(spark, path, columns="offset,value", **options).orderBy("offset").toArrow()
    assert [plain(one) for one in found["value"]] == [plain(one) for one in expected["value"]]
    assert found["value"].null_count < len(found)


def test_the_types_are_those_of_the_load_and_the_schemas_those_of_the_read(growing, spark):
    frame = read(spark, growing, subscribe="orders", decode="value=registry")
    add_version(growing)
    assert [row.value.asDict() for row in frame.orderBy("offset").collect()] == [{"id": 1}, {"id": 2}]
    again = read(spark, growing, subscribe="orders", decode="value=registry").orderBy("offset")
    assert [row.value.asDict() for row in again.collect()] == [{"id": 1, "note": ""}, {"id": 2, "note": "x"}]


def test_values_that_take_much_more_memory_than_their_bytes(growing, spark):
    """A chunk of records becomes several of rows: each row keeps the columns that are not decoded, too."""
    notes, count = "x" * 2000, 40_000
    register(growing, 2, V1 | {"fields": [*V1["fields"], {"name": "note", "type": "string", "default": notes}]})
    with bl.Producer(growing, "orders", partitions=1) as producer:
        body = [{"key": b"%d" % one, "value": b"\0\0\0\0\1\2", "timestamp": one} for one in range(1, count)]
        producer.send([row | {"headers": [("h", b"%d" % row["timestamp"])]} for row in body])
    options = {"subscribe": "orders", "decode": "value=registry", "includeHeaders": "true"}
    columns = "topic,partition,offset,timestamp,timestampType,key,headers,value,leaderEpoch,compression"
    rows = read(spark, growing, columns=columns, **options)
    same = (
        "topic = 'orders' and partition = 0 and timestampType = 0 and leaderEpoch = 0 and compression = 'none' and "
        "value.id = 1 and length(value.note) = 2000 and cast(cast(key as string) as int) = offset and "
        "unix_millis(timestamp) = offset and cast(cast(headers[0].value as string) as int) = offset"
    )
    assert rows.where("offset > 0").selectExpr("count(*)", f"count_if({same})", "sum(offset)").first()[:] == (
        count - 1,
        count - 1,
        count * (count - 1) // 2,
    )


def test_schemas_from_elsewhere(growing, spark, tmp_path):
    bl.Schemas(growing).save(tmp_path / "schemas.json")
    for schemas in (tmp_path / "schemas.json", growing, json.dumps([str(tmp_path / "schemas.json"), str(growing)])):
        options = {"schemas": str(schemas), "decode": "value=registry", "schema": "1", "subject": "orders-value"}
        rows = read(spark, growing / "orders-0", context=".", **options)
        assert [row.value.id for row in rows.collect()] == [1]


def test_columns_that_the_user_chooses(growing, spark):
    reader = spark.read.format("brokerless").options(subscribe="orders", decode="value=registry,key=utf8")
    rows = reader.schema("offset long, value struct<id int>, keyDecodeError string").load(str(growing))
    assert [(row.offset, row.value.id, row.keyDecodeError) for row in rows.collect()] == [(0, 1, None)]
    with pytest.raises(AnalysisException, match="column value is struct<id:int> and nullable, not struct<id:bigint>"):
        reader.schema("value struct<id long>").load(str(growing)).collect()


def test_what_does_not_decode(growing, spark):
    send(growing, 1, b"")
    send(growing, 9, b"\x06")
    options = {"subscribe": "orders", "decode": "value=registry", "columns": "offset,value,valueBytes,decodeError"}
    kept = read(spark, growing, **options).orderBy("offset").collect()
    assert [row.value is None for row in kept] == [False, True, True]
    assert bytes(kept[2].valueBytes) == b"\0\0\0\0\x09\x06"
    assert "no schema with the id 9" in kept[2].decodeError
    assert [row.offset for row in read(spark, growing, onDecodeError="skip", **options).collect()] == [0]
    with pytest.raises(PythonException, match="the value of a record does not decode at orders-0, offset 1"):
        read(spark, growing, onDecodeError="raise", **options).collect()


def test_a_topic_that_is_not_there_yet_has_the_types_of_its_subject(tmp_path, spark):
    register(tmp_path / "data", 1, V1)
    reader = spark.readStream.format("brokerless").options(path=str(tmp_path / "data"), decode="value=registry")
    for topic, kind in (("orders", "struct<id:int>"), ("others", "string"), ("orders,others", "string")):
        assert reader.option("subscribe", topic).load().schema["value"].dataType.simpleString() == kind


def test_a_view_of_schemas(registries, spark):
    path = registries / "confluent/logs"
    found = read(spark, path, view="schemas")
    assert dict(found.dtypes)["updated"] == "timestamp"
    expected = bl.Schemas(path).table().drop_columns("updated")
    assert found.drop("updated").toArrow().to_pylist() == expected.to_pylist()


@pytest.mark.driver
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": "latest"}, "option schema needs option decode, such as value=registry"),
        ({"decode": "value=avro"}, "form of values 'avro'"),
        ({"decode": "registry"}, "decode: 'registry' is not of the form value=registry or key=utf8"),
        ({"decode": "value=registry", "schema": "newest"}, "choice of schemas 'newest'"),
        ({"decode": "value=registry", "schema": "99"}, "no schema with the id 99"),
        ({"decode": "value=utf8", "view": "batches"}, "option decode does not apply to view batches"),
        ({"decode": "value=utf8", "onDecodeError": "stop"}, "option onDecodeError must be null or raise or skip"),
        ({"decode": "value=utf8", "columns": "valueSubject"}, "unknown column 'valueSubject'"),
    ],
)
def test_what_cannot_be_decoded_is_refused_when_it_is_loaded(growing, spark, options, message):
    with pytest.raises(AnalysisException, match=message):
        read(spark, growing, **options)
