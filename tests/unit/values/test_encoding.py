"""Keys and values, encoded: they are what they were before they were decoded, or are refused with their place."""

import datetime as dt
import decimal
import json
import math
import uuid
from collections import defaultdict

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.notes import collected
from support.registry_rows import expected_rows

TYPES = {
    "type": "record",
    "name": "Types",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "numbers", "type": {"type": "array", "items": "double"}},
        {"name": "more", "type": ["null", {"type": "map", "values": "int"}], "default": None},
    ],
}
PROTO = 'syntax = "proto3"; import "google/protobuf/duration.proto"; message M { google.protobuf.Duration d = 1; }'
IDS = {"types-value": 1, "types-key": 2, "proto-value": 3, "gone-value": 4}


@pytest.fixture
def schemas(tmp_path):
    """The schemas of a registry, in a file."""
    texts = [json.dumps(TYPES), '"long"', PROTO, '"string"']
    path = tmp_path / "schemas.json"
    versions = [
        {"subject": subject, "version": 1, "id": number, "schema": text, "deleted": subject == "gone-value"}
        | ({"schemaType": "PROTOBUF"} if text == PROTO else {})
        for (subject, number), text in zip(IDS.items(), texts, strict=True)
    ]
    path.write_text(json.dumps(versions))
    return path


def read(path, topic, schemas, **options):
    decode = {"value": "registry", "key": "registry", "schemas": bl.Schemas(schemas), **options}
    with collected():
        return bl.LogDirs(path).to_table([topic], decode=decode, columns=["key", "value", "valueBytes", "valueFraming"])


VALUE = {
    "at": dt.datetime(2024, 5, 1, 14, 0, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "local": dt.datetime(2024, 5, 1, 14),  # noqa: DTZ001 - local
    "day": dt.date(1969, 12, 31),
    "price": decimal.Decimal("-1E+2"),
    "id": uuid.UUID(int=5),
    "raw": b"\0\xff",
    "numbers": [1, 0.5, math.inf, math.nan],
}
JSON = {
    "at": "2024-05-01T12:00:00.000005Z",
    "local": "2024-05-01T14:00:00.000000",
    "day": "1969-12-31",
    "price": "-100.00",
    "id": "00000000-0000-0000-0000-000000000005",
    "raw": "AP8=",
    "numbers": [1.0, 0.5, "Infinity", "NaN"],
    "more": None,
}


def test_values_of_python_and_of_arrow_are_encoded(tmp_path, schemas):
    encode = {"value": "avro", "key": "registry", "schemas": bl.Schemas(schemas)}
    with bl.Producer(tmp_path / "one", "types", encode=encode) as producer:
        producer.send([{"key": -5, "value": VALUE}, {"key": None, "value": None}, {"value": JSON}])
    texts = read(tmp_path / "one", "types", schemas, schema="writer")
    assert texts["key"].to_pylist() == ["-5", None, None]
    assert [text and json.loads(text) for text in texts["value"].to_pylist()] == [JSON, None, JSON]
    typed = read(tmp_path / "one", "types", schemas)
    assert pa.types.is_struct(typed.schema.field("value").type)
    column = typed.schema.get_field_index("value")
    views = typed.set_column(column, "value", typed["value"].cast(wide(typed.schema.field("value").type)))
    for number, rows in enumerate([texts, typed, views, typed.to_batches()]):
        with bl.Producer(tmp_path / str(number), "types", encode=encode) as producer:
            producer.send(rows)
        again = read(tmp_path / str(number), "types", schemas).to_pylist()
        # As text: NaN is no NaN.
        assert str(again) == str(typed.to_pylist())


def wide(kind):
    """Return a type with the larger forms of texts and lists."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(wide(field.type)) for field in kind.fields])
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field)
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def test_a_duration_of_python_is_one_of_protobuf(tmp_path, schemas):
    encode = {"value": "protobuf", "schemas": bl.Schemas(schemas)}
    with bl.Producer(tmp_path / "one", "proto", encode=encode) as producer:
        producer.send([{"value": {"d": dt.timedelta(seconds=-1.5)}}, {"value": {}}])
    values = read(tmp_path / "one", "proto", schemas)["value"].to_pylist()
    assert values == [{"d": dt.timedelta(seconds=-1.5)}, {"d": None}]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({**VALUE, "day": 5}, "row 1: value.day: the text of a date, such as 2024-05-01, is expected, not this number"),
        ({**VALUE, "numbers": [1, "x"]}, r"row 1: value.numbers\[1\]: double is expected, not this text"),
        ({**VALUE, "new": 1}, "row 1: value.new: record Types has no such field"),
        ({**VALUE, "more": {"a": 1.5}}, r'row 1: value.more\["a"\]: int is expected, not this number'),
        ({**VALUE, "raw": object()}, "row 1: value: object has no form in JSON"),
        ([], "row 1: value: an object for record Types is expected, not an array"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, schemas, value, message):
    encode = {"value": "registry", "schemas": bl.Schemas(schemas), "schema": 1}
    with bl.Producer(tmp_path / "one", "new", encode=encode) as producer:
        with pytest.raises(ValueError, match=message):
            producer.send([{"value": VALUE}, {"value": value}])
        producer.flush()
        assert producer.records == 0


@pytest.mark.parametrize(
    ("encode", "error", "message"),
    [
        ({"value": "registry"}, ValueError, "has no schemas: it does not exist"),
        ("value=regstry", ValueError, "unknown form of values 'regstry': did you mean 'registry'"),
        ({"value": "json", "schema": 1}, ValueError, "for values in the form registry"),
        ({"value": "registry", "schema": "newest"}, ValueError, "unknown choice of a schema"),
        ({"value": "registry", "on_error": "skip"}, ValueError, "unknown part to encode 'on_error'"),
        ({"value": "protobuf", "schemas": ..., "schema": 1}, ValueError, "schema 1 has the type AVRO: give registry"),
        ({"value": "avro", "schemas": ...}, ValueError, "unknown subject 'one-value'"),
        (
            {"value": "avro", "schemas": ..., "subject": "gone-value"},
            ValueError,
            "all versions of gone-value are deleted",
        ),
        ({"value": "avro", "schemas": ..., "schema": 77}, ValueError, "no schema with the id 77"),
        ({"value": "registry", "schemas": ..., "schema": True}, ValueError, "unknown choice of a schema 'True'"),
        ({"value": "registry", "framing": "footer"}, ValueError, "unknown framing 'footer'"),
        ({"value": "utf8", "framing": "header"}, ValueError, "framing is for the schemas of a registry"),
        ({"key": "registry", "message": "M"}, ValueError, "the message M is for values in the form registry"),
        ({"value": "registry", "schemas": ..., "schema": 1, "message": "M"}, ValueError, "M is of Protobuf, and the"),
        (
            {"value": "registry", "schemas": ..., "schema": 3, "message": "N"},
            ValueError,
            "schema 3 cannot be used: no message N is in the schema, which has M$",
        ),
        (7, TypeError, "a dict such as"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_is_made(tmp_path, schemas, encode, error, message):
    if isinstance(encode, dict) and "schemas" in encode:
        encode = encode | {"schemas": bl.Schemas(schemas)}
    with pytest.raises(error, match=message):
        bl.Producer(tmp_path / "one", "one", encode=encode)
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("form", "value", "stored"),
    [
        ("utf8", "ä", "ä".encode()),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
        ("int32", -2, b"\xff\xff\xff\xfe"),
        ("int64", 1 << 40, (1 << 40).to_bytes(8)),
        ("float32", "NaN", b"\x7f\xc0\0\0"),
        ("float64", 0.5, b"\x3f\xe0\0\0\0\0\0\0"),
        ("uuid", uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        ("hex", "00ff", b"\0\xff"),
    ],
)
def test_each_form_of_a_serializer_is_encoded(tmp_path, form, value, stored):
    with bl.Producer(tmp_path / "one", "one", encode=f"key={form},value={form}") as producer:
        producer.send([{"key": value, "value": value}])
        with pytest.raises(ValueError, match=r"row 0: value: .* expected|row 0: value: set has no form"):
            producer.send([{"value": {1} if form == "json" else [value]}])
    log = bl.Log(tmp_path / "one/one-0")
    assert pa.table(log.read(columns=["key", "value"])).to_pylist() == [{"key": stored, "value": stored}]
    again = pa.table(log.read(columns=["key", "value"], decode=f"key={form},value={form}"))
    with bl.Producer(tmp_path / "two", "one", encode=f"key={form},value={form}") as producer:
        producer.send(again)
    assert pa.table(bl.Log(tmp_path / "two/one-0").read(columns=["value"]))["value"].to_pylist() == [stored]


def last_id(headers):
    """Return the value of the last header with the id of a value's schema."""
    return next((one["value"] for one in reversed(headers) if one["key"] == "__value_schema_id"), None)


@pytest.mark.parametrize("name", ["confluent", "karapace"])
def test_what_real_serializers_wrote_is_decoded_and_encoded_to_the_same(tmp_path, registries, name):
    logs = bl.LogDirs(registries / name / "logs")
    schemas = bl.Schemas(registries / name / "logs")
    decode = {"value": "registry", "schemas": schemas, "schema": "writer"}
    columns = ["offset", "value", "headers", "valueFraming", "valueSchemaId"]
    written, same_headers, messages = 0, 0, set()
    for topic, partition, expected in expected_rows(registries, name):
        with collected():
            rows = pa.table(logs.log(topic, partition).read(decode=decode, columns=columns))
        kinds = {row["offset"]: row["value"] and row["value"].get("messageType") for row in expected}
        groups = defaultdict(list)
        for at, row in enumerate(rows.to_pylist()):
            if row["value"] is not None and row["valueFraming"] in ("prefix-v0", "header"):
                groups[row["valueFraming"], row["valueSchemaId"], kinds[row["offset"]]].append(at)
        for (framing, number, message), some in groups.items():
            path = tmp_path / f"{topic}-{partition}-{written}"
            encode = {"value": "registry", "schemas": schemas, "schema": number, "message": message}
            with bl.Producer(path, topic, encode=encode | {"framing": framing.removesuffix("-v0")}) as producer:
                producer.send(rows.take(some).select(["value", "headers"]))
            again = bl.LogDirs(path).to_table([topic], decode=decode, columns=columns)
            for before, after in zip(rows.take(some).to_pylist(), again.to_pylist(), strict=True):
                assert json.loads(after["value"]) == json.loads(before["value"])
                assert after["valueFraming"] == framing
                ids = [last_id(row["headers"]) for row in (before, after)]
                # Some rows have the id in the header, which serializers do not write.
                if framing == "header" and ids[0][0] == 1:
                    assert ids[0] == ids[1]
                    same_headers += 1
            written += len(some)
            messages.add(message)
    assert written > {"confluent": 500, "karapace": 50}[name]
    assert name == "karapace" or (same_headers > 100 and len(messages) > 7)


def test_a_row_has_the_header_of_the_schema_that_it_is_written_with(tmp_path, schemas):
    other = b"\1" + bytes(16)
    given = [("__value_schema_id", other), ("a", None), ("__key_schema_id", other), ("__value_schema_id", b"")]
    rows = [
        {"key": 1, "value": {"d": None}, "headers": given},
        {"key": None, "value": None, "headers": given},
        {"key": 2, "value": None, "valueBytes": b"x", "headers": given},
        {"key": 3, "value": {}},
    ]
    guids = {subject: uuid.UUID(bl.Schemas(schemas).latest(subject).schema.guid).bytes for subject in IDS}
    of_value, of_key = b"\1" + guids["proto-value"] + b"\0", b"\1" + guids["types-key"]
    expected = {
        "header": [
            [("a", None), ("__key_schema_id", of_key), ("__value_schema_id", of_value)],
            given,
            [given[0], given[1], given[3], ("__key_schema_id", of_key)],
            [("__key_schema_id", of_key), ("__value_schema_id", of_value)],
        ],
        "prefix": [[("a", None)], given, [given[0], given[1], given[3]], []],
    }
    kinds = pa.schema(
        [
            ("key", pa.int64()),
            ("value", pa.struct([("d", pa.duration("us"))])),
            ("valueBytes", pa.binary()),
            ("headers", pa.map_(pa.string(), pa.binary())),
        ]
    )
    for framing, lists in expected.items():
        encode = {"value": "registry", "key": "registry", "schemas": bl.Schemas(schemas), "framing": framing}
        encode["subject"] = "proto-value"
        for name, sent in (("dicts", rows), ("arrow", pa.Table.from_pylist(rows, kinds))):
            path = tmp_path / f"{framing}-{name}"
            with bl.Producer(path, "types", encode=encode) as producer:
                producer.send(sent)
            found = pa.table(bl.Log(path / "types-0").read(columns=["headers"])).to_pylist()
            assert [[(one["key"], one["value"]) for one in row["headers"]] for row in found] == lists
