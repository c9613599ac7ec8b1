"""Schemas from log directories, and which topics use them: as the registries and clients said that wrote the data."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.notes import collected

REGISTRIES = ("confluent", "karapace")


def registered(registries, name):
    return json.loads((registries / name / "expected/registered.json").read_text())


@pytest.mark.parametrize("name", REGISTRIES)
def test_every_schema_that_the_registry_gave_out_is_there(registries, name):
    found = bl.Schemas(registries / name / "logs")
    for one in registered(registries, name):
        version = [
            v
            for v in found.versions
            if (v.subject, v.version, v.schema.id) == (one["subject"], one["version"], one["id"])
        ]
        assert [v.schema.text for v in version] == [one["schema"]]
        assert version[0].schema.schema_type == one.get("schemaType", "AVRO")
        if one.get("guid"):
            assert version[0].schema.guid == one["guid"]
            assert found.schema(one["guid"]).text == one["schema"]
        found.referenced(version[0].schema)


def test_deletions_are_what_the_registry_says_afterwards(registries):
    found = bl.Schemas(registries / "confluent/logs")
    after = json.loads((registries / "confluent/expected/registry-after-deletes.json").read_text())
    assert {one.subject for one in found.versions if one.deleted is None} == {*after["subjects"]}


def test_the_compacted_topic_has_what_its_cleaner_left(registries):
    whole, compacted = (bl.Schemas(registries / f"confluent/{logs}/_schemas-0") for logs in ("logs", "logs-compacted"))
    gone = {(one.subject, one.version) for one in whole.versions if one.deleted == "hard"}
    assert gone >= {(one.subject, one.version) for one in whole.versions} - {
        (one.subject, one.version) for one in compacted.versions
    }


@pytest.mark.parametrize("name", REGISTRIES)
def test_usage_counts_the_ids_that_clients_saw(registries, name):
    found = bl.Schemas(registries / name / "logs")
    seen = Counter()
    for path in (registries / name / "expected").glob("*-[0-9].jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for part in ("key", "value"):
                if row[part] is not None and row[f"{part}Bytes"] is not None:
                    named = row[part].get("schemaId") or row[part].get("guid")
                    seen[row["topic"], part, row[part]["framing"], named] += 1
    counted = Counter()
    for row in found.usage().to_pylist():
        if any((topic, part) == (row["topic"], row["part"]) for topic, part, *_ in seen):
            counted[row["topic"], row["part"], row["framing"], row["id"] or row["guid"]] += row["records"]
    assert counted == seen


def test_several_places_are_one_registry(registries, tmp_path):
    found = bl.Schemas(registries / "confluent/logs")
    found.save(tmp_path / "saved.json")
    saved = bl.Schemas(tmp_path / "saved.json")
    assert saved.table().drop_columns("offset") == found.table().drop_columns("offset")
    assert saved.usage(registries / "confluent/logs") == found.usage()
    both = bl.Schemas(registries / "confluent/logs-compacted/_schemas-0", tmp_path / "saved.json")
    assert {*both.subjects} == {*found.subjects}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(registered(registries, "confluent")))
    assert bl.Schemas(answer).schema(3).guid == found.schema(3).guid


def test_a_time_shows_the_registry_as_it_was(registries):
    logs = registries / "confluent/logs"
    whole = bl.Schemas(logs)
    times = sorted({one.timestamp for one in whole.versions})
    middle = bl.Schemas(logs, as_of=times[len(times) // 2])
    assert 0 < len(middle.versions) < len(whole.versions)


def test_a_topic_of_another_name_is_read_by_its_directory(registries, tmp_path):
    shutil.copytree(registries / "karapace/logs/_schemas-0", tmp_path / "registry-0")
    (tmp_path / "registry-0/partition.metadata").unlink()
    assert bl.Schemas(tmp_path / "registry-0").subjects == bl.Schemas(registries / "karapace/logs").subjects


def test_what_is_no_registry_is_refused(golden, tmp_path):
    with pytest.raises(ValueError, match=r"no topic _schemas in .*: a registry keeps its schemas there"):
        bl.Schemas(golden / "logs/kafka-4.1")
    with (
        collected(),
        pytest.raises(ValueError, match="headers-0: it is not the topic of a registry, which is _schemas"),
    ):
        bl.Schemas(golden / "logs/kafka-4.1/headers-0")
    (tmp_path / "some.json").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="neither JSON nor a"):
        bl.Schemas(tmp_path / "some.json")
    with pytest.raises(ValueError, match="no path"):
        bl.Schemas()
    (tmp_path / "empty.json").write_text("[]")
    with pytest.raises(ValueError, match="no log directory"):
        bl.Schemas(tmp_path / "empty.json").usage()


def test_damage_in_the_topic_costs_the_damaged_batch_alone(registries, tmp_path):
    shutil.copytree(registries / "confluent/logs/_schemas-0", tmp_path / "_schemas-0")
    log = Path(tmp_path / f"_schemas-0/{0:020}.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    with collected() as notes:
        found = bl.Schemas(tmp_path / "_schemas-0")
    assert "the content of these records is not known" in notes[0]
    assert len(found.versions) > 50


def test_framing_of_every_length():
    guid = bytes(range(16))
    cases = {
        b"": "none",
        b"\0": "none",
        b"\0\0\0\1": "none",
        b"\0\0\0\0\7": ("prefix-v0", 7),
        b"\0\xff\xff\xff\xff!": ("prefix-v0", -1),
        b"\1" + guid[:15]: "none",
        b"\1" + guid: ("prefix-v1", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        b"\2\0\0\0\7": "none",
    }
    found = _native.schema_ids(pa.array([*cases, None])).to_pylist()
    expected = [
        {
            "framing": one if isinstance(one, str) else one[0],
            "schemaId": None if isinstance(one, str) or isinstance(one[1], str) else one[1],
            "schemaGuid": None if isinstance(one, str) or isinstance(one[1], int) else one[1],
        }
        for one in cases.values()
    ]
    assert found == [*expected, {"framing": None, "schemaId": None, "schemaGuid": None}]


def test_the_last_header_decides_before_the_payload():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    ours, other = "__value_schema_id", "__key_schema_id"
    rows = [
        [(ours, b"\0\0\0\0\1"), (ours, b"\0\0\0\0\2")],
        [(ours, b"\0\0\0\0\1"), (ours, None)],
        [(ours, b"junk")],
        [(other, b"\0\0\0\0\3")],
        None,
    ]
    headers = pa.array([row and [{"key": key, "value": value} for key, value in row] for row in rows], kind)
    payloads = pa.array([b"\0\0\0\0\x09"] * len(rows))
    found = _native.schema_ids(payloads, headers).to_pylist()
    assert [(row["framing"], row["schemaId"]) for row in found] == [
        ("header", 2),
        ("prefix-v0", 9),
        ("header", None),
        ("prefix-v0", 9),
        ("prefix-v0", 9),
    ]
    of_keys = _native.schema_ids(payloads, headers, is_key=True).to_pylist()
    assert [row["framing"] for row in of_keys] == ["prefix-v0"] * 3 + ["header", "prefix-v0"]
