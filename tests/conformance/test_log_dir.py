"""Real brokers on directories that we made, or had open."""

import pytest
from kafka import Broker, OldBroker, as_consumed, complaints

import brokerless as bl
from brokerless.log.texts import CLEAN_SHUTDOWN_ASIDE as ASIDE


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_new_cluster_comes_up_with_the_topics_that_were_created_here(client, tmp_path):
    """None of them stray, all with our ids, settings and leaders, and each takes records."""
    data = tmp_path / "data"
    with bl.LogDir.create(data, node_id=4) as log_dir:
        orders = log_dir.create_topic("orders", 3, leader_epoch=7, cleanup_policy="compact", segment_bytes=4096)
        users = log_dir.create_topic("users", topic_id="AAECAwQFBgcICQoLDA0ODw", retention_ms=-1)
    before = (data / "meta.properties").read_bytes()
    with Broker(data, node_id=4, log=tmp_path / "broker.log") as broker:
        topics = client.topics(broker)
        assert {name: (topic["id"], topic["leaders"]) for name, topic in topics.items()} == {
            "orders": (orders, [4, 4, 4]),
            "users": (users, [4]),
        }
        assert topics["orders"]["configs"] == {"cleanup.policy": "compact", "internal.segment.bytes": "4096"}
        assert topics["users"]["configs"] == {"retention.ms": "-1"}
        sent = client.produce(broker, "users", 0, 100)
        assert [record["offset"] for record in sent] == list(range(100))
        client.produce(broker, "users", 0, 50, "commit")
        consumed = client.consume(broker, "users", "read_committed")
        assert len(consumed) == 150
        log = broker.log
    assert (data / "meta.properties").read_bytes() == before
    assert not [name for name in names(data) if name.endswith("-stray")]
    assert complaints(log) == []
    assert "Skipping recovery of 4 logs" in log
    found = bl.LogDir(data)
    assert as_consumed(found, "users", "read_committed") == consumed
    # it went on from the epoch that they were created with
    assert min(epoch for log in found.logs(["orders"]) for epoch, _ in log.leader_epochs) > 7


def test_a_broker_passes_over_the_marker_that_an_interrupted_session_left_aside(client, tmp_path):
    """And recovers, since its own is not there."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        client.create(broker, "t")
        client.produce(broker, "t", 0, 10)
    log_dir = bl.LogDir.open(data, sole_replica=True)
    assert log_dir.was_clean
    log_dir._unlock()  # as a kill leaves it, but for the lock
    aside = (data / ASIDE).read_bytes()
    with Broker(data, log=tmp_path / "broker-2.log") as broker:
        assert len(client.consume(broker, "t")) == 10
        log = broker.log
    assert [line for line in complaints(log) if "Recovering unflushed segment 0" in line]
    assert (data / ASIDE).read_bytes() == aside
    assert (data / ".kafka_cleanshutdown").exists()
    # what was put back byte for byte is a clean shutdown to the broker again
    marker = (data / ".kafka_cleanshutdown").read_bytes()
    bl.LogDir.open(data, sole_replica=True).close()
    assert (data / ".kafka_cleanshutdown").read_bytes() == marker
    assert ASIDE not in names(data)
    with Broker(data, log=tmp_path / "broker-3.log") as broker:
        assert len(client.consume(broker, "t")) == 10
        assert "Skipping recovery of" in broker.log
        assert complaints(broker.log) == []


def test_a_broker_and_we_keep_each_other_out(client, tmp_path):
    data = tmp_path / "data"

    with Broker(data, log=tmp_path / "broker.log"):
        with pytest.raises(bl.LogInUseError, match=r"process \d+ \(java\) holds"):
            bl.LogDir.open(data, sole_replica=True)
        assert bl.Root(str(data)).is_locked
    log_dir = bl.LogDir.open(data, sole_replica=True)
    with pytest.raises(AssertionError, match="Failed to acquire lock on file"):
        Broker(data, log=tmp_path / "refused.log")
    log_dir.close()


def test_before_kraft_a_broker_takes_the_directories_as_they_are_named(client, tmp_path):
    data = tmp_path / "data"
    with bl.LogDir.create(data, kraft=False) as log_dir:
        log_dir.create_topic("orders")
    with OldBroker(data, log=tmp_path / "broker.log", message_format=1) as broker:
        client.create(broker, "orders")
        client.produce(broker, "orders", 0, 10, "plain")
        consumed = client.consume(broker, "orders")
    assert len(consumed) == 10
    assert names(data / "orders-0")[0] == f"{0:020d}.index"
    assert bl.LogDir(data).topics() == ["orders"]
