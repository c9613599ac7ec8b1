"""Clients read directories while their brokers write to them, roll, clean and trim logs, move and truncate replicas."""

import shutil
import threading
from types import SimpleNamespace

import pytest
from filling import ISOLATION_LEVELS
from kafka import Broker, Client

import brokerless as bl
from brokerless.layout import checkpoints
from support import damage
from support.polling import until

QUICK = {
    "replica_high_watermark_checkpoint_interval_ms": 100,
    "log_flush_start_offset_checkpoint_interval_ms": 100,
    "log_cleaner_backoff_ms": 50,
    "log_retention_check_interval_ms": 100,
    "log_initial_task_delay_ms": 100,
    "log_segment_delete_delay_ms": 100,
}
SMALL = {"internal_segment_bytes": 2000}
TOPICS = {
    "rolled": SMALL,
    "transactions": SMALL,
    "trimmed": {**SMALL, "file_delete_delay_ms": 0},
    "compacted": {
        **SMALL,
        "cleanup_policy": "compact",
        "min_cleanable_dirty_ratio": "0.01",
        "max_compaction_lag_ms": 100,
        "file_delete_delay_ms": 0,
    },
}
READS = 8


@pytest.fixture
def reader():
    """A client beside the one that writes."""
    client = Client()
    yield client
    client.close()


def served(address):
    return SimpleNamespace(at=address)


class Writer(threading.Thread):
    """Writes to all topics and trims one, until `stop`."""

    def __init__(self, client, broker):
        super().__init__()
        self._client, self._broker, self._is_over, self.rounds = client, broker, threading.Event(), 0

    def run(self):
        while not self._is_over.is_set():
            self._client.produce(self._broker, "rolled", 0, 20)
            self._client.produce(self._broker, "compacted", 0, 20, "keyed")
            self._client.produce(self._broker, "transactions", 0, 6, "abort" if self.rounds % 2 else "commit")
            end = self._client.produce(self._broker, "trimmed", 0, 20)[-1]["offset"]
            self._client.delete_records(self._broker, "trimmed", 0, max(0, end - 30))
            self.rounds += 1

    def stop(self):
        self._is_over.set()
        self.join()


def last_of_keys(rows):
    """The last record of each key."""
    return {row["key"]: row for row in rows}


def check(topic, rows, before):
    """Check what a client has read against what it had read before, at the same isolation level."""
    offsets, known = [row["offset"] for row in rows], [row["offset"] for row in before]
    assert offsets == sorted(set(offsets)), topic
    if topic in ("rolled", "transactions"):
        # Nothing is ever taken away.
        assert offsets[: len(known)] == known
    if topic == "rolled":
        assert offsets == list(range(len(offsets)))
    if topic == "trimmed" and offsets:
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
        assert not known or offsets[0] >= known[0]
    if topic == "compacted":
        last = last_of_keys(rows)
        for key, row in last_of_keys(before).items():
            # A key that was deleted may be cleaned away.
            assert row["value"] is None or last[key]["offset"] >= row["offset"]


def test_logs_that_a_broker_rolls_cleans_and_trims(client, reader, tmp_path):
    with Broker(tmp_path / "data", log=tmp_path / "log", **QUICK) as broker, bl.serve(tmp_path / "data") as address:
        for topic, settings in TOPICS.items():
            client.create(broker, topic, **settings)
            client.produce(broker, topic, 0, 20, "keyed" if topic == "compacted" else "idempotent")
        ours, known = served(address), {topic: {} for topic in TOPICS}
        until(lambda: all(reader.consume(ours, topic) for topic in TOPICS))
        first = list((tmp_path / "data" / "trimmed-0").glob("*.log"))
        writer = Writer(client, broker)
        writer.start()
        try:
            before, number = {}, 0
            while number < READS or writer.rounds < 4:
                assert writer.is_alive()
                for topic in TOPICS:
                    level = ISOLATION_LEVELS[number % 2]
                    rows = reader.consume(ours, topic, level)
                    check(topic, rows, before.get((topic, level), []))
                    before[topic, level] = rows
                    # A record is what it was when it was read first.
                    for row in rows:
                        assert known[topic].setdefault(row["offset"], row) == row
                number += 1
        finally:
            writer.stop()

        def is_told():
            return all(
                reader.consume(ours, topic, level) == reader.consume(broker, topic, level)
                for topic in TOPICS
                for level in ISOLATION_LEVELS
            )

        until(is_told)
        # The cleaner and the retention have worked.
        until(lambda: len(reader.consume(ours, "compacted")) < 20 * (writer.rounds + 1))
        until(lambda: not any(path.exists() for path in first))
        assert all(known.values())


def test_a_replica_that_moves_to_another_disk(client, reader, tmp_path):
    disks = tmp_path / "disk1", tmp_path / "disk2"
    with Broker(*disks, log=tmp_path / "log", **QUICK) as broker, bl.serve(*disks) as address:
        ours = served(address)
        client.create(broker, "t", internal_segment_bytes=10_000)
        rows = 0
        for number in range(6):
            client.produce(broker, "t", 0, 100)
            (here,) = (disk for disk in disks if (disk / "t-0").exists())
            (there,) = (disk for disk in disks if disk != here)
            if number % 2:
                client.move(broker, "t", 0, there)

            def is_moved(number=number, there=there):
                nonlocal rows
                found = reader.consume(ours, "t")
                assert [row["offset"] for row in found] == list(range(len(found)))
                assert len(found) >= rows
                rows = len(found)
                return number % 2 == 0 or (there / "t-0").exists()

            until(is_moved)
        until(lambda: reader.consume(ours, "t") == reader.consume(broker, "t"))
        assert rows >= 500


def test_a_leader_that_follows_again_and_is_truncated(client, reader, tmp_path):
    """Node 2 had records that node 3 lacks when it became the leader. A client of node 2's directory sees them go."""
    nodes, soon = {}, {"broker_session_timeout_ms": 6000, "replica_lag_time_max_ms": 3000}

    def start(node, number):
        more = soon | ({"joins": nodes[1]} if node > 1 else {})
        log = tmp_path / f"{node}-{number}.log"
        nodes[node] = Broker(tmp_path / str(node), log=log, node_id=node, **QUICK, **more)

    try:
        for node in (1, 2, 3):
            start(node, 1)
        client.create(nodes[1], "t", replicas=[2, 3], unclean_leader_election_enable="true", **SMALL)
        client.produce(nodes[1], "t", 0, 100, "plain", batch_size=500)
        with bl.serve(tmp_path / "2") as of_leader, bl.serve(tmp_path / "3") as of_follower:
            for address in (of_leader, of_follower):
                until(lambda address=address: len(reader.consume(served(address), "t")) == 100)
            nodes[3].kill()
            client.produce(nodes[1], "t", 0, 50, "plain", acks=1, batch_size=500)
            until(lambda: client.topics(nodes[1])["t"]["isr"] == [[2]])
            until(lambda: len(reader.consume(served(of_leader), "t")) == 150)
            nodes[2].kill()
            start(3, 2)
            until(lambda: client.topics(nodes[1])["t"]["leaders"] == [3])
            client.produce(nodes[1], "t", 0, 10, "plain")
            start(2, 2)
            until(lambda: sorted(client.topics(nodes[1])["t"]["isr"][0]) == [2, 3])
            expected = reader.consume(nodes[1], "t")
            assert len(expected) == 110
            assert expected[-1]["leaderEpoch"] > expected[0]["leaderEpoch"]
            for address in (of_leader, of_follower):
                until(lambda address=address: reader.consume(served(address), "t") == expected)
    finally:
        for broker in reversed(nodes.values()):
            broker.kill()


def cut_in_records(log, _root):
    damage.cut(log, -10)


def cut_in_header(log, _root):
    damage.cut(log, -(log.stat().st_size // 3) + 30)


def change_length(log, _root, length=b"\x7f\xff\xff\xf0"):
    damage.overwrite(log, log.stat().st_size * 2 // 3 + 8, length)


def flip(log, _root):
    damage.flip_bit(log, log.stat().st_size - 20)


def flip_beside_a_wrong_checkpoint(log, root):
    flip(log, root)
    path = root / checkpoints.RECOVERY_POINTS
    points = checkpoints.parse_offset_checkpoint(path.read_bytes())
    path.write_bytes(checkpoints.format_offset_checkpoint(points | {("wrong-checkpoint", 0): 1_000_000}))


def flip_without_other_files(log, root):
    flip(log, root)
    for snapshot in log.parent.glob("*.snapshot"):
        snapshot.unlink()


# What is done to a log of three batches of ten records each, after a clean shutdown.
ENDS = {
    "flipped": flip,
    "cut-in-records": cut_in_records,
    "cut-in-header": cut_in_header,
    "too-long": change_length,
    "longer": lambda log, root: change_length(log, root, b"\0\0\x10\0"),
    "wrong-checkpoint": flip_beside_a_wrong_checkpoint,
    "without-snapshots": flip_without_other_files,
    "sound": lambda *_: None,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damage_at_the_end_of_a_log_is_served_as_by_a_broker(client, tmp_path):
    """After a clean shutdown, a broker verifies nothing: it ends a log where the headers of the batches end."""
    directory, copy = tmp_path / "data", tmp_path / "copy"
    with Broker(directory, log=tmp_path / "first.log") as broker:
        for topic in ENDS:
            client.create(broker, topic)
            for _ in range(3):
                client.produce(broker, topic, 0, 10)
            client.commit(broker, "group", topic, 0, 25)
    for topic, change in ENDS.items():
        (log,) = (directory / f"{topic}-0").glob("*.log")
        change(log, directory)
    shutil.copytree(directory, copy)

    def seen(server):
        found = {}
        for topic in ENDS:
            ends = [client.offset(server, topic, 0, special) for special in (-1, -2)]
            found[topic] = (ends, None, None)
            # A consumer waits for the end of a log whose last batch is cut.
            if not topic.startswith(("cut", "too-long", "longer")):
                rows, error = client.consume_to_damage(server, topic)
                found[topic] = (ends, [row["offset"] for row in rows], error)
        return found

    with Broker(directory, log=tmp_path / "second.log") as broker:
        expected = seen(broker)
    assert expected["flipped"][:2] == ([30, 0], list(range(20)))
    assert expected["flipped"][2]
    with bl.serve(copy) as address:
        assert seen(served(address)) == expected
    rows = bl.commits(copy, history=False).read_all().to_pylist()
    ends = {row["topic"]: row["log_end_offset"] for row in rows}
    assert ends == {topic: seen_ends[0] for topic, (seen_ends, _, _) in expected.items()}
