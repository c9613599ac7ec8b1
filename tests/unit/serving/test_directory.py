"""What a server asks of a directory stays cheap, however many partitions there are."""

import shutil
import socket
import struct
import subprocess
import sys
import time
from collections import Counter

import confluent_kafka
import pytest

import brokerless as bl
from brokerless.errors import CorruptRecordError
from brokerless.layout import checkpoints
from brokerless.serving.directory import ServedDirectory
from support.log_files import NOW, batch

# Arrow takes longer to load than all else together.
FIRST_RECORD = """
import sys
from brokerless.serving.directory import ServedDirectory
directory = ServedDirectory(sys.argv[1])
directory.topics(None)
state, own, shared, found = directory.partition("t", 0, None)
assert found[4] == (0, 1, 1), found
assert directory.commits() == []
assert "pyarrow" not in sys.modules
"""


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", partitions=3)
        for partition in range(3):
            log_dir.log("t", partition).append(batch(0, [b"v"], timestamp=NOW))
    return tmp_path / "data"


def test_a_first_record_needs_no_arrow(data):
    subprocess.run([sys.executable, "-c", FIRST_RECORD, str(data)], check=True)


def test_a_partition_that_has_not_changed_is_not_read_again(data):
    directory = ServedDirectory(data)
    state, own, shared, found = directory.partition("t", 0, None)
    assert found is not None
    assert directory.partition("t", 0, state) == (state, own, shared, None)


def test_a_partition_that_has_grown_is_read_again(data):
    directory = ServedDirectory(data)
    state, own, *_ = directory.partition("t", 0, None)
    with bl.Producer(data, "t") as producer:
        producer.send([{"value": b"w", "partition": 0}])
    changed, later, _, found = directory.partition("t", 0, state)
    assert found[4] == (0, 2, 2)
    assert changed != state
    assert later != own


def test_a_checkpoint_is_read_once_for_all_partitions(data, monkeypatch):
    read = []
    parse = checkpoints.parse_offset_checkpoint
    monkeypatch.setattr(checkpoints, "parse_offset_checkpoint", lambda content: read.append(content) or parse(content))
    directory = ServedDirectory(data)
    for partition in range(3):
        directory.partition("t", partition, None)
    names = (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS)
    assert sorted(read) == sorted((data / name).read_bytes() for name in names)


def test_a_log_start_that_moves_is_noticed(data):
    directory = ServedDirectory(data)
    state, *_ = directory.partition("t", 1, None)
    others, *_ = directory.partition("t", 2, None)
    (data / checkpoints.LOG_START_OFFSETS).write_text("0\n1\nt 1 1\n")
    directory._roots[str(data)].since = 0
    assert directory.partition("t", 1, state)[3][4] == (1, 1, 1)
    assert directory.partition("t", 2, others)[3] is None


def test_a_topic_that_is_made_again_has_its_new_id(data):
    directory = ServedDirectory(data)
    number, topics = directory.topics(None)
    for partition in range(3):
        made, former = data / f"t-{partition}", data.parent / f"former-{partition}"
        made.rename(former)
        shutil.copytree(former, made)
        metadata = made / checkpoints.PARTITION_METADATA
        metadata.write_text("version: 0\ntopic_id: BwgJCgsMDQ4PEBESExQVFg")
    later, found = directory.topics(number)
    assert later != number
    assert found[0][1] == bytes(range(7, 23)) != topics[0][1]


HOLD = """
import sys, time
import brokerless as bl
with bl.open_log_dir(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_the_last_records_are_shown_when_a_broker_is_gone(data):
    """Its lock goes with the process, and no file changes."""
    with bl.Producer(data, "t") as producer:
        producer.send([{"value": b"w", "partition": 0}] * 4)
    (data / checkpoints.HIGH_WATERMARKS).write_text("0\n1\nt 0 2\n")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(data)], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with bl.serve(data) as address:
            assert end_of(address) == 2
            holder.kill()
            holder.wait()
            deadline = time.monotonic() + 20
            while end_of(address) != 5:
                assert time.monotonic() < deadline
                time.sleep(0.2)


def end_of(address):
    client = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    try:
        return client.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), timeout=10)[1]
    finally:
        client.close()


@pytest.mark.parametrize("has_ids", [True, False])
def test_commits_name_topics_where_one_has_no_id(data, has_ids):
    """franz-go commits by ids wherever a server knows them, and to a topic without an id never."""
    if not has_ids:
        for path in data.glob("t-*/partition.metadata"):
            path.unlink()
    asked = struct.pack(">hhih", 18, 0, 7, -1)
    with bl.serve(data) as address:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(struct.pack(">i", len(asked)) + asked)
            (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            found = connection.recv(length, socket.MSG_WAITALL)
    last = {api: last for api, _, last in struct.iter_unpack(">hhh", found[10:])}
    assert (last[8], last[9]) == ((10, 10) if has_ids else (9, 9))


def test_clients_that_cause_many_warnings_hide_no_damage(data, caplog):
    directory = ServedDirectory(data)
    for number in range(2000):
        directory.refused(f"topic-{number}")
    for position in range(2000):
        directory.damaged(CorruptRecordError("broken", path="/data/t-0/0.log", position=position))
    levels = Counter(record.levelname for record in caplog.records if record.name == "brokerless.serve")
    assert levels["ERROR"] == levels["WARNING"] == 1000
