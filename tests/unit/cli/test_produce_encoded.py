"""`brokerless produce --encode`: what `read --decode` printed becomes the same records."""

import base64
import json

import pytest

import brokerless as bl

COLUMNS = "partition,timestamp,key,value,headers,valueBytes,keyBytes"


@pytest.fixture
def source(registries):
    return registries / "confluent/logs"


@pytest.mark.parametrize("form", ["jsonl", "arrow", "parquet"])
def test_a_read_and_a_write_copy_a_topic(run, tmp_path, source, form):
    decode = ("--decode", "value=registry,key=utf8", "--columns", COLUMNS)
    for topic, schema in (("json-orders", "29"), ("deleted-hard", "40")):
        given = tmp_path / f"{topic}.{form}"
        result = run("read", source, "--topic", topic, *decode, "--schema", schema, "--output", given)
        assert result.code == 0
        copy = tmp_path / f"{topic}-copy"
        encode = ("--encode", "value=registry,key=utf8", "--schemas", source, "--schema", schema)
        result = run("produce", copy, "--topic", topic, *encode, "--input", given)
        assert result.code == 0, result.err
        shown = [run("read", one, "--topic", topic, *decode, "--schemas", source).out for one in (source, copy)]
        # Of the others, the versions are older: they kept their bytes.
        assert shown[0] == shown[1]
        assert result.err.startswith(f"{len(shown[0].splitlines())} records written")


def test_bytes_that_were_not_decoded_are_kept_and_not_lost(run, tmp_path, source):
    given = tmp_path / "rows.jsonl"
    row = {"key": "k", "value": None, "valueBytes": {"base64": "/wA="}, "decodeError": "it is damaged"}
    given.write_text(json.dumps(row))
    produce = ("produce", tmp_path / "data", "--topic", "json-orders", "--input", given)
    result = run(*produce)
    assert (result.code, "bytes that were not decoded" in result.err) == (2, True)
    assert not (tmp_path / "data").exists()
    assert run(*produce, "--encode", "value=registry", "--schemas", source).code == 0
    (rows,) = bl.Log(tmp_path / "data/json-orders-0").read(columns=["key", "value"])
    assert rows.to_pylist() == [{"key": b"k", "value": b"\xff\0"}]


def test_a_value_that_does_not_fit_is_named_by_its_line_and_nothing_is_made(run, tmp_path, source):
    given = tmp_path / "rows.jsonl"
    order = {"id": 1, "customer": "c", "note": None, "amount": 2.5}
    rows = [{"value": order}, {"value": order | {"amount": "many"}}]
    given.write_text("\n\n".join(map(json.dumps, rows)))
    encode = ("--encode", "value=avro", "--schemas", source, "--schema", "1")
    result = run("produce", tmp_path / "data", "--topic", "orders", *encode, "--input", given)
    assert (result.code, result.err) == (2, "brokerless: line 3: value.amount: float is expected, not this text\n")
    assert not (tmp_path / "data").exists()


def test_a_message_and_the_place_of_the_id_are_chosen(run, tmp_path, source):
    given = tmp_path / "rows.jsonl"
    given.write_text(json.dumps({"value": {"text": "late", "code": 7}}))
    produce = ("produce", tmp_path / "data", "--topic", "header-protobuf", "--input", given)
    encode = ("--encode", "value=protobuf", "--schemas", source)
    refused = run(*produce, *encode, "--message", "acme.proto.Reason")
    said = "no message acme.proto.Reason is in the schema, which has acme.proto.Purchase, "
    assert (refused.code, said in refused.err) == (2, True)
    assert not (tmp_path / "data").exists()
    chosen = ("--message", "acme.proto.Refund.Reason", "--framing", "header")
    assert run(*produce, *encode, *chosen).code == 0
    (rows,) = bl.Log(tmp_path / "data/header-protobuf-0").read(columns=["value", "headers"])
    # As Confluent's serializer wrote it into the topic.
    header = base64.b64decode("ATRiAsAjLviWkFckCUFQZMQEAgA=")
    assert rows.to_pylist() == [
        {"value": b"\n\4late\x10\7", "headers": [{"key": "__value_schema_id", "value": header}]}
    ]
    shown = run("read", tmp_path / "data", "--decode", "value=registry", "--schemas", source, "--columns", "value")
    assert shown.out == '{"value":{"text":"late","code":7}}\n'


def test_a_schema_is_registered_with_the_first_good_row(run, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"value": {"id": "x"}}')
    produce = ("produce", tmp_path / "data", "--topic", "orders", "--input", rows)
    encode = ("--encode", "value=avro", "--register", schema)
    result = run(*produce, *encode)
    assert (result.code, result.err) == (2, "brokerless: line 1: value.id: long is expected, not this text\n")
    assert not (tmp_path / "data").exists()
    rows.write_text('{"value": {"id": 7}}\n' * 2)
    assert (run(*produce, *encode).code, run(*produce, *encode).code) == (0, 0)
    shown = run("read", tmp_path / "data", "--topic", "orders", "--decode", "value=registry", "--columns", "value")
    assert shown.out == '{"value":{"id":7}}\n' * 4
    assert len(run("schemas", "list", tmp_path / "data", "--json").out.splitlines()) == 1
    schema.write_bytes(b"\xff")
    result = run(*produce, *encode)
    assert (result.code, "is no text in UTF-8" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schema", "1"], "need --encode, such as --encode value=registry"),
        (["--framing", "header"], "--message, --schema, --framing and --register need --encode, such as"),
        (["--encode", "value=utf8", "--framing", "header"], "--framing is for the schemas of a registry"),
        (["--encode", "value=utf8", "--message", "M"], "the message M is for values in the form registry"),
        (["--encode", "value=registry", "--schema", "writer"], "neither latest nor the ID of a schema"),
        (["--encode", "value"], "--encode: 'value' is not of the form value=registry"),
        (["--encode", "value=registry"], "it does not exist. Name them with --schemas"),
        (["--encode", "key=utf8", "--schema", "1"], "encode value=registry"),
    ],
)
def test_options_that_contradict_are_refused(run, tmp_path, options, message):
    result = run("produce", tmp_path / "data", "--topic", "orders", *options)
    assert (result.code, message in result.err) == (2, True), result.err
