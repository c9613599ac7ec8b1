"""The records of internal topics: those of every type and version that Kafka's own classes wrote, and damaged ones."""

import base64
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.metadata.records import decoded_records
from support.log_files import batch

GOLDEN = [
    json.loads(line) for line in (Path(__file__).parents[2] / "data/state-records.jsonl").read_text().splitlines()
]
TOPICS = sorted({record["topic"] for record in GOLDEN})


def bytes_of(record):
    return tuple(None if record[part] is None else bytes.fromhex(record[part]) for part in ("key", "value"))


def decoded(topic, pairs):
    pairs = list(pairs)
    keys, values = (pa.array([pair[part] for pair in pairs], pa.binary()) for part in (0, 1))
    rows = pa.RecordBatch.from_arrays([keys, values], ["key", "value"])
    return [row for _, part in decoded_records(topic, rows) for row in part.to_pylist()]


@pytest.fixture(params=TOPICS)
def topic(request):
    return request.param


@pytest.fixture
def golden(topic):
    return [record for record in GOLDEN if record["topic"] == topic]


def test_each_record_is_what_kafka_says(topic, golden):
    for ours, record in zip(decoded(topic, map(bytes_of, golden)), golden, strict=True):
        assert (ours["type"], ours["name"], ours["version"]) == (record["type"], record["name"], record["version"])
        assert json.loads(ours["key"] or "null") == record["key_json"]
        assert json.loads(ours["value"]) == record["value_json"]
        assert ours["unknown"] is None


def shown(part):
    """A key or a value as it is shown when it is not known."""
    return None if part is None else json.dumps(base64.b64encode(part).decode())


@pytest.mark.parametrize("part", [0, 1], ids=["key", "value"])
def test_what_is_cut_at_any_byte_is_shown_as_bytes(topic, golden, part):
    for record in golden:
        pair = bytes_of(record)
        if pair[part] is None:
            continue
        cut = [(*pair[:part], pair[part][:length], *pair[part + 1 :]) for length in range(len(pair[part]))]
        for ours, (key, value) in zip(decoded(topic, cut), cut, strict=True):
            assert ours["unknown"], (record["name"], len(value))
            assert ours[("key", "value")[part]] == shown((key, value)[part])
            # What is in front of the damage is known.
            assert ours["name"] in (record["name"], None)


def test_bytes_behind_a_message(topic, golden):
    """Kafka's coordinators read on; its controllers refuse them."""
    longer = [(key and key + b"\0", value + b"\0") for key, value in map(bytes_of, golden)]
    for ours, (_, value), record in zip(decoded(topic, longer), longer, golden, strict=True):
        if record["key"] is None:
            assert "1 bytes behind it" in ours["unknown"]
            assert ours["value"] == shown(value)
        else:
            assert ours["unknown"] is None
            assert json.loads(ours["value"]) == record["value_json"]


def test_unknown_types_and_versions(topic, golden):
    key, value = bytes_of(golden[0])
    if key is None:
        pairs = [(None, bytes([frame, kind, version])) for frame, kind, version in ((1, 120, 0), (1, 0, 99), (7, 0, 0))]
        reasons = ["unknown type 120", "value: unknown version 99 of ", "unknown frame 7"]
    else:
        pairs = [(b"\0\x78" + key[2:], value), (key, b"\0\x63" + value[2:]), (None, value)]
        reasons = ["unknown type 120", "value: unknown version 99 of ", "no key"]
        assert decoded(topic, [(key, None)])[0]["unknown"] is None
    for ours, (_, value), reason in zip(decoded(topic, pairs), pairs, reasons, strict=True):
        assert ours["unknown"].removeprefix("value: ").startswith(reason.removeprefix("value: "))
        assert ours["value"] == shown(value)
    assert decoded(topic, pairs)[0]["type"] == 120


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_gives_json_or_bytes(topic, golden, seed):
    chooser = random.Random(seed)
    pairs = []
    for record in golden:
        parts = [bytearray(part) if part is not None else None for part in bytes_of(record)]
        for part in filter(None, parts):
            for _ in range(chooser.randint(0, 3)):
                part[chooser.randrange(len(part))] = chooser.randrange(256)
        pairs.append(tuple(part if part is None else bytes(part) for part in parts))
    for ours, pair in zip(decoded(topic, pairs), pairs, strict=True):
        for name, part in zip(("key", "value"), pair, strict=True):
            assert (ours[name] is None) == (part is None)
            if part is not None:
                assert not isinstance(json.loads(ours[name]), str) or ours["unknown"]


def test_a_few_bytes_do_not_become_many():
    """A length is checked against the bytes that are left."""
    many = (2**31 - 1).to_bytes(4)
    value = b"\0\0" + b"\0\1a" + b"\0\0\0\1" + b"\xff\xff" + b"\xff\xff" + many
    (ours,) = decoded("__consumer_offsets", [(b"\0\2\0\1a", value)])
    assert ours["unknown"] == "value: members: 2147483647 elements, but only 0 bytes left"


def test_offset_commits_are_those_of_the_records():
    records = [record for record in GOLDEN if record["topic"] == "__consumer_offsets"]
    pairs = [bytes_of(record) for record in records]
    pairs += [(key, None) for key, _ in pairs]
    keys, values = (pa.array([pair[part] for pair in pairs], pa.binary()) for part in (0, 1))
    commits = pa.Table.from_batches([_native.OffsetCommits().decode(keys, values)])
    # Any number is a time here, also one that Python has no date for.
    types = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in commits.schema]
    commits = commits.cast(pa.schema(zip(commits.schema.names, types, strict=True))).to_pylist()
    wanted = [number for number, record in enumerate(records) if record["name"].endswith("OffsetCommit")]
    assert [commit["row"] for commit in commits] == [*wanted, *(number + len(records) for number in wanted)]
    for commit in commits:
        record = records[commit["row"] % len(records)]
        key, value = record["key_json"], record["value_json"]
        assert [commit[name] for name in ("group", "topic", "partition")] == list(key.values())
        if commit["row"] >= len(records):
            assert commit["is_removed"]
            assert {commit[name] for name in ("offset", "leader_epoch", "metadata", "commit_time", "expire_time")} == {
                None
            }
            continue
        assert not commit["is_removed"]
        assert (commit["offset"], commit["metadata"]) == (value["offset"], value["metadata"])
        assert commit["commit_time"] == value["commitTimestamp"]
        assert commit["expire_time"] == (None if value.get("expireTimestamp", -1) == -1 else value["expireTimestamp"])
        assert commit["topic_id"] == value.get("topicId")
        epoch = value.get("leaderEpoch", -1)
        assert commit["leader_epoch"] == (epoch if epoch >= 0 else None)


def test_a_topic_that_kafka_does_not_keep():
    with pytest.raises(ValueError, match="orders is no internal topic"):
        decoded("orders", [(b"", b"")])
    with pytest.raises(ValueError, match="1 keys, but 2 values"):
        _native.state_records(TOPICS[0], pa.array([b""]), pa.array([b"", b""]))


def test_messages_inside_of_records():
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\2" + b"\xff\xff\xff\xff"
    made = json.loads(_native.embedded_json("ConsumerProtocolAssignment", assignment))
    assert made == {"assignedPartitions": [{"topic": "t", "partitions": [2]}], "userData": None}
    with pytest.raises(CorruptRecordError, match="topic: 1 bytes needed, 0 left"):
        _native.embedded_json("ConsumerProtocolAssignment", assignment[:8])
    with pytest.raises(UnsupportedFormatError, match="unknown version 9 of ConsumerProtocolAssignment"):
        _native.embedded_json("ConsumerProtocolAssignment", assignment, 9)
    with pytest.raises(ValueError, match='no message "Orders"'):
        _native.embedded_json("Orders", b"")


def pushed(*records):
    """`LatestRecords` after (key, value) at offsets from 0."""
    latest = _native.LatestRecords()
    keys, values = (pa.array([record[part] for record in records], pa.binary()) for part in (0, 1))
    numbers = pa.array(range(len(records)), pa.int64())
    latest.push(keys, values, numbers, numbers)
    return latest


def test_the_latest_record_of_each_key():
    latest = pushed((b"a", b"1"), (b"b", b"2"), (b"a", b"33"), (None, b"4"), (b"c", b""), (b"b", None))
    (batch,) = latest.take()
    assert batch.to_pydict() == {"key": [b"a", b"c"], "value": [b"33", b""], "offset": [2, 4], "timestamp": [2, 4]}
    assert [batch.num_rows for batch in latest.take()] == [0]
    many = list(pushed(*((b"%d" % number, b"") for number in range(70_000))).take())
    assert [batch.num_rows for batch in many] == [65_536, 4_464]
    assert many[1]["offset"][0].as_py() == 65_536


def test_the_groups_of_commits():
    def key(group, partition):
        return b"\0\1" + len(group).to_bytes(2) + group + b"\0\1t" + partition.to_bytes(4)

    value = b"\0\3" + bytes(8) + b"\xff" * 4 + b"\0\0" + bytes(8)
    others = [(b"\0\2\0\1g", b"x"), (key(b"g", 5)[:-1], value), (key(b"g", 6), b"\0\x63")]
    latest = pushed((key(b"g", 0), value), (key(b"h", 0), value), (key(b"g", 1), value), *others)
    assert latest.take_commit_groups() == {"g": 2, "h": 1}
    (batch,) = latest.take()
    assert list(zip(*(batch[name].to_pylist() for name in ("key", "value")), strict=True)) == others


def test_records_that_are_not_of_one_length_are_refused():
    texts, numbers = pa.array([b"a"]), pa.array([1], pa.int64())
    with pytest.raises(ValueError, match="are not of one length"):
        _native.LatestRecords().push(texts, texts, numbers, pa.array([], pa.int64()))
    with pytest.raises(ValueError, match="timestamp"):
        _native.LatestRecords().push(texts, texts, numbers, pa.array(["x"]))


def test_end_offsets_of_batches():
    content = b"".join(batch(number * 2, [b"x"] * 2, timestamp=100 * number, step=0) for number in range(3))
    size = len(content) // 3
    search = _native.EndOffsets(pa.array([-5, 0, 99, 150, 999], pa.int64()))
    search.seek(0)
    assert search.next_time == -5
    # A batch that is not whole waits for the rest.
    assert search.feed(content[: size + 10], 0) == size
    assert search.next_time == 0
    assert search.feed(content[size:], size) == 2 * size
    assert search.finish(7).to_pylist() == [0, 2, 2, 4, 7]
    for times in ([2, 1], [None]):
        with pytest.raises(ValueError, match="times are null, or fall"):
            _native.EndOffsets(pa.array(times, pa.int64()))
    search = _native.EndOffsets(pa.array([1], pa.int64()))
    with pytest.raises(CorruptRecordError):
        search.feed(bytes(61), 0)
