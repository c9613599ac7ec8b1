"""What a broker just wrote, we read as its own consumer does."""

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
