"""Keys and values, decoded: as the registries' deserializers gave them, and as Kafka's own serializers wrote them."""

import base64
import json
import struct
import uuid

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.notes import collected
from brokerless.values.decoding import Decoding
from brokerless.values.row_decoder import decoded_columns
from support.registry_rows import expected_rows, plain
from support.tally import tally

PARTS = ("key", "value")
COLUMNS = {
    part: [part, f"{part}Bytes", f"{part}Framing", f"{part}SchemaId", f"{part}Subject", f"{part}Version", error]
    for part, error in (("key", "keyDecodeError"), ("value", "decodeError"))
}


def with_numbers_as_text(value):
    """Return a value of Protobuf's JSON mapping in a form to compare: the mapping has 64-bit integers as text."""
    if isinstance(value, dict):
        return {name: with_numbers_as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_numbers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def table_of(reader):
    """Read all rows; the notes are in the reader."""
    with collected():
        return reader.read_all()


@pytest.mark.parametrize("name", ["confluent", "karapace"])
def test_each_row_is_as_the_deserializers_gave_it(registries, name):
    directories = bl.LogDirs(registries / name / "logs")
    decode = directories.with_schemas(Decoding(value="registry", key="registry", schema="writer"))
    compared = 0
    for topic, partition, rows in expected_rows(registries, name):
        log = directories.log(topic, partition)
        table = table_of(log.read(decode=decode, columns=["offset", *COLUMNS["key"], *COLUMNS["value"]]))
        found = {row["offset"]: row for row in table.to_pylist()}
        assert [*found] == [row["offset"] for row in rows]
        for row in rows:
            for part in PARTS:
                if row[part] is not None:
                    compare(found[row["offset"]], row, part)
                    compared += row[part].get("error") is None
    assert compared > {"confluent": 780, "karapace": 130}[name]
    tally("value", "clients", compared)


def compare(found, row, part):
    value, stored, framing, schema_id, subject, version, error = (found[column] for column in COLUMNS[part])
    expected = row[part]
    raw = None if row[f"{part}Bytes"] is None else base64.b64decode(row[f"{part}Bytes"])
    if raw is None:
        assert (value, stored, framing, error) == (None, None, None, None)
        return
    assert framing == expected["framing"]
    if framing == "none":
        assert (value, stored, schema_id, error) == (None, raw, None, None)
        return
    if expected.get("error") is not None:
        assert value is None
        assert stored == raw
        assert error
    else:
        assert error is None
        assert stored is None
        wanted = plain(expected["decoded"])
        if expected.get("schemaType") == "PROTOBUF":
            assert with_numbers_as_text(json.loads(value)) == with_numbers_as_text(wanted)
        else:
            assert json.loads(value) == wanted
    if expected.get("error") != "unknown id":
        assert schema_id == expected["schemaId"]
        assert subject is None or [subject, version] in expected["subjects"]
        assert subject is not None or len(expected["subjects"]) > 1


def test_a_subject_and_a_version_belong_to_the_topic(registries):
    directories = bl.LogDirs(registries / "confluent/logs")
    for topic, subjects in (
        ("orders", {("orders-value", version) for version in (1, 2, 3)}),
        ("ctx-orders", {(":.ctx:ctx-orders-value", version) for version in (1, 2)}),
        ("events-topic-record", {(f"events-topic-record-com.acme.shop.{name}", 1) for name in ("Click", "View")}),
    ):
        reader = directories.read([topic], decode="value=registry", columns=["valueSubject", "valueVersion"])
        assert {tuple(row.values()) for row in table_of(reader).to_pylist()} - {(None, None)} == subjects


PLAIN = {
    "utf8": ("ä", "ä".encode(), b"\xff"),
    "json": ('{"a":[1,"b c"]}', b' { "a": [1,\n"b c"] }', b"{"),
    "int32": (-2, struct.pack(">i", -2), b"123"),
    "int64": (1 << 40, struct.pack(">q", 1 << 40), b"1234567"),
    "float32": (0.5, struct.pack(">f", 0.5), b""),
    "float64": (-0.25, struct.pack(">d", -0.25), b"123456789"),
    "uuid": (str(uuid.UUID(int=7)), str(uuid.UUID(int=7)).encode(), b"x" * 36),
    "hex": ("00ff", b"\x00\xff", None),
}


@pytest.mark.parametrize("form", PLAIN)
@pytest.mark.parametrize("part", PARTS)
def test_what_kafkas_serializers_wrote(tmp_path, form, part):
    value, good, bad = PLAIN[form]
    with bl.Producer(tmp_path / "data", "t", partitions=1) as producer:
        producer.send([{"value": None, part: one} for one in (good, None, *([] if bad is None else [bad]))])
    reader = bl.LogDirs(tmp_path / "data").read(["t"], decode={part: form})
    rows = table_of(reader).to_pylist()
    error = "decodeError" if part == "value" else "keyDecodeError"
    assert [row[part] for row in rows][:2] == [value, None]
    assert [row[error] for row in rows][:2] == [None, None]
    assert [row[f"{part}Bytes"] for row in rows][:2] == [None, None]
    for row in rows[2:]:
        assert (row[part], row[f"{part}Bytes"]) == (None, bad)
        assert row[error]
    assert len(reader.notes) == (bad is not None)


def test_json_lines_have_decoded_values_as_json(tmp_path):
    with bl.Producer(tmp_path / "data", "t", partitions=1) as producer:
        producer.send([{"key": struct.pack(">f", 0.1), "value": b'{"a": [null]}'}])
        producer.send([{"key": struct.pack(">f", float("nan")), "value": b"[]"}])
    rows = next(bl.LogDirs(tmp_path / "data").read(["t"], columns=["key", "value"], decode="key=float32,value=json"))
    assert _native.json_lines(rows) == b'{"key":0.1,"value":{"a":[null]}}\n{"key":"NaN","value":[]}\n'


def three(tmp_path):
    """Make a log of three values; the second one is no int64."""
    with bl.Producer(tmp_path / "data", "t", partitions=1) as producer:
        producer.send([{"value": struct.pack(">q", 1)}, {"value": b"x"}, {"value": struct.pack(">q", 3)}])
    return bl.LogDirs(tmp_path / "data").log("t", 0)


def test_on_error_keeps_ends_or_leaves_out(tmp_path):
    log = three(tmp_path)
    read = {on: log.read(decode=Decoding(value="int64", on_error=on)) for on in ("null", "skip", "raise")}
    assert table_of(read["null"])["value"].to_pylist() == [1, None, 3]
    assert table_of(read["skip"])["value"].to_pylist() == [1, 3]
    rows = read["raise"]
    assert next(rows)["value"].to_pylist() == [1]
    with pytest.raises(bl.errors.RecordDeserializationError, match="t-0, offset 1") as caught:
        next(rows)
    assert (caught.value.topic, caught.value.partition, caught.value.offset, caught.value.part) == ("t", 0, 1, "value")
    for on, then in (("null", ""), ("skip", " and is left out")):
        assert read[on].notes == [f"t: 1 value does not decode{then}, the first at t-0, offset 1: {WRONG}"]


WRONG = "the number has 8 bytes, and not 1"


def test_framings_of_other_registries_are_named(registries):
    reader = bl.LogDirs(registries / "confluent/logs").read(["garbage"], decode="value=registry")
    rows = [row for row in table_of(reader).to_pylist() if row["valueBytes"]]
    glue = [row for row in rows if row["valueBytes"][:2] in (b"\3\0", b"\3\5")]
    assert {row["decodeError"] for row in glue} == {None}
    told = "the framing of the AWS Glue Schema Registry, which keeps no schemas in Kafka: not decoded"
    assert f"garbage: {len(glue)} values have {told}" in reader.notes
    apicurio = [row for row in rows if row["valueBytes"].startswith(b"\0" * 8)]
    assert {row["decodeError"].partition("; ")[2] for row in apicurio} == {
        "in the framing of Apicurio Registry it is the id 3, and its schemas are not in the topic _schemas"
    }


def test_bytes_that_are_not_utf8_are_no_json_body_and_harm_no_other_row():
    decoder = _native.SchemaDecoder(lambda _id: ("JSON", "{}", [], 1, None, None))
    bodies = [b'"a"', b'"\xff"', b'{"b": ["\xc3"]}', b"7"]
    found = decoder.decode(pa.array([b"\0\0\0\0\1" + body for body in bodies], pa.binary()))
    assert found["decoded"].to_pylist() == ['"a"', None, None, "7"]
    assert found["error"].to_pylist() == [None, "the body is not UTF-8", "the body is not UTF-8", None]


def test_a_limit_counts_the_rows_that_are_there_and_notes_no_others(tmp_path):
    log = three(tmp_path)
    reader = log.read(decode=Decoding(value="int64"), limit=1)
    assert (table_of(reader)["value"].to_pylist(), reader.notes) == ([1], [])
    reader = log.read(decode=Decoding(value="int64", on_error="skip"), limit=2)
    assert table_of(reader)["value"].to_pylist() == [1, 3]
    reader = log.read(decode=Decoding(value="int64", on_error="raise"), limit=1)
    assert table_of(reader)["value"].to_pylist() == [1]


def test_long_texts_come_in_several_batches(registries):
    """The text of a batch is limited, and each row keeps its key and its offset."""
    schemas = bl.Schemas(registries / "confluent/logs")
    schema = next(one.schema for one in schemas.versions if one.subject == "java-primitives-value")
    body = b"\0" + schema.id.to_bytes(4) + _avro_string("x" * (3 << 20))
    found = _native.SchemaDecoder(lambda _id: ("AVRO", '"string"', [], schema.id, None, None)).decode(
        pa.array([body] * 8)
    )
    assert found.num_rows == 6


def _avro_string(text):
    length, out = 2 * len(text), bytearray()
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes([*out, length]) + text.encode()


def test_what_cannot_be_decoded_is_told_before_the_first_row(tmp_path):
    log = three(tmp_path)
    for decode, error, words in (
        ({"value": "int3"}, ValueError, "did you mean 'int32'"),
        ({"values": "int32"}, ValueError, "did you mean 'value'"),
        ({"value": "int32", "on_error": "drop"}, ValueError, "on_error"),
        ({}, ValueError, "name the form of the value or the key"),
        ({"value": "registry", "schema": True}, ValueError, "unknown choice of schemas 'True'"),
        ({"value": "utf8", "schema": "latest"}, ValueError, "names no registry"),
        ("value", ValueError, "value=registry"),
        ("value=utf8,value=hex", ValueError, "twice"),
        (7, TypeError, "a dict such as"),
        ({"value": "registry", "schemas": "data"}, TypeError, r"give bl.Schemas\('data'\)"),
        ({"value": "registry"}, ValueError, "no topic _schemas in .*schemas"),
    ):
        with pytest.raises(error, match=words):
            log.read(decode=decode)
    with pytest.raises(ValueError, match="valueSchemaId"):
        log.read(decode={"value": "utf8"}, columns=["valueSchemaId"])
    with pytest.raises(ValueError, match="name the schemas"):
        bl.read_split(log.plan()[0], decode={"value": "registry"})
    assert decoded_columns(Decoding(key="registry")) == [
        "keyBytes",
        "keyDecodeError",
        "keyFraming",
        "keySchemaId",
        "keySubject",
        "keyVersion",
    ]


def test_bytes_after_the_end_are_counted(registries):
    reader = bl.LogDirs(registries / "confluent/logs").read(["garbage"], decode={"value": "registry"})
    table_of(reader)
    (note,) = [note for note in reader.notes if "after the end" in note]
    trailing = sum(
        (row["value"] or {}).get("trailingBytes", 0) > 0
        for topic, _, rows in expected_rows(registries, "confluent")
        for row in rows
        if topic == "garbage"
    )
    assert note.startswith(f"garbage: {trailing} value")
