"""Repaired directories with more than plain partitions: replicas being moved, remote segments, coordinators' topics."""

import re
import time

import pytest
from filling import ISOLATION_LEVELS, data_batches, tier, wait_until_moved
from kafka import AFTER_A_KILL, Broker, OldBroker, complaints, tiered
from test_moving import THROTTLE, size_of

import brokerless as bl
from support import damage
from support.polling import until

EARLIEST = -2


def flip(path, batch):
    damage.flip_bit(path, batch["position"] + batch["size"] - 3)
    return batch["base_offset"], batch["last_offset"] + 1


def lost_of(repaired):
    return [(one.topic, one.start_offset, one.end_offset) for one in repaired.lost]


def without(rows, *lost):
    return [row for row in rows if not any(start <= row["offset"] < end for start, end in lost)]


WEEK = {"log_retention_ms": 604800000, "log_retention_check_interval_ms": 200, "log_initial_task_delay_ms": 100}


def leave_on_its_way(client, disks, end):
    """Stop or kill a broker that moves a replica to its other disk; return both directories and the records.

    The replica has been copied, and waits for the throttle before it takes its place.
    """
    broker = Broker(*disks, log=disks[0].with_name("before.log"), **WEEK)
    try:
        client.create(broker, "t", retention_ms=604800000, internal_segment_bytes=200_000)
        # on both disks
        client.create(broker, "u", 4)
        for _ in range(6):
            client.produce(broker, "t", 0, 1000)
        expected = client.consume(broker, "t")
        (here,) = (disk for disk in disks if (disk / "t-0").exists())
        (there,) = (disk for disk in disks if disk != here)
        client.configure(broker, "broker", str(broker.node_id), **THROTTLE)
        client.move(broker, "t", 0, there)
        size = size_of(here / "t-0")
        until(lambda: (future := list(there.glob("t-0.*-future"))) and size_of(future[0]) == size)
        broker.stop() if end == "stopped" else broker.kill()
    finally:
        broker.kill()
    (future,) = there.glob("t-0.*-future")
    return here / "t-0", future, expected


def arrived(client, disks, there):
    """Start the broker, let it end the move, and return what it serves."""
    with Broker(*disks, log=disks[0].with_name("after.log"), **WEEK, **AFTER_A_KILL) as broker:
        client.configure(broker, "broker", str(broker.node_id), replica_alter_log_dirs_io_max_bytes_per_second=1 << 30)
        until((there / "t-0").exists)
        # five rounds of the retention
        time.sleep(1)
        rows = client.consume(broker, "t")
        # Until the broker knows its new epoch, a fetch within it may fail: it is repeated.
        known = re.compile("Recovering unflushed segment|t-0 marked as failed")
        assert [line for line in complaints(broker.log) if "t-0" in line and not known.search(line)] == []
        assert "due to log retention" not in broker.log
    return rows


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_replica_on_its_way_to_another_disk_arrives(client, tmp_path, end):
    """It has what the damaged one lost: it had fetched all, and was not in its place yet."""
    disks = tmp_path / "disk1", tmp_path / "disk2"
    here, future, expected = leave_on_its_way(client, disks, end)
    path, found = data_batches(here, 0)
    lost = flip(path, found[len(found) // 2])
    assert sum(row["records_count"] for row in data_batches(future, 0)[1]) == len(expected)
    for disk in disks:
        repaired = bl.repair(disk, in_place=True)
        assert lost_of(repaired) == ([("t", *lost)] if disk == here.parent else [])
    assert arrived(client, disks, future.parent) == expected


def test_a_damaged_replica_on_its_way_does_not_take_the_place_of_a_sound_one(client, tmp_path):
    disks = tmp_path / "disk1", tmp_path / "disk2"
    here, future, expected = leave_on_its_way(client, disks, "stopped")
    path, found = data_batches(future, 0)
    flip(path, found[1])
    for disk in disks:
        bl.repair(disk, in_place=True)
    with Broker(*disks, log=tmp_path / "after.log", **WEEK) as broker:
        assert client.consume(broker, "t") == expected
        client.configure(broker, "broker", str(broker.node_id), replica_alter_log_dirs_io_max_bytes_per_second=1 << 30)
        # Moved again, it arrives.
        client.move(broker, "t", 0, future.parent)
        until(lambda: (future.parent / "t-0").exists() and not here.exists())
        assert client.consume(broker, "t") == expected


@pytest.mark.parametrize("place", [0, 1])
def test_a_tiered_log_loses_nothing_but_the_damaged_batch(client, tmp_path, place):
    data, remote = tmp_path / "data", tmp_path / "remote"
    properties = tiered(remote)
    with Broker(data, log=tmp_path / "before.log", **properties) as broker:
        tier(client, broker, "t")
        while len(data_batches(data / "t-0", -1)[1]) < 3:
            client.produce(broker, "t", 0, 1)
        wait_until_moved(client, broker, data / "t-0")
        expected = client.consume(broker, "t")
    path, found = data_batches(data / "t-0", -1)
    lost = flip(path, found[place])
    assert found[0]["base_offset"] > 40
    repaired = bl.repair(data, in_place=True)
    assert lost_of(repaired) == [("t", *lost)]
    assert [one for one in bl.check(data, level="deep") if one.severity != "note"] == []
    with Broker(data, log=tmp_path / "after.log", **properties) as broker:
        assert client.offset(broker, "t", 0, EARLIEST) == 0
        assert client.consume(broker, "t") == without(expected, lost)
        # Several rounds of what copies, and deletes.
        client.produce(broker, "t", 0, 20)
        client.produce(broker, "t", 0, 20)
        time.sleep(1)
        rows = client.consume(broker, "t")
        assert rows[: len(expected) - (lost[1] - lost[0])] == without(expected, lost)
        assert "Deleted remote log segment" not in broker.log
        said = [line for line in complaints(broker.log) if ".internals.log." in line or "LogManager" in line]
        assert said == []


def batches_of(data, topic, word):
    """Return each batch with a record whose key has this word: the partition, the file and the batch's header."""
    found = []
    for log in bl.LogDirs(data).logs([topic]):
        rows = [row for part in log.read(columns=["offset", "key"]) for row in part.to_pylist()]
        offsets = {row["offset"] for row in rows if word in (row["key"] or b"")}
        path, batches = data_batches(log.path, 0)
        found += [
            (log.name, path, batch)
            for batch in batches
            if not offsets.isdisjoint(range(batch["base_offset"], batch["last_offset"] + 1))
        ]
    return found


def test_coordinators_load_what_was_kept(client, tmp_path):
    data = tmp_path / "data"
    names = ("sound", "prepared", "unknown")
    with Broker(data, log=tmp_path / "before.log") as broker:
        client.create(broker, "t")
        client.produce(broker, "t", 0, 50)
        for at in (5, 15):
            for group in ("whole", "older"):
                client.commit(broker, group, "t", 0, at)
        client.commit(broker, "gone", "t", 0, 5)
        client.commit(broker, "after", "t", 0, 5)
        for name in names:
            client.produce(broker, "t", 0, 10, mode="commit", transactional_id=name)
        rows = {level: client.consume(broker, "t", level) for level in ISOLATION_LEVELS}
        states = {row["id"]: (row["producerId"], row["state"]) for row in client.state(broker, "transactions")}
    harmed = [
        batches_of(data, "__consumer_offsets", b"older")[-1],
        *batches_of(data, "__consumer_offsets", b"gone"),
        batches_of(data, "__transaction_state", b"prepared")[-1],
        *batches_of(data, "__transaction_state", b"unknown"),
    ]
    for _, path, batch in harmed:
        flip(path, batch)
    repaired = bl.repair(data, in_place=True)
    gone = set()
    for one in repaired.lost:
        name = f"{one.topic}-{one.partition}"
        end = one.end_offset or 1 + max(batch["last_offset"] for of, _, batch in harmed if of == name)
        gone |= {(name, offset) for offset in range(one.start_offset, end)}
    assert gone == {
        (name, offset) for name, _, batch in harmed for offset in range(batch["base_offset"], batch["last_offset"] + 1)
    }
    assert [one for one in bl.check(data, level="deep") if one.severity != "note"] == []
    with Broker(data, log=tmp_path / "after.log") as broker:
        offsets = client.state(broker, "groupOffsets", groups=["whole", "older", "gone", "after"])
        assert {row["group"]: row["offset"] for row in offsets} == {"whole": 15, "older": 5, "after": 5}

        def known():
            return {row["id"]: (row["producerId"], row["state"]) for row in client.state(broker, "transactions")}

        # It knew that the transaction was to be committed, and did so again.
        until(lambda: known() == {name: states[name] for name in ("sound", "prepared")})
        for level in ISOLATION_LEVELS:
            assert client.consume(broker, "t", level) == rows[level]
        for name in names:
            client.produce(broker, "t", 0, 1, mode="commit", transactional_id=name)
        for level in ISOLATION_LEVELS:
            assert len(client.consume(broker, "t", level)) == len(rows[level]) + len(names)
        assert [line for line in complaints(broker.log) if "-0" in line] == []


def test_a_broker_of_a_cluster_with_zookeeper_serves_what_was_kept(client, tmp_path):
    data, topics = tmp_path / "data", {"batches": "2.8", "messages": "0.10.2"}
    with OldBroker(data, log=tmp_path / "old.log") as broker:
        for topic, version in topics.items():
            client.create(broker, topic, segment_bytes=5_000, message_format_version=version)
            for _ in range(8):
                client.produce(broker, topic, 0, 40, mode="plain")
        rows = {topic: client.consume(broker, topic) for topic in topics}
    lost = {}
    for topic in topics:
        path, found = data_batches(data / f"{topic}-0", 0)
        lost[topic] = flip(path, found[1])
    assert lost == {"batches": (40, 80), "messages": (1, 2)}
    repaired = bl.repair(data, in_place=True)
    assert sorted(lost_of(repaired)) == [(topic, *lost[topic]) for topic in topics]
    assert [one for one in bl.check(data, level="deep") if one.severity != "note"] == []
    with OldBroker(data, log=tmp_path / "old.again") as broker:
        for topic in topics:
            assert client.consume(broker, topic) == without(rows[topic], lost[topic])
            assert client.produce(broker, topic, 0, 1, mode="plain")[0]["offset"] == 320
        assert [line for line in complaints(broker.log) if "-0" in line] == []
