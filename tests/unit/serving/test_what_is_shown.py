"""What a server may be told to show: up to an end, committed records, one format; and from where."""

import shutil
import socket
import struct

import fsspec
import pytest

import brokerless as bl
from brokerless.serving.directory import ServedDirectory
from support.consumer import consume
from support.log_files import NOW, batch


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
    with bl.serve(timed, end_offset=4) as address:
        assert consume(address, "t") == rows(timed, "t", end=4)


@pytest.mark.parametrize("until", range(13))
def test_a_batch_that_the_end_lies_in_is_left_out(tmp_path, until):
    """A client that got half a batch, or an end inside one, would ask for the rest for ever."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=400)
        log = log_dir.log("t", 0)
        for _ in range(3):
            log.append(batch(0, [b"v" * 50] * 4, timestamp=NOW))
    with bl.serve(tmp_path / "data", end_offset=until) as address:
        assert consume(address, "t") == rows(tmp_path / "data", "t", end=until - until % 4)


@pytest.mark.parametrize("name", ["kafka-2.8-v0", "kafka-2.8-v1"])
def test_an_old_batch_that_the_end_lies_in_is_left_out(golden, name):
    path = golden / "logs" / name
    topic = next(name for name in bl.LogDirs(path).topics() if "gzip" in name)
    (log, *_) = bl.LogDirs(path).logs([topic])
    everything = rows(path, topic)
    for until in range(log.log_start_offset, log.log_start_offset + 30, 3):
        with bl.serve(path, end_offset=until) as address:
            found = consume(address, topic)
        assert found == [row for row in everything if row in found]
        assert all(offset < until for _, offset, _ in found)
        assert len(found) > 0 or until < 30


def test_nobody_sees_records_from_a_time_on(timed):
    from datetime import UTC, datetime

    with bl.serve(timed, as_of=datetime.fromtimestamp((NOW + 6000) / 1000, UTC)) as address:
        assert consume(address, "t") == rows(timed, "t", end=6)
    with bl.serve(timed, as_of="2100-01-01") as address:
        assert consume(address, "t") == rows(timed, "t")
    with bl.serve(timed, as_of="1999-01-01") as address:
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
    with bl.serve(path, magic=2) as address:
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


def test_an_index_that_points_too_far_hides_no_records(timed):
    """No checksum covers an index."""
    log = timed / "t-0" / f"{0:020}.log"
    index = log.with_suffix(".index")
    # The offset 1 at the position of the batch with offset 5.
    size = len(log.read_bytes()) // 10
    index.write_bytes(struct.pack(">ii", 1, 5 * size))
    with bl.serve(timed) as address, socket.create_connection(address.rsplit(":", 1), timeout=10) as connection:
        partition = struct.pack(">iiqi", 1, 0, 2, 1)
        body = struct.pack(">hhihiiiib", 1, 4, 7, -1, -1, 0, 1, 1, 0) + struct.pack(">ih", 1, 1) + b"t" + partition
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
            answer += connection.recv(4096)
        # Behind the partition's fields and the length of the records.
        at = 4 + 4 + 4 + 4 + 3 + 4 + 4 + 2 + 8 + 8 + 4 + 4
        assert struct.unpack_from(">q", answer, at)[0] == 2


def test_an_earlier_end_shows_no_later_leader(golden):
    """A client that hears of a later leader takes its own records for those of a log that was truncated."""
    path = golden / "logs" / "kafka-4.1"
    (log,) = bl.LogDirs(path).logs(["leader-epochs"])
    first, *_, last = log.leader_epochs
    assert last.epoch > first.epoch
    for until in range(log.log_start_offset, log.log_end_offset + 1):
        directory = ServedDirectory(path, end_offset=until)
        found = directory.partition("leader-epochs", 0, None)[3]
        (_, end, _), epochs = found[4], found[5]
        assert all(offset < end <= until for _, offset in epochs)
        assert directory.leader_epochs("leader-epochs") == [epochs[-1][0] if epochs else -1]
    assert len(epochs) == len([one for one in log.leader_epochs if one.start_offset < log.log_end_offset])


def test_a_transaction_that_is_open_at_an_earlier_end_is_open(golden):
    """As it was then: a reader of committed records does not get beyond it."""
    path = golden / "logs" / "kafka-4.1"
    topics = [name for name in bl.LogDirs(path).topics() if rows(path, name) != rows(path, name, "read_committed")]
    (log, *_) = bl.LogDirs(path).logs(topics[:1])
    opened = False
    for until in range(log.log_start_offset, log.log_end_offset + 1):
        offsets = ServedDirectory(path, end_offset=until).partition(topics[0], log.partition, None)[3][4]
        start, end, stable = offsets
        assert start <= stable <= end
        opened |= stable < end
    assert opened


def test_the_end_is_never_below_the_start(tmp_path):
    """A transaction may be open since before the log start: DeleteRecords stops at none."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"v"] * 4, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
        log.append(batch(0, [b"v"] * 4))
    (tmp_path / "data" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    for options in ({}, {"end_offset": 2}, {"end_offset": 7}):
        start, end, stable = ServedDirectory(tmp_path / "data", **options).partition("t", 0, None)[3][4]
        assert start == 6
        assert start <= stable <= end
