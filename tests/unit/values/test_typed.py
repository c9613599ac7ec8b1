"""Decoded values with the types of a schema: as the registries' deserializers gave them, in Arrow's columns."""

import json
import struct
from decimal import Decimal

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.notes import collected
from brokerless.values.decoding import Decoding
from support.registry_rows import expected_rows, plain


def table_of(reader):
    """Read all rows; the notes are in the reader."""
    with collected():
        table = reader.read_all()
    table.validate(full=True)
    return table


def values_of(reader):
    """Return decoded values by place, as JSON lines have them; those that did not decode are left out."""
    table = table_of(reader).select(["partition", "offset", "value", "decodeError"])
    lines = [_native.json_lines(rows) for rows in table.to_batches()]
    rows = [json.loads(line) for line in b"".join(lines).splitlines()]
    return {(row["partition"], row["offset"]): row["value"] for row in rows if row["decodeError"] is None}


def same(expected, typed):
    """Whether a typed value is the expected one: it may have more fields, which are then null or empty.

    A general union is an object of its members.
    """
    if isinstance(typed, dict) and typed and all(name.startswith("member") for name in typed):
        found = [value for value in typed.values() if value is not None]
        return len(found) == (expected is not None) and (not found or same(expected, found[0]))
    match expected:
        case dict():
            more = [value for name, value in typed.items() if name not in expected]
            return all(same(value, typed.get(name)) for name, value in expected.items()) and not any(more)
        case list():
            return len(expected) == len(typed) and all(map(same, expected, typed))
        case float():
            return expected == typed or struct.pack("f", expected) == struct.pack("f", typed)
        case _:
            return expected == typed


AVRO = [
    ("confluent", topic)
    for topic in (
        "orders",
        "avro-types",
        "avro-recursive",
        "avro-references",
        "events-union",
        "with-metadata",
        "header-avro",
        "java-avro",
        "deleted-soft",
        "deleted-hard",
        "deleted-version",
    )
] + [("karapace", "orders")]


@pytest.mark.parametrize(("name", "topic"), AVRO)
def test_the_fields_of_all_versions(registries, name, topic):
    reader = bl.LogDirs(registries / name / "logs").read([topic], decode=Decoding(value="registry", schema="union"))
    assert pa.types.is_struct(reader.schema.field("value").type)
    found = values_of(reader)
    count = 0
    for place, value in of_topic(registries, name, topic):
        if value["framing"] != "none":
            assert same(plain(value["decoded"]), found[place]), place
            count += 1
    assert count > 5


def of_topic(registries, name, topic):
    """Yield the place of each row that a deserializer decoded, and what it said."""
    for one, partition, rows in expected_rows(registries, name):
        for row in rows if one == topic else ():
            if row["value"] is not None and row["value"].get("error") is None:
                yield (partition, row["offset"]), row["value"]


def test_the_newest_version_as_fastavro_resolves_the_others(registries):
    directories = bl.LogDirs(registries / "confluent/logs")
    schemas = bl.Schemas(registries / "confluent/logs")
    for schema in (None, "latest", schemas.latest("orders-value").schema.id):
        reader = directories.read(["orders"], decode=Decoding(value="registry", schema=schema))
        kind = {field.name: field.type for field in reader.schema.field("value").type}
        assert kind == ORDERS
    found = with_values(values_of(directories.read(["orders"], decode="value=registry")))
    expected = {place: plain(value["decodedLatest"]) for place, value in of_topic(registries, "confluent", "orders")}
    assert found == expected


def with_values(rows):
    return {place: value for place, value in rows.items() if value is not None}


ORDERS = {
    "id": pa.int64(),
    "buyer": pa.string(),
    "amount": pa.float64(),
    "currency": pa.string(),
    "tags": pa.list_(pa.string()),
    "priority": pa.string(),
}


def test_what_the_newest_version_cannot_have_keeps_its_bytes_and_an_error(registries):
    reader = bl.LogDirs(registries / "confluent/logs").read(["deleted-hard"], decode="value=registry")
    rows = table_of(reader).to_pylist()
    errors = [row["decodeError"] for row in rows]
    assert {error for error in errors if error} == {
        f"schema {38 + i} cannot be read: record com.acme.shop.D{i}deletedhard is written, and record "
        "com.acme.shop.D2deletedhard is read"
        for i in range(2)
    }
    assert all(
        (row["valueBytes"] is None) == (row["decodeError"] is None) == (row["value"] is not None) for row in rows
    )
    assert sum(row["value"] is not None for row in rows) == 5
    assert reader.notes[0].startswith("deleted-hard: 10 values do not decode, the first at deleted-hard-0, offset 0: ")


PROTOBUF = {
    "proto-purchase": (None, [0]),
    "proto-legacy": (None, [0]),
    "java-proto": (None, [0]),
    "proto-refund": ("acme.proto.Refund", [1]),
    "proto-reason": ("acme.proto.Refund.Reason", [1, 0]),
    "proto-deep": ("acme.proto.Purchase.Line.Deep", [0, 2, 0]),
    "proto-tree": ("acme.proto.Tree", [2]),
}


@pytest.mark.parametrize("schema", ["latest", "union"])
@pytest.mark.parametrize("topic", PROTOBUF)
def test_the_first_message_of_a_protobuf_schema_or_the_chosen_one(registries, topic, schema):
    directories = bl.LogDirs(registries / "confluent/logs")
    message, indexes = PROTOBUF[topic]
    typed, text = (
        values_of(directories.read([topic], decode=decode))
        for decode in (
            Decoding(value="registry", schema=schema, message=message),
            Decoding(value="registry", schema="writer"),
        )
    )
    chosen = {place for place, value in of_topic(registries, "confluent", topic) if value["messageIndexes"] == indexes}
    assert {*typed} == chosen
    assert chosen
    for place in chosen:
        for name, value in typed[place].items():
            assert same_message(text[place].get(name), value), (place, name)


def test_a_message_that_the_schema_lacks_is_refused(registries):
    directories = bl.LogDirs(registries / "confluent/logs")
    with pytest.raises(
        ValueError, match=r"no message acme\.Refund is in the schema, which has acme\.proto\.Purchase, acme\.proto\."
    ):
        directories.read(["proto-refund"], decode=Decoding(value="registry", schema="latest", message="acme.Refund"))
    with pytest.raises(ValueError, match="the message Order is of Protobuf, and the schema has the type AVRO"):
        directories.read(["orders"], decode=Decoding(value="registry", message="Order"))
    with pytest.raises(ValueError, match="the message Order is for values in the form registry: decode value=registry"):
        Decoding(value="utf8", message="Order")
    with pytest.raises(ValueError, match="message chooses the type of columns, and with the schema 'writer' they are"):
        Decoding(value="registry", message="Order", schema="writer")


def test_a_chosen_message_gives_types_where_the_default_would_be_text(registries, run):
    """Several topics, and JSON lines, have text without a choice."""
    path = registries / "confluent/logs"
    decode = Decoding(value="registry", message="acme.proto.Refund", subject="proto-refund-value")
    reader = bl.LogDirs(path).read(["proto-refund", "proto-reason"], decode=decode)
    assert pa.types.is_struct(reader.schema.field("value").type)
    options = (
        "--decode",
        "value=registry",
        "--message",
        "acme.proto.Refund",
        "--columns",
        "offset,value",
        "--limit",
        1,
    )
    found = run("read", path, "--topic", "proto-refund", *options).out
    assert found == '{"offset":0,"value":{"id":"pa","amount":{"currency":"","units":15,"nanos":0},"reason":null}}\n'


def same_message(expected, typed):
    """Whether a typed message is the one in JSON text, which leaves out what is not set, zero or empty."""
    if expected is None:
        return is_empty(typed)
    if isinstance(expected, dict):
        return all(same_message(expected.get(name), value) for name, value in typed.items())
    if isinstance(expected, list):
        return len(expected) == len(typed) and all(map(same_message, expected, typed))
    # The texts of Timestamp and Duration have as many digits as they need.
    is_time = isinstance(expected, str) and isinstance(typed, str) and typed.rstrip("sZ0").rstrip(".") != ""
    return expected == typed or (is_time and expected.rstrip("sZ0").rstrip(".") == typed.rstrip("sZ0").rstrip("."))


def is_empty(value):
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    return value in (None, 0, False, "", [], "UNIT_UNKNOWN") or (isinstance(value, str) and not value.strip("A="))


TYPES = {
    '"int"': pa.int32(),
    '{"type":"int","logicalType":"date"}': pa.date32(),
    '{"type":"int","logicalType":"time-millis"}': pa.time32("ms"),
    '{"type":"long","logicalType":"time-micros"}': pa.time64("us"),
    '{"type":"long","logicalType":"timestamp-nanos"}': pa.timestamp("ns", "UTC"),
    '{"type":"long","logicalType":"local-timestamp-millis"}': pa.timestamp("ms"),
    '{"type":"bytes","logicalType":"decimal","precision":38,"scale":3}': pa.decimal128(38, 3),
    '{"type":"bytes","logicalType":"decimal","precision":76,"scale":3}': pa.decimal256(76, 3),
    '{"type":"bytes","logicalType":"decimal","precision":77,"scale":3}': pa.string(),
    '{"type":"fixed","name":"f","size":12,"logicalType":"duration"}': pa.struct(
        [("months", pa.int64()), ("days", pa.int64()), ("millis", pa.int64())]
    ),
    '{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}': pa.string(),
    '{"type":"enum","name":"e","symbols":["A"]}': pa.string(),
    '{"type":"map","values":"bytes"}': pa.map_(pa.string(), pa.binary()),
    '["null","string"]': pa.string(),
    '["long","null","int"]': pa.int64(),
    '["null","int","string"]': pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
    '["null"]': pa.null(),
    '{"type":"record","name":"r","fields":[{"name":"r","type":["null","r"]}]}': pa.struct([("r", pa.string())]),
}


@pytest.mark.parametrize("schema", TYPES)
def test_each_type_has_a_column(schema):
    found = decoder(schema).decode(pa.array([None], pa.binary()))
    assert found.schema.field("decoded").type == TYPES[schema]


def decoder(schema, reader=None):
    text = ("AVRO", schema, [])
    own = text if reader is None else ("AVRO", reader, [])
    return _native.SchemaDecoder(lambda _id: (*text, 1, None, None), reader=own)


def test_a_decimal_is_refused_if_it_has_more_digits_than_its_type():
    for precision in (3, 40):
        schema = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 1})
        largest = 10**precision - 1
        bodies = [number.to_bytes(18, "big", signed=True) for number in (largest, -largest, largest + 1, -largest - 1)]
        found = decoder(schema).decode(pa.array([b"\0\0\0\0\1\x24" + body for body in bodies]))
        shown = f"{largest // 10}.9"
        assert found["decoded"].to_pylist() == [Decimal(shown), Decimal(f"-{shown}"), None, None]
        assert found["error"].to_pylist()[2:] == [f"a decimal has more than {precision} digits"] * 2


def test_one_byte_does_not_make_many():
    """A null of a wide type, and a default, take no bytes in the body."""
    wide = {"type": "record", "name": "w", "fields": [{"name": f"f{i}", "type": "long"} for i in range(5000)]}
    writer = {"type": "array", "items": ["null", wide]}
    body = b"\0\0\0\0\1" + b"\x80\x80\x7a" + bytes(1_000_000)
    found = decoder(json.dumps(writer)).decode(pa.array([body, body]))
    assert found["error"].to_pylist() == ["the decoded body takes more than 64 MiB"] * 2
    empty = {"type": "array", "items": {"type": "record", "name": "r", "fields": []}}
    field = {"name": "d", "type": "string", "default": "d" * 10_000}
    reader = {"type": "array", "items": {"type": "record", "name": "r", "fields": [field]}}
    body = b"\0\0\0\0\1" + b"\xa0\x9c\1" + b"\0"
    found = decoder(json.dumps(empty), json.dumps(reader)).decode(pa.array([body]))
    assert found["error"].to_pylist() == ["the decoded body takes more than 64 MiB"]


def test_a_choice_that_has_no_one_type_is_refused(registries):
    directories = bl.LogDirs(registries / "confluent/logs")
    for schema in ("latest", "union"):
        with pytest.raises(ValueError, match="the topics have several: choose one topic"):
            directories.read(["orders", "garbage"], decode=Decoding(value="registry", schema=schema))
    with pytest.raises(ValueError, match="no schema with the id 12345"):
        directories.read(["orders"], decode=Decoding(value="registry", schema=12345))
    with pytest.raises(ValueError, match="subject"):
        directories.read(["orders"], decode=Decoding(value="registry", subject="order-value", schema="latest"))
    with pytest.raises(ValueError, match="did you mean 'latest'"):
        Decoding(value="registry", schema="lates")
    for topics in (["orders", "garbage"], ["primitives"], ["events-record"]):
        reader = directories.read(topics, decode="value=registry")
        assert reader.schema.field("value").type == pa.string()


def test_keys_without_a_subject_of_their_own_stay_json_text(registries):
    directories = bl.LogDirs(registries / "confluent/logs")
    decode = Decoding(key="registry", value="registry", schema="latest")
    for topic, kind in (("orders", pa.int64()), ("avro-types", pa.string())):
        assert directories.read([topic], decode=decode).schema.field("key").type == kind
