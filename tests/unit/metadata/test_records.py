"""Metadata records are encoded by the schemas that decode them: what goes in comes out, and nothing else goes in."""

import json
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.metadata.records import decoded_records, metadata_record, metadata_records, rows_of

ID = "AAECAwQFBgcICQoLDA0ODw"
PARTITION = {
    "partitionId": 1,
    "topicId": ID,
    "replicas": [1, 2],
    "isr": [1],
    "removingReplicas": [],
    "addingReplicas": [],
    "leader": 1,
    "leaderEpoch": 3,
    "partitionEpoch": 4,
    "directories": [ID, ID],
}


def decoded(record):
    (found,) = metadata_records(next(rows_of([record])))
    assert found.unknown is None
    return found.name, found.version, found.fields


@pytest.mark.parametrize(
    ("name", "version", "fields"),
    [
        ("TopicRecord", 0, {"name": "größe", "topicId": ID}),
        ("PartitionRecord", 1, PARTITION),
        ("PartitionRecord", 1, {**PARTITION, "leaderRecoveryState": 1}),
        ("PartitionRecord", 2, {**PARTITION, "eligibleLeaderReplicas": [1], "lastKnownElr": []}),
        ("ConfigRecord", 0, {"resourceType": 2, "resourceName": "t", "name": "a", "value": None}),
        (
            "ClientQuotaRecord",
            0,
            {
                "entity": [{"entityType": "user", "entityName": None}, {"entityType": "ip", "entityName": "::1"}],
                "key": "rate",
                "value": -1.5,
                "remove": True,
            },
        ),
        ("AbortTransactionRecord", 0, {"reason": None}),
        ("AbortTransactionRecord", 0, {}),
        ("NoOpRecord", 0, {}),
    ],
)
def test_a_record_is_decoded_to_what_it_was_made_of(name, version, fields):
    record = metadata_record(name, version, **fields)
    # A tagged field with its default is left out, in Kafka's JSON too.
    expected = {} if name == "AbortTransactionRecord" else fields
    assert decoded(record) == (name, version, expected)


@pytest.mark.parametrize(
    ("name", "version", "fields", "error"),
    [
        ("TopicRecord", 0, {"name": "t"}, "TopicRecord: topicId is missing"),
        ("TopicRecord", 0, {"name": "t", "topicId": ID, "more": 1}, "version 0 has no field more"),
        ("PartitionRecord", 0, PARTITION, "version 0 has no field directories"),
        ("TopicRecord", 0, {"name": None, "topicId": ID}, "name: null, but null is not allowed here"),
        ("TopicRecord", 0, {"name": 5, "topicId": ID}, "name: 5, string expected"),
        ("TopicRecord", 0, {"name": "t", "topicId": "AAE"}, 'topicId: "AAE", id of 22 characters expected'),
        ("TopicRecord", 0, {"name": "t" * 32768, "topicId": ID}, "a string has 32768 bytes, but at most 32767"),
        ("PartitionRecord", 1, {**PARTITION, "leader": 1 << 31}, "leader: 2147483648, integer of its size expected"),
        ("PartitionRecord", 1, {**PARTITION, "leader": True}, "leader: true, integer of its size expected"),
        ("PartitionRecord", 1, {**PARTITION, "isr": "1"}, 'isr: "1", JSON array expected'),
        ("BrokerRecord", 0, {}, 'no metadata record "BrokerRecord"'),
    ],
)
def test_fields_that_do_not_fit_the_definition_are_refused(name, version, fields, error):
    with pytest.raises(ValueError, match=error):
        metadata_record(name, version, **fields)


def test_a_version_that_does_not_exist_is_refused():
    for version in (-1, 1):
        with pytest.raises(bl.errors.UnsupportedFormatError, match=f"unknown version {version} of TopicRecord"):
            metadata_record("TopicRecord", version, name="t", topicId=ID)
    with pytest.raises(ValueError, match="TopicRecord"):
        _native.metadata_record("TopicRecord", 0, b"[1]")
    with pytest.raises(ValueError, match="TopicRecord"):
        _native.metadata_record("TopicRecord", 0, b'{"name": ')


@pytest.mark.parametrize("cut", range(1, 25))
def test_a_cut_record_is_not_decoded(cut):
    record = metadata_record("TopicRecord", name="orders", topicId=ID)
    (found,) = metadata_records(next(rows_of([record[:-cut]])))
    assert found.unknown is not None
    assert found.fields == {}


def test_kraft_control_records_are_those_of_their_definitions():
    """A snapshot's header and footer, and voters behind the header."""
    voters = {"version": 0, "voters": []}
    content = _native.kraft_snapshot([], 7, [(6, json.dumps(voters).encode())])
    lines, _ = _native.JsonDump(records=True).feed(content, 0)
    records = [record for line in lines.splitlines() for record in json.loads(line)["records"]]
    assert [(record["control_type"], record["value"]) for record in records] == [
        ("SNAPSHOT_HEADER", {"version": 0, "lastContainedLogTimestamp": 0}),
        ("KRAFT_VOTERS", voters),
        ("SNAPSHOT_FOOTER", {"version": 0}),
    ]
    for kind in (0, 1, 99):
        with pytest.raises(ValueError, match="has no value of KRaft"):
            _native.kraft_snapshot([], 7, [(kind, b"{}")])


def test_records_are_decoded_in_parts_and_one_that_is_too_large_is_not():
    """Each part takes a quarter of the memory, and the others of a record that is too large are decoded."""
    names = ["a", "b", "c" * 3000, "d"]
    (rows,) = rows_of([metadata_record("TopicRecord", name=name, topicId=ID) for name in names])
    parts = [decoded for _, decoded in decoded_records("__cluster_metadata", rows, memory=5000)]
    assert [part.num_rows for part in parts] == [1, 2, 1]
    assert [row["is_too_large"] for part in parts for row in part.to_pylist()] == [False, False, True, False]
    assert [row["value"] is None for part in parts for row in part.to_pylist()] == [False, False, True, False]


def test_rows_come_in_parts_of_some_bytes():
    """More than 2 GiB at once raised an OverflowError: Arrow's offsets have 32 bits."""
    parts = list(rows_of([b"ab", b"cd", b"e" * 100, b"f"], most_bytes=4))
    assert [part["value"].to_pylist() for part in parts] == [[b"ab", b"cd"], [b"e" * 100], [b"f"]]


def test_records_of_each_type_and_version_are_encoded_as_kafka_does():
    lines = (Path(__file__).parents[2] / "data" / "state-records.jsonl").read_text().splitlines()
    records = [bytes.fromhex(one["value"]) for one in map(json.loads, lines) if one["topic"] == "__cluster_metadata"]
    # Those of 2.8 are in other frames.
    records = [record for record in records if record[0] == 1]
    assert len(records) > 30
    for record, found in zip(records, metadata_records(next(rows_of(records))), strict=True):
        assert metadata_record(found.name, found.version, **found.fields) == record
