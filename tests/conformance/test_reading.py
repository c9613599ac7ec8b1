"""What a broker just wrote, we read as its own consumer does."""

import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from filling import EARLIEST_LOCAL, ISOLATION_LEVELS, tier, wait_until_moved
from kafka import EACH_RELEASE, Broker, OldBroker, as_consumed, tiered

import brokerless as bl
from brokerless.cli import command
from support.polling import until


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_a_brokers_log_is_read_as_its_consumer_reads_it(client, tmp_path, version):
    """Codecs, several segments, transactions of both ends, nulls, empty values and repeated headers."""
    with Broker(tmp_path / "data", log=tmp_path / "broker.log", version=version) as broker:
        client.create(broker, "t", 2, internal_segment_bytes=4096)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            client.produce(broker, "t", 0, 200, compression_type=codec, batch_size=2000)
        for mode in ("commit", "abort", "commit", "abort"):
            client.produce(broker, "t", 1, 60, mode)
        consumed = {level: client.consume(broker, "t", level) for level in ISOLATION_LEVELS}
        topics = client.topics(broker)
    found = bl.LogDirs(tmp_path / "data")
    assert found.log("t", 0).topic_id == topics["t"]["id"]
    assert len(found.log("t", 0).segments) > 2
    for level in ISOLATION_LEVELS:
        assert as_consumed(found, "t", level) == consumed[level]
    assert len(consumed["read_uncommitted"]) == 1240
    assert len(consumed["read_committed"]) == 1120


@pytest.mark.parametrize("message_format", [0, 1])
def test_an_old_brokers_log_is_read_as_the_consumer_reads_it(client, tmp_path, message_format):
    with OldBroker(tmp_path / "data", log=tmp_path / "broker.log", message_format=message_format) as broker:
        client.create(broker, "t")
        for codec in ("none", "gzip", "snappy", "lz4"):
            client.produce(broker, "t", 0, 100, "plain", compression_type=codec)
        consumed = client.consume(broker, "t")
    found = bl.LogDirs(tmp_path / "data")
    assert {magic for s in found.log("t", 0).segments for rows in s.scan() for magic in rows["magic"].to_pylist()} == {
        message_format
    }
    ours = as_consumed(found, "t")
    for row in (*consumed, *ours):
        del row["leaderEpoch"]  # the consumer has it from the broker, not from the log
    assert ours == consumed
    assert len(consumed) == 400


def test_a_running_brokers_log_never_seems_damaged_or_shorter(client, tmp_path):
    """While it appends, rolls segments, and cleans and deletes those that were listed a moment ago."""
    data, is_done = tmp_path / "data", threading.Event()

    def read_on():
        reads, longest = 0, dict.fromkeys(ISOLATION_LEVELS, 0)
        while not is_done.is_set():
            for topic in ("plain", "compacted"):
                for level in ISOLATION_LEVELS:
                    reader = bl.LogDirs(data).log(topic, 0).read(end_offset="latest", isolation_level=level)
                    offsets = [offset for rows in reader for offset in rows["offset"].to_pylist()]
                    assert offsets == sorted(set(offsets))
                    if topic == "plain":
                        assert offsets == list(range(len(offsets)))
                        assert len(offsets) >= longest[level]
                        longest[level] = len(offsets)
            reads += 1
        return reads

    with Broker(tmp_path / "data", log=tmp_path / "broker.log", log_cleaner_backoff_ms=100) as broker:
        quick = {"internal_segment_bytes": 4096, "index_interval_bytes": 256, "file_delete_delay_ms": 100}
        client.create(broker, "plain", **quick)
        client.create(broker, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, **quick)

        def produce():
            client.produce(broker, "plain", 0, 50, batch_size=500)
            client.produce(broker, "compacted", 0, 50, "keyed", batch_size=500)

        # A broker makes a topic's directories some time after it was created.
        produce()
        with ThreadPoolExecutor(1) as readers:
            reads = readers.submit(read_on)
            try:
                for _ in range(99):
                    produce()
            finally:
                is_done.set()
            assert reads.result() > 10
        consumed = client.consume(broker, "plain")
    assert as_consumed(bl.LogDirs(data), "plain") == consumed
    assert len(bl.LogDirs(data).log("plain", 0).segments) > 10


def test_beside_a_running_broker_nothing_seems_missing(client, tmp_path, capfd):
    """It rolls, deletes and cleans segments, stops and starts: the files around a log change one after the other."""
    data, is_done = tmp_path / "data", threading.Event()
    quick = {"log_cleaner_backoff_ms": 100, "log_retention_check_interval_ms": 100, "log_initial_task_delay_ms": 100}
    topics = {
        "deleted": {"retention_bytes": 8192},
        "compacted": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01},
    }

    def look():
        for topic in topics:
            for level in ISOLATION_LEVELS:
                reader = bl.LogDirs(data).log(topic, 0).read(isolation_level=level)
                offsets = [offset for rows in reader for offset in rows["offset"].to_pylist()]
                assert offsets == sorted(set(offsets))
                if topic == "deleted" and offsets:
                    assert offsets == list(range(offsets[0], offsets[-1] + 1))
        assert all(log.files.missing == [] for log in bl.LogDirs(data).logs(topics))
        assert command.run(["ls", str(data), "--json"]) == 0, capfd.readouterr().err

    def produce(broker):
        while not is_done.is_set():
            client.produce(broker, "deleted", 0, 50, batch_size=500)
            client.produce(broker, "compacted", 0, 50, "keyed", batch_size=500)

    def look_on(times):
        for _ in range(times):
            look()

    with Broker(data, log=tmp_path / "broker.log", **quick) as broker, ThreadPoolExecutor(1) as others:
        for topic, configs in topics.items():
            client.create(broker, topic, internal_segment_bytes=4096, **configs)
            client.produce(broker, topic, 0, 10, "keyed")
        writer = others.submit(produce, broker)
        try:
            look_on(20)
            until(lambda: is_trimmed_and_cleaned(data))
            look_on(20)
        finally:
            is_done.set()
        writer.result()
        reader = others.submit(look_on, 20)
        broker.stop()
        reader.result()
    assert bl.LogDirFiles(str(data)).is_clean
    look()
    with ThreadPoolExecutor(1) as others:
        reader = others.submit(look_on, 40)
        with Broker(data, log=tmp_path / "again.log", **quick) as broker:
            client.produce(broker, "deleted", 0, 50, batch_size=500)
            reader.result()
    look()


def is_trimmed_and_cleaned(data):
    """Tell whether segments have been deleted, and others cleaned."""
    root = bl.LogDirFiles(str(data))
    is_deleted = bl.Log(data / "deleted-0").segments[0].base_offset > 0
    return is_deleted and root.first_dirty_offsets.get(("compacted", 0), 0) > 0


def test_a_followers_log_is_read_as_the_leader_serves_it(client, tmp_path):
    leader = Broker(tmp_path / "leader", log=tmp_path / "leader.log")
    with leader, Broker(tmp_path / "follower", log=tmp_path / "follower.log", node_id=2, joins=leader):
        client.create(leader, "t", replicas=[1, 2])
        for mode in ("idempotent", "commit", "abort"):
            client.produce(leader, "t", 0, 50, mode)
        consumed = {level: client.consume(leader, "t", level) for level in ISOLATION_LEVELS}
        assert client.topics(leader)["t"]["isr"] == [[1, 2]]
    found = bl.LogDirs(tmp_path / "follower")
    assert {level: as_consumed(found, "t", level) for level in ISOLATION_LEVELS} == consumed


def test_a_read_of_a_tiered_log_returns_the_local_part(client, tmp_path):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker.log", **tiered(tmp_path / "remote")) as broker:
        tier(client, broker, "t")
        wait_until_moved(client, broker, data / "t-0")
        consumed, local_start = client.consume(broker, "t"), client.offset(broker, "t", 0, EARLIEST_LOCAL)
        assert consumed[0]["offset"] == 0
    with pytest.warns(
        UserWarning, match="t-0 has no offsets 0 to .* here: they are in remote storage, or were deleted"
    ):
        ours = as_consumed(bl.LogDirs(data), "t")
    assert ours == [row for row in consumed if row["offset"] >= local_start]
    assert 0 < len(ours) < len(consumed)


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_times_of_small_and_large_batches_are_a_brokers(client, tmp_path, version):
    """Also where the indexes are gone, so that all batches are looked at."""
    chance, now = random.Random(version), 1_700_000_000_000
    sizes = [10, 300_000, 10, 900_000, 5_000, *(chance.choice([10, 5_000, 300_000, 900_000]) for _ in range(20))]
    times = [now + chance.randrange(25) * 1000 for _ in sizes]
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=2_000_000)
        for size, time in zip(sizes, times, strict=True):
            with bl.Producer(log_dir, "t") as producer:
                producer.send([{"value": b"v" * size, "timestamp": time}])
    shutil.copytree(tmp_path / "data/t-0", tmp_path / "unindexed/t-0", ignore=shutil.ignore_patterns("*index"))
    log, unindexed = bl.Log(tmp_path / "data/t-0"), bl.Log(tmp_path / "unindexed/t-0")
    assert len(log.segments) > 3
    asked = [-3, *range(now - 1000, now + 26_000, 500)]
    ours = {time: log.offsets_for_times(time).offset for time in asked}
    assert {time: unindexed.offsets_for_times(time).offset for time in asked} == ours
    with Broker(tmp_path / "data", log=tmp_path / "broker.log", version=version) as broker:
        assert {time: client.offset(broker, "t", 0, time) for time in asked} == ours
