"""The table of the segments in remote storage, against the class that brokers keep them with, and what storage has."""

import base64
import re
import shutil
import time
from types import SimpleNamespace

import pytest
from filling import tier, wait_until_moved
from kafka import AFTER_A_KILL, Broker, tiered

import brokerless as bl
from brokerless.layout.checkpoints import random_id
from support.polling import until

EARLIEST = -2
# As the test storage of Kafka names a segment's file.
OBJECT = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<topic_id>.{22})/(?P<start>\d{20})-(?P<segment>.{22})\.log")
# A topic whose segments are noted by Kafka's class, for a storage plug-in that no broker here has.
NOTED = {"topic": "noted", "topicId": random_id(), "partition": 3}
REMOVED = {**NOTED, "partition": 4}
# The changes that no broker applies, of those to a later state.
SKIPPING = {("COPY_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"), ("COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_FINISHED")}
STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")


def encoded(content):
    return None if content is None else base64.b64encode(content).decode()


def noted_events():
    """Return what a broker would note of a segment that ends in each state, and of what no broker should note."""
    events = []

    def note(place, *changes, **more):
        segment, start = random_id(), 10 * len(events)
        first = {"start": start, "end": start + 9, "maxTime": 1_700_000_000_000 + start, "bytes": 1000 + start}
        epochs = {"0": start, "2": start + 3, "12": start + 5}
        events.append({**place, "segment": segment, **first, "epochs": epochs, "isIndexEmpty": start % 20 == 0, **more})
        for state, custom in changes:
            events.append({**place, "segment": segment, "state": state, "custom": encoded(custom)})

    _, finished, deleting, deleted = STATES
    note(NOTED)
    note(NOTED, maxTime=-1)
    note(NOTED, (finished, None))
    note(NOTED, (finished, b"\0custom"))
    note(NOTED, (finished, b"custom"), (deleting, None))
    note(NOTED, (finished, b"custom"), (deleting, b"custom"))
    note(NOTED, (deleting, b"of a copy that failed"))
    note(NOTED, (finished, b""), (deleting, None), (deleted, None))
    note(NOTED, (deleting, None), (deleted, None))
    # A broker that is no longer the leader is late: readers drop a change that does not follow the state.
    note(NOTED, (finished, b"first"), (deleting, None), (finished, b"late"))
    note(NOTED, (deleted, None))
    note(NOTED, (finished, b"kept"), (deleted, None))
    note(NOTED, (finished, b"first"), (finished, b"again"))
    steps = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
    events += [{**NOTED, "deleteState": step} for step in steps[:2]]
    note(REMOVED, (finished, None))
    note(REMOVED)
    return events + [{**REMOVED, "deleteState": step} for step in steps]


@pytest.fixture(scope="module")
def stored(client, tmp_path_factory):
    """A killed broker's directory.

    Attributes:
        data: the directory.
        remote: the remote storage at the last moment.
        moments: times, and the segments that Kafka's class listed then.
    """
    root = tmp_path_factory.mktemp("remote")
    data, remote = root / "data", root / "remote"
    moments, places = [], []
    with Broker(data, log=root / "log", **tiered(remote), **AFTER_A_KILL) as broker:

        def call(do, places, **arguments):
            named = {"partitions": places, "metadataPartitions": 2, "directory": str(root)}
            return client.state(broker, do, **named, **arguments)

        def take_moment():
            time.sleep(0.2)
            moments.append((int(time.time() * 1000), call("remoteSegments", places)))
            time.sleep(0.2)

        def place(topic, partitions=1):
            topic_id = client.topics(broker)[topic]["id"]
            places.extend({"topic": topic, "topicId": topic_id, "partition": number} for number in range(partitions))

        def settle(*topics):
            for topic in topics:
                wait_until_moved(client, broker, data / f"{topic}-0")

        kept = {"remote_storage_enable": "true", "local_retention_bytes": 1, "internal_segment_bytes": 2000}
        client.create(broker, "kept", 2, **kept)
        for number in range(3):
            for partition in range(2):
                client.produce(broker, "kept", partition, 30, ("idempotent", "commit", "abort")[number])
        place("kept", 2)
        for topic in ("expired", "trimmed", "gone"):
            tier(client, broker, topic)
            for _ in range(4):
                client.produce(broker, topic, 0, 25)
            place(topic)
        wait_until_moved(client, broker, data / "kept-1")
        settle("kept", "expired", "trimmed", "gone")
        take_moment()

        client.configure(broker, "topic", "expired", retention_bytes=4000)
        trimmed = len(list(remote.glob("*/trimmed-0-*/*.log")))
        client.delete_records(broker, "trimmed", 0, 130)
        until(lambda: client.offset(broker, "expired", 0, EARLIEST) > 0)
        assert {row["partition"] for row in call("remoteEvents", [NOTED, REMOVED], events=noted_events())} == {3}
        places.append(NOTED)
        until(lambda: len(list(remote.glob("*/trimmed-0-*/*.log"))) < trimmed)
        # More rounds of what deletes than it needs.
        time.sleep(1)
        take_moment()

        client.state(broker, "changeMetadata", deletedTopics=["gone"])
        places[:] = [one for one in places if one["topic"] != "gone"]
        until(lambda: not list(remote.glob("*/gone-0-*/*.log")))
        tier(client, broker, "gone")
        place("gone")
        settle("gone")
        take_moment()
        objects = shutil.copytree(remote, root / "objects")

        # The storage fails amid a copy: a file is where the directory of the partition was.
        (broken,) = remote.glob("*/kept-0-*")
        shutil.rmtree(broken)
        broken.write_bytes(b"")
        client.produce(broker, "kept", 0, 30)
        client.produce(broker, "kept", 0, 30)
        until(lambda: "Copy failed" in broker.log)
        broker.kill()
    return SimpleNamespace(data=data, remote=objects, moments=moments)


def ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def ours(table):
    """Return our rows in the form of `theirs`."""
    rows = [
        {
            **row,
            "max_time": -1 if row["max_time"] is None else ms(row["max_time"]),
            "updated": ms(row["updated"]),
            "leader_epochs": [[one["leader_epoch"], one["start_offset"]] for one in row["leader_epochs"]],
            "is_index_empty": row["has_transactions"] is False,
            "custom_metadata": encoded(row["custom_metadata"]),
        }
        for row in table.to_pylist()
    ]
    return {row["segment_id"]: row for row in rows}


def differing(table, said):
    theirs = {row["segment_id"]: row for row in said}
    found = ours(table)
    names = next(iter(theirs.values())).keys()
    found = {segment: {name: row[name] for name in names} for segment, row in found.items()}
    return {
        segment: (found.get(segment), theirs.get(segment))
        for segment in found | theirs
        if found.get(segment) != theirs.get(segment)
    }


def test_no_segment_differs_at_any_moment(stored):
    assert {row["state"] for _, rows in stored.moments for row in rows} == set(STATES[:3])
    for at, said in stored.moments:
        assert differing(bl.remote_segments(stored.data, as_of=at), said) == {}


def test_no_segment_lacks_its_object(stored):
    """Nor has storage one more, of the broker's own topics."""
    at, _ = stored.moments[-1]
    rows = bl.remote_segments(stored.data, as_of=at, topics=["kept", "expired", "trimmed", "gone"]).to_pylist()
    assert {row["state"] for row in rows} == {"COPY_SEGMENT_FINISHED"}
    found = {
        (row["topic"], row["partition"], row["topic_id"], row["start_offset"], row["segment_id"]): row["bytes"]
        for row in rows
    }
    said = {}
    for path in stored.remote.rglob("*.log"):
        topic, partition, topic_id, start, segment = OBJECT.fullmatch(f"{path.parent.name}/{path.name}").groups()
        said[topic, int(partition), topic_id, int(start), segment] = path.stat().st_size
    assert found == said


def test_no_segment_is_missing_from_the_history(stored, client):
    """The last state of each that brokers may give it, from Kafka's dump tool."""
    expected = {}
    for partition in range(2):
        paths = sorted((stored.data / f"__remote_log_metadata-{partition}").glob("*.log"))
        said = client.dump_log(paths, "--remote-log-metadata-decoder")
        pattern = r"payload: RemoteLogSegmentMetadata(?:Update)?\{.*?, id=(.{22})\}, .*\bstate=(\w+)"
        for segment, state in re.findall(pattern, said):
            before = expected.get(segment)
            is_later = before is None or STATES.index(state) >= STATES.index(before)
            if is_later and (before, state) not in SKIPPING:
                expected[segment] = state
    rows = bl.remote_segments(stored.data, history=True).to_pylist()
    assert {row["segment_id"]: row["state"] for row in rows} == expected
    assert {row["state"] for row in rows if row["topic"] == "gone"} == {STATES[1], STATES[3]}
    # A copy that failed
    failed = [row["state"] for row in rows if row["topic"] == "kept" and row["start_offset"] > 0]
    assert failed
    assert STATES[1] not in failed
