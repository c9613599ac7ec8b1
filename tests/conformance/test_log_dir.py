"""Real brokers on directories that we made, or had open."""

from pathlib import Path

import pytest
from filling import write
from kafka import EACH_KRAFT_RELEASE, EACH_RELEASE, OLDER, Broker, OldBroker, as_consumed, complaints

import brokerless as bl
from brokerless.layout.checkpoints import CLEAN_SHUTDOWN_ASIDE as ASIDE
from brokerless.layout.release import Release
from brokerless.metadata.bootstrap import Bootstrap, bootstrap_file, snapshot_records
from support.polling import until


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_new_cluster_comes_up_with_the_topics_that_were_created_here(client, tmp_path):
    """None of them stray, all with our ids, settings and leaders, and each takes records."""
    data = tmp_path / "data"
    with bl.create_log_dir(data, node_id=4) as log_dir:
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

        # A commit returns before its marker is in the log.
        def all_consumed():
            found = client.consume(broker, "users", "read_committed")
            return found if len(found) == 150 else None

        consumed = until(all_consumed, what="the committed records are not consumed")
        log = broker.log
    assert (data / "meta.properties").read_bytes() == before
    assert not [name for name in names(data) if name.endswith("-stray")]
    assert complaints(log) == []
    assert "Skipping recovery of 4 logs" in log
    found = bl.LogDirs(data)
    assert as_consumed(found, "users", "read_committed") == consumed
    # it went on from the epoch that they were created with
    assert min(epoch for log in found.logs(["orders"]) for epoch, _ in log.leader_epochs) > 7


def test_a_broker_passes_over_the_marker_that_an_interrupted_session_left_aside(client, tmp_path):
    """And recovers, since its own is not there."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        client.create(broker, "t")
        client.produce(broker, "t", 0, 10)
    log_dir = bl.open_log_dir(data, sole_replica=True)
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
    bl.open_log_dir(data, sole_replica=True).close()
    assert (data / ".kafka_cleanshutdown").read_bytes() == marker
    assert ASIDE not in names(data)
    with Broker(data, log=tmp_path / "broker-3.log") as broker:
        assert len(client.consume(broker, "t")) == 10
        assert "Skipping recovery of" in broker.log
        assert complaints(broker.log) == []


def test_a_broker_and_we_keep_each_other_out(client, tmp_path):
    data = tmp_path / "data"

    with Broker(data, log=tmp_path / "broker.log"):
        with pytest.raises(bl.errors.LogInUseError, match=r"process \d+ \(java\) holds"):
            bl.open_log_dir(data, sole_replica=True)
        assert bl.LogDirFiles(str(data)).is_locked
    log_dir = bl.open_log_dir(data, sole_replica=True)
    with pytest.raises(AssertionError, match="Failed to acquire lock on file"):
        Broker(data, log=tmp_path / "refused.log")
    log_dir.close()


def test_before_kraft_a_broker_takes_the_directories_as_they_are_named(client, tmp_path):
    data = tmp_path / "data"
    with bl.create_log_dir(data, kraft=False) as log_dir:
        log_dir.create_topic("orders")
    with OldBroker(data, log=tmp_path / "broker.log", message_format=1) as broker:
        client.create(broker, "orders")
        client.produce(broker, "orders", 0, 10, "plain")
        consumed = client.consume(broker, "orders")
    assert len(consumed) == 10
    assert names(data / "orders-0")[0] == f"{0:020d}.index"
    assert bl.LogDirs(data).topics() == ["orders"]


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_a_new_cluster_gives_no_producer_the_id_of_one_that_is_in_a_log(client, tmp_path, version):
    """Else it takes the first batch of a new producer for one that it has, acknowledges it, and it is lost."""
    with Broker(tmp_path / "old", log=tmp_path / "old.log") as broker:
        client.create(broker, "t")
        client.produce(broker, "t", 0, 1)
    batches = next((tmp_path / "old" / "t-0").glob("*.log")).read_bytes()
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", retention_ms=-1)
        log_dir.log("t", 0).append_as_follower(batches)
    with Broker(data, log=tmp_path / "broker.log", version=version) as broker:
        sent = client.produce(broker, "t", 0, 1)
        assert [record["offset"] for record in sent] == [1]
        assert len(client.consume(broker, "t")) == 2
        client.create(broker, "u")
        client.produce(broker, "u", 0, 1)
    ids = {row for log in bl.LogDirs(data).logs() for rows in log.scan() for row in rows["producer_id"].to_pylist()}
    assert ids - {-1} >= {0, 1000}


def test_a_cluster_that_may_yet_give_a_producer_id_is_not_written_to_with_it(client, tmp_path):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker.log") as broker:
        client.create(broker, "t")
        client.produce(broker, "t", 0, 1)
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.reserve_producer_id(999)
        with pytest.raises(ValueError, match="has assigned the ids below 1000, and will assign this id"):
            log_dir.reserve_producer_id(1000)


def test_a_broker_of_several_takes_no_producer_id_that_another_one_may_give(client, tmp_path):
    """The others hold blocks of a thousand ids, and give them one by one: their first records would be lost."""
    data = tmp_path / "first"
    with Broker(data, log=tmp_path / "first.log") as first:
        with Broker(tmp_path / "second", log=tmp_path / "second.log", node_id=2, joins=first) as second:
            client.create(first, "t", replicas=[1])
            client.create(first, "u", replicas=[2])
            client.produce(second, "u", 0, 1)
        with Broker(tmp_path / "second", log=tmp_path / "again.log", node_id=2, joins=first) as second:
            client.produce(second, "u", 0, 1)
    ids = {
        row for rows in bl.LogDirs(tmp_path / "second").log("u", 0).scan() for row in rows["producer_id"].to_pylist()
    }
    held = max(ids) + 1
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        with pytest.raises(ValueError, match=r"brokers 2 have reserved ids below \d+, and may still assign this id"):
            write(log_dir.log("t", 0), 1, producer_id=held, producer_epoch=0, base_sequence=0)
        assert log_dir.log("t", 0).log_end_offset == 0
    with bl.open_log_dir(data, sole_replica=True, next_producer_id=held + 1) as log_dir:
        write(log_dir.log("t", 0), 1, producer_id=held, producer_epoch=0, base_sequence=0)


def fill(data, **options):
    """Create a topic and write two batches, in a directory that no broker has started on."""
    with bl.open_log_dir(data, sole_replica=True, **options) as log_dir:
        log_dir.create_topic("t", 2, retention_ms=-1)
        with bl.Producer(log_dir, "t") as producer:
            producer.send([{"key": b"%d" % number, "value": b"v"} for number in range(50)])


def check_filled(client, broker, data):
    assert client.topics(broker)["t"]["leaders"] == [1, 1]
    assert client.consume(broker, "t") == as_consumed(bl.LogDirs(data), "t")
    client.produce(broker, "t", 0, 10)
    assert len(client.consume(broker, "t")) == 60
    assert complaints(broker.log) == []
    assert not [name for name in names(data) if name.endswith("-stray")]


@pytest.mark.parametrize("version", EACH_KRAFT_RELEASE)
@pytest.mark.parametrize("standalone", [False, True], ids=["voters in a setting", "voters in the log"])
def test_a_directory_that_kafka_formatted_is_filled_and_served(client, tmp_path, version, standalone):
    """Since 4.4 the metadata of a new cluster stand in a snapshot of its metadata log (KIP-1170)."""
    data = tmp_path / "data"
    kind = {"version": version, "standalone": standalone}
    with Broker(data, log=tmp_path / "broker.log", formatted=lambda: fill(data), **kind) as broker:
        check_filled(client, broker, data)


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
@pytest.mark.parametrize("version", EACH_RELEASE)
def test_a_second_disk_of_a_broker_that_was_killed_is_not_a_new_clusters(client, tmp_path, version):
    """What it was formatted with stays there until 4.3: topics that are added to that come up nowhere."""
    first, second = tmp_path / "first", tmp_path / "second"
    Broker(first, second, log=tmp_path / "broker-1.log", version=version).kill()
    with bl.open_log_dir(second, sole_replica=True) as log_dir:
        with pytest.raises(ValueError, match="topic 't' needs the topic id that it has in cluster"):
            log_dir.create_topic("t")
        with pytest.raises(ValueError, match="has no metadata log that says which ids were assigned"):
            log_dir.reserve_producer_id(7)


@pytest.mark.parametrize("version", EACH_KRAFT_RELEASE)
def test_a_new_directory_is_served_by_the_release_it_is_made_for_and_by_newer_ones(client, tmp_path, version):
    data = tmp_path / "data"
    bl.create_log_dir(data, **({"release": "3.9"} if version == OLDER[0] else {})).close()
    fill(data)
    with Broker(data, log=tmp_path / "broker.log", version=version) as broker:
        check_filled(client, broker, data)


@pytest.mark.parametrize("version", EACH_KRAFT_RELEASE)
def test_a_new_cluster_has_the_features_that_the_release_formats_it_with(tmp_path, version):
    data = tmp_path / "data"
    made = []

    def compare():
        file = bootstrap_file(str(data), None)
        made.append(snapshot_records(Path(file).read_bytes()))

    Broker(data, log=tmp_path / "broker.log", version=version, formatted=compare).kill()
    assert made == [snapshot_records(Bootstrap(1, Release.parse(version)).format(timestamp=0))]
