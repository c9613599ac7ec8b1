"""What a broker just wrote, we read as its own consumer does."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import Broker, OldBroker, as_consumed

import brokerless as bl

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


def test_a_brokers_log_is_read_as_its_consumer_reads_it(client, tmp_path):
    """Codecs, several segments, transactions of both ends, nulls, empty values and repeated headers."""
    with Broker(tmp_path / "data", log=tmp_path / "broker.log") as broker:
        client.create(broker, "t", 2, internal_segment_bytes=4096)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            client.produce(broker, "t", 0, 200, compression_type=codec, batch_size=2000)
        for mode in ("commit", "abort", "commit", "abort"):
            client.produce(broker, "t", 1, 60, mode)
        consumed = {level: client.consume(broker, "t", level) for level in ISOLATION_LEVELS}
        topics = client.topics(broker)
    found = bl.LogDir(tmp_path / "data")
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
    found = bl.LogDir(tmp_path / "data")
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
                    reader = bl.LogDir(data).log(topic, 0).read(end_offset="latest", isolation_level=level)
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
    assert as_consumed(bl.LogDir(data), "plain") == consumed
    assert len(bl.LogDir(data).log("plain", 0).segments) > 10
