"""Schemas that a producer adds to the registry's topic: they are as a registry would have added them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless.schemas.registration import records_of, registered
from brokerless.schemas.store import SchemaStore

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WIDER = {"type": "record", "name": "Order", "fields": [*ORDER["fields"], {"name": "n", "type": "int", "default": 0}]}
PROTO = 'syntax = "proto3";\nimport "google/protobuf/duration.proto";\nmessage M { google.protobuf.Duration d = 1; }'


def produce(path, topic, text, *values, form="avro", **options):
    with bl.Producer(path, topic, encode={"value": form, "register": text, **options}) as producer:
        producer.send([{"key": b"k", "value": value} for value in values])


def versions(path):
    return [(one.subject, one.version, one.schema.id) for one in bl.Schemas(path).versions]


def values(path, topic):
    rows = bl.LogDirs(path).to_table([topic], decode="value=registry", columns=["value", "valueVersion"])
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_a_new_directory_gets_the_topic_of_a_registry(tmp_path):
    path = tmp_path / "data"
    encode = {"value": "avro", "register": json.dumps(ORDER, indent=2)}
    with bl.Producer(path, "orders", encode=encode) as producer:
        # Before the first record with its id.
        assert versions(path) == [("orders-value", 1, 1)]
        producer.send([{"value": {"id": 7}}])
    (rows,) = bl.Log(path / "_schemas-0").read(columns=["key", "value"])
    value = (
        r'{"subject":"orders-value","version":1,"id":1,"schemaType":"AVRO","schema":'
        r'"{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}","deleted":false}'
    )
    key = '{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}'
    assert rows.to_pylist() == [{"key": key.encode(), "value": value.encode()}]
    with bl.open_log_dir(path) as log_dir:
        assert log_dir.config_of("_schemas", 0).cleanup_policy == "compact"
        assert [one for one in log_dir.partitions() if one[0] == "_schemas"] == [("_schemas", 0)]
    assert values(path, "orders") == [({"id": 7}, 1)]


def test_a_schema_is_added_once(tmp_path):
    path = tmp_path / "data"
    again = json.dumps(dict(reversed(ORDER.items())), indent=1)
    for text in (json.dumps(ORDER), again, json.dumps(WIDER), json.dumps(WIDER), json.dumps(ORDER)):
        produce(path, "orders", text, {"id": 1})
    produce(path, "more", json.dumps(WIDER), {"id": 2})
    produce(path, "protos", PROTO, {"d": "1.500s"}, form="protobuf")
    produce(path, "protos", PROTO.replace("\n", " \r\n") + "\n", {}, form="protobuf", framing="header")
    produce(path, "texts", '{"type": "object"}', {"any": [1]}, form="json-schema")
    # The same schema has the same id in all subjects.
    assert versions(path) == [
        ("orders-value", 1, 1),
        ("orders-value", 2, 2),
        ("more-value", 1, 2),
        ("protos-value", 1, 3),
        ("texts-value", 1, 4),
    ]
    assert [version for _, version in values(path, "orders")] == [1, 1, 2, 2, 1]
    assert len(values(path, "protos")) == 2
    assert values(path, "texts") == [('{"any":[1]}', 1)]


@pytest.fixture
def registry(tmp_path, registries):
    """A copy of the topic of a registry, in a directory that no cluster knows."""
    with bl.create_log_dir(tmp_path / "copy") as log_dir:
        log_dir.create_topic("_schemas", cleanup_policy="compact")
    with bl.Producer(tmp_path / "copy", "_schemas", keep_offsets=True) as producer:
        producer.send(bl.Log(registries / "confluent/logs/_schemas-0").read())
    return tmp_path / "copy"


def test_a_registry_goes_on_with_its_ids_and_versions(registry):
    before = bl.Schemas(registry)
    last = max(one.schema.id for one in before.versions if one.schema.context == ".")
    produce(registry, "orders", json.dumps(WIDER), {"id": 1})
    produce(registry, "ctx-orders", json.dumps(WIDER), {"id": 1}, context=".ctx")
    produce(registry, "new", json.dumps(WIDER), {"id": 1}, subject=":.new:any")
    in_use = before.latest("orders-value").schema
    produce(registry, "orders", json.dumps(json.loads(in_use.text), indent=2), form="avro")
    after = bl.Schemas(registry)
    assert [(one.subject, one.version, one.schema.id) for one in after.versions[len(before.versions) :]] == [
        ("orders-value", 4, last + 1),
        (":.ctx:ctx-orders-value", 3, 3),
        (":.new:any", 1, 1),
    ]
    rows = bl.LogDirs(registry).to_table(
        ["new"], decode={"value": "registry", "subject": ":.new:any", "context": ".new"}, columns=["value"]
    )
    assert rows.to_pylist() == [{"value": {"id": 1, "n": 0}}]


def test_the_records_are_those_of_the_registry(registries):
    lines = (registries / "confluent/expected/_schemas.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    stored = [(row["offset"], row["timestamp"], *map(_bytes, (row["key"], row["value"]))) for row in rows]
    compared = 0
    for at, row in enumerate(rows):
        value = json.loads(row["value"]) if row["value"] else {}
        if json.loads(row["key"])["keytype"] != "SCHEMA" or value.get("deleted", True):
            continue
        # These come with more than a text.
        if "references" in value or "metadata" in value:
            continue
        store = SchemaStore("registry", stored[:at])
        version = registered(store, value["subject"], value["schemaType"], value["schema"])
        records = records_of(store, version)
        assert records[-1] == {"key": row["key"].encode(), "value": row["value"].encode()}
        if len(records) == 2:
            assert records[0] == {"key": stored[at - 1][2], "value": stored[at - 1][3]}
        compared += 1
    assert compared > 40


def _bytes(text):
    return None if text is None else text.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.lists(JSON, min_size=1, max_size=5), st.randoms())
def test_each_text_has_one_id_and_each_version_its_own(texts, random):
    """What is registered is read again from its records, whatever the JSON."""
    records = []
    for value in [*texts, *texts]:
        store = SchemaStore("registry", [(at, 0, one["key"], one["value"]) for at, one in enumerate(records)])
        text = json.dumps(value, indent=random.choice([None, 2]), ensure_ascii=random.choice([True, False]))
        version = registered(store, random.choice(["a-value", ":.c:a-value"]), "AVRO", text)
        if version not in store.versions:
            records += records_of(store, version)
    for context in (".", ".c"):
        found = [one for one in store.versions if one.schema.context == context]
        assert [one.version for one in found] == [one.schema.id for one in found] == list(range(1, len(found) + 1))
        distinct = {json.dumps(json.loads(one.schema.text), sort_keys=True) for one in found}
        assert len(distinct) == len(found)


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ({"register": "{"}, "^register: the schema is no JSON: Expecting"),
        ({"register": "NaN"}, "^register: the schema is no JSON: Out of range"),
        ({"register": '{"type": "record"}'}, "^register: schema 1 cannot be used: "),
        (
            {"register": '{"type": "array", "items": "a.B"}'},
            "^register: schema 1 cannot be used: the type a.B is not defined",
        ),
        (
            {"value": "protobuf", "register": 'import /**/ "a/b.proto";'},
            "^register: the schema refers to a/b.proto: only",
        ),
        (
            {"value": "protobuf", "register": 'import "google/protobuf/any.proto"; message M { a.B x = 1; }'},
            "^register: schema 1 cannot be used: the type a.B of the field x is not defined",
        ),
        (
            {"value": "json-schema", "register": '{"$id": "x:y", "anyOf": [{"$ref": "x:y#/a"}, {"$ref": "other"}]}'},
            "^register: the schema refers to other: only",
        ),
        (
            {"value": "protobuf", "register": PROTO, "message": "N"},
            "^register: schema 1 cannot be used: no message N is",
        ),
        ({"value": "json-schema", "register": "[]"}, "^register: a JSON Schema is an object"),
        ({"value": "registry", "register": "{}"}, "encode value=avro, protobuf, json-schema, without schema and"),
        ({"value": "utf8", "register": "{}"}, "register adds a schema of the values"),
        ({"register": '"int"', "schema": 7}, "register adds a schema of the values"),
        ({"register": '"int"', "schemas": ...}, "register adds a schema of the values"),
    ],
)
def test_what_cannot_be_registered_is_refused_before_anything_is_made(tmp_path, registries, encode, message):
    if "schemas" in encode:
        encode = encode | {"schemas": bl.Schemas(registries / "confluent/logs")}
    with pytest.raises(ValueError, match=message):
        bl.Producer(tmp_path / "data", "orders", encode={"value": "avro"} | encode)
    assert not (tmp_path / "data").exists()


def test_a_refused_producer_registers_nothing(tmp_path):
    produce(tmp_path / "data", "orders", json.dumps(ORDER))
    with pytest.raises(ValueError, match="has 1 partition, not 2"):
        bl.Producer(tmp_path / "data", "orders", partitions=2, encode={"value": "avro", "register": json.dumps(WIDER)})
    assert versions(tmp_path / "data") == [("orders-value", 1, 1)]
