"""What a server may be told to show: up to an end, committed records, one format; and from where."""

import shutil

import fsspec
import pytest

import brokerless as bl
from building import NOW, batch
from consuming import consume


def rows(path, topic, level="read_uncommitted", end=None):
    """Return what a consumer gets of a topic."""
    found = bl.LogDirs(path).read(topics=[topic], isolation_level=level, columns=["partition", "offset", "value"])
    return sorted(
        (row["partition"], row["offset"], row["value"])
        for row in found.read_all().to_pylist()
        if end is None or row["offset"] < end
    )


@pytest.fixture
def timed(tmp_path):
    """Return a directory with ten records of one topic, one second apart."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        for offset in range(10):
            log.append(batch(0, [b"%d" % offset], timestamp=NOW + 1000 * offset))
    return tmp_path / "data"


def test_nobody_sees_records_from_an_offset_on(timed):
    with bl.serve(timed, until=4) as address:
        assert consume(address, "t") == rows(timed, "t", end=4)


def test_nobody_sees_records_from_a_time_on(timed):
    from datetime import UTC, datetime

    with bl.serve(timed, until=datetime.fromtimestamp((NOW + 6000) / 1000, UTC)) as address:
        assert consume(address, "t") == rows(timed, "t", end=6)
    with bl.serve(timed, until="2100-01-01") as address:
        assert consume(address, "t") == rows(timed, "t")
    with bl.serve(timed, until="1999-01-01") as address:
        assert consume(address, "t") == []


def test_no_client_gets_records_that_were_aborted(golden):
    path = golden / "logs" / "kafka-4.1"
    topics = bl.LogDirs(path).topics()
    chosen = [name for name in topics if rows(path, name) != rows(path, name, "read_committed")]
    assert chosen, topics
    with bl.serve(path, isolation_level="read_committed") as address:
        for name in chosen:
            assert consume(address, name) == rows(path, name, "read_committed"), name


@pytest.mark.parametrize("name", ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"])
def test_old_records_are_sent_as_v2(golden, name):
    path = golden / "logs" / name
    with bl.serve(path, message_format="v2") as address:
        for topic in bl.LogDirs(path).topics():
            if topic.startswith("__"):
                continue
            assert consume(address, topic) == rows(path, topic), topic


@pytest.mark.parametrize("name", ["kafka-4.1", "kafka-4.1-compacted"])
def test_a_directory_in_an_object_store_is_served(golden, name):
    path = golden / "logs" / name
    memory = fsspec.filesystem("memory")
    memory.put(str(path), "/served", recursive=True)
    try:
        with bl.serve("memory://served") as address:
            for topic in bl.LogDirs(path).topics():
                if not topic.startswith("__"):
                    assert consume(address, topic) == rows(path, topic), topic
    finally:
        memory.rm("/served", recursive=True)


def test_a_segment_that_a_cleaner_was_about_to_put_in_place_is_served(timed):
    log = timed / "t-0" / f"{0:020}.log"
    expected = rows(timed, "t")
    shutil.move(log, log.with_suffix(".log.swap"))
    assert rows(timed, "t") == expected
    with bl.serve(timed) as address:
        assert consume(address, "t") == expected


def test_disks_of_a_broker_and_brokers_of_a_cluster_are_one_node(tmp_path):
    """A replica that two brokers have is served once."""
    paths = [tmp_path / "broker-1", tmp_path / "broker-2"]
    for node_id, (path, topic) in enumerate(zip(paths, ("t", "u"), strict=True), 1):
        bl.create_log_dir(path, node_id=node_id, cluster_id="AAECAwQFBgcICQoLDA0ODw").close()
        with bl.Producer(path, topic, partitions=2) as producer:
            producer.send([{"value": f"{topic}-{number}".encode(), "partition": number % 2} for number in range(10)])
    shutil.copytree(paths[0] / "t-0", paths[1] / "t-0")
    with bl.serve(*paths) as address:
        assert len(consume(address, "t")) == len(consume(address, "u")) == 10
        assert consume(address, "t") == rows(paths[0], "t")
