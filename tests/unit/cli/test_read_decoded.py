"""`brokerless read` of keys and values that are not text: decoded, or bytes in one form."""

import json
import struct
from itertools import pairwise

import pytest

import brokerless as bl


@pytest.fixture
def data(tmp_path):
    """A topic with numbers as keys, and a topic with text."""
    with bl.Producer(tmp_path / "data", "numbers", partitions=1) as producer:
        producer.send([{"key": struct.pack(">i", number), "value": b"%d" % number} for number in (1, -1, 2)])
    with bl.Producer(tmp_path / "data", "text", partitions=1) as producer:
        producer.send([{"key": b"k", "value": b"v", "headers": [("h", b"1")]}])
    return tmp_path / "data"


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_a_registry_decodes_to_nested_json(run, registries):
    logs = registries / "confluent/logs"
    result = run("read", logs, "--topic", "orders", "--decode", "value=registry,key=registry", "--limit", 2)
    assert (result.code, result.err) == (0, "")
    rows = lines(result)
    assert all(isinstance(row["value"]["id"], int) and isinstance(row["key"], int) for row in rows)
    assert [*rows[0]][-4:] == ["keyBytes", "keyDecodeError", "valueBytes", "decodeError"]
    columns = "offset,valueSchemaId,valueSubject,valueVersion,valueFraming"
    result = run("read", logs, "--topic", "orders", "--decode", "value=registry", "--columns", columns, "--limit", 1)
    assert lines(result) == [
        {
            "offset": 0,
            "valueSchemaId": 1,
            "valueSubject": "orders-value",
            "valueVersion": 1,
            "valueFraming": "prefix-v0",
        }
    ]


def test_a_subject_that_the_registry_does_not_know_is_refused(run, registries):
    read = ("read", registries / "confluent/logs", "--topic", "orders", "--decode", "value=registry", "--limit", 1)
    result = run(*read, "--subject", "orders-valeu")
    assert (result.code, "did you mean 'orders-value'?" in result.err) == (2, True)
    assert run(*read, "--subject", "orders-value").code == 0


def test_schemas_come_from_elsewhere(run, registries, tmp_path):
    logs, saved = registries / "confluent/logs", tmp_path / "saved.json"
    assert run("schemas", "list", logs, "--save", saved).code == 0
    chosen = ("--topic", "orders", "--decode", "value=registry", "--columns", "value")
    expected = lines(run("read", logs, *chosen))
    for schemas in (saved, logs, logs / "_schemas-0"):
        assert lines(run("read", logs, *chosen, "--schemas", schemas)) == expected
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "orders-0").symlink_to(logs / "orders-0")
    result = run("read", alone / "orders-0", "--decode", "value=registry")
    assert result.code == 2
    assert "Name the schemas with --schemas" in result.err
    assert run("read", alone / "orders-0", "--schemas", saved).code == 2


def test_what_does_not_decode_keeps_its_bytes_and_is_counted(run, registries):
    logs = registries / "confluent/logs"
    chosen = ("--topic", "garbage", "--decode", "value=registry")
    result = run("read", logs, *chosen)
    rows = lines(result)
    failed = [row for row in rows if row["decodeError"] is not None]
    assert all(set(row["valueBytes"]) == {"base64"} and row["value"] is None for row in failed)
    assert (
        f"garbage: {len(failed)} values do not decode, the first at garbage-0, offset {failed[0]['offset']}"
        in result.err
    )
    assert len(lines(run("read", logs, *chosen, "--on-decode-error", "skip"))) == len(rows) - len(failed)
    result = run("read", logs, *chosen, "--on-decode-error", "raise")
    assert result.code == 2
    assert len(lines(result)) == rows.index(failed[0])


@pytest.mark.parametrize("limit", [0, 1, 3, 5])
def test_a_limit_counts_records_of_all_partitions(run, data, limit):
    result = run("read", data, "--decode", "value=utf8", "--limit", limit)
    assert len(lines(result)) == min(limit, 4)


def test_decoded_rows_are_written_as_parquet(run, data, tmp_path):
    import pyarrow.parquet as pq

    file = tmp_path / "rows.parquet"
    result = run("read", data, "--topic", "numbers", "--decode", "key=int32,value=json", "--output", file)
    assert result.code == 0, result.err
    table = pq.read_table(file)
    assert table["key"].to_pylist() == [1, -1, 2]
    assert table["value"].to_pylist() == ["1", "-1", "2"]


def test_a_column_of_bytes_has_one_form(run, data):
    """One key of the three is UTF-8. Text stays text."""
    result = run("read", data, "--columns", "key,value,headers")
    rows = lines(result)
    assert [row["key"] for row in rows[:3]] == [{"base64": "AAAAAQ=="}, {"base64": "/////w=="}, {"base64": "AAAAAg=="}]
    assert result.err.startswith('note: key: not all bytes are UTF-8, so each field is {"base64": ...}')
    text = run("read", data, "--topic", "text", "--columns", "key,value,headers")
    assert (lines(text), text.err) == ([{"key": "k", "value": "v", "headers": [["h", "1"]]}], "")


def test_bytes_of_that_form_are_produced_again(run, data, tmp_path):
    written = run("read", data, "--topic", "numbers", "--columns", "key,value").out
    (tmp_path / "rows.json").write_text(written)
    assert run("produce", tmp_path / "again", "--topic", "numbers", "--input", tmp_path / "rows.json").code == 0
    both = [bl.Log(path / "numbers-0").to_table(columns=["key", "value"]) for path in (data, tmp_path / "again")]
    assert all(one.equals(other) for one, other in pairwise(both))


def test_a_note_names_the_registry_where_all_bytes_are_framed(run, registries, data):
    result = run("read", registries / "confluent/logs", "--topic", "orders", "--limit", 3)
    assert result.err == (
        "note: key and value: a schema registry's serializer may have written these bytes: add --decode "
        "key=registry,value=registry\n"
    )
    assert "registry" not in run("read", data, "--topic", "numbers").err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--decode", "value=int3"], "did you mean 'int32'"),
        (["--decode", "registry"], "value=registry"),
        (["--subject", "s"], "need --decode"),
        (["--decode", "value=utf8", "--columns", "valueSchemaId"], "unknown column 'valueSchemaId'"),
        (["--decode", "value=registry"], "no topic _schemas"),
    ],
)
def test_what_cannot_be_done_is_told(run, data, options, words):
    result = run("read", data, *options)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
