"""Tiered logs that we wrote to: a broker serves them from their first remote offset on, and deletes nothing remote."""

import shutil
import time

import pytest
from filling import EARLIEST_LOCAL, tier, wait_until_moved
from kafka import AFTER_A_KILL, Broker, complaints, tiered

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.log_dir.recover import recovered
from brokerless.rewriting.run import rewrite
from support.polling import until

EARLIEST = -2
# Ten rounds of what moves segments, and five of what deletes them: see `tiered`.
ROUNDS_SECONDS = 1


def objects(remote):
    return sorted(str(path.relative_to(remote)) for path in remote.rglob("*") if path.is_file())


def open_and_close(data):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.log("t", 0)


def append(data):
    with bl.Producer(data, "t", sole_replica=True) as producer:
        producer.send([{"key": b"k", "value": b"ours"}])


def recover(data):
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    list(recovered(str(data)))


def convert(data):
    rewrite(bl.Conversion(compression="gzip"), data, topics=["t"])


def erase(data):
    rewrite(bl.Erasure(keys=(b"nobody",), local_only=True), data, topics=["t"])


def retain(data):
    rewrite(bl.Retention(before_offset=0), data, topics=["t"])


def convert_alone(data):
    """Of a partition without a log directory around it only the leader epochs tell what is remote."""
    alone = shutil.move(data / "t-0", data.parent / "t-0")
    rewrite(bl.Conversion(compression="none"), alone)
    shutil.move(alone, data / "t-0")


def copy(data):
    """All topics: the remote segments' metadata are in one of Kafka's own."""
    to, topics = data.with_name("copy"), set(bl.LogDirs(data).topics()) - {"__cluster_metadata"}
    rewrite(bl.Conversion(compression="zstd"), data, topics=sorted(topics), output=to)
    shutil.rmtree(data)
    shutil.move(to, data)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [1, 2])
def test_every_offset_is_served_and_no_object_is_deleted(client, tmp_path, epochs):
    data, remote = tmp_path / "data", tmp_path / "remote"
    properties = tiered(remote)
    for number in range(epochs):
        with Broker(data, log=tmp_path / f"epoch{number}.log", **properties) as broker:
            if number:
                local_start = client.offset(broker, "t", 0, EARLIEST_LOCAL)
                # until the segment that has both epochs is remote, too
                while client.offset(broker, "t", 0, EARLIEST_LOCAL) < local_start + 60:
                    client.produce(broker, "t", 0, 20)
            else:
                tier(client, broker, "t")
            wait_until_moved(client, broker, data / "t-0")
            expected = client.consume(broker, "t")
    assert expected[0]["offset"] == 0
    known = checkpoints.parse_leader_epochs((data / "t-0" / checkpoints.LEADER_EPOCHS).read_bytes())
    assert len(known) == epochs
    before = objects(remote)
    for verb in (open_and_close, append, recover, convert, erase, retain, convert_alone, copy):
        verb(data)
        with Broker(data, log=tmp_path / f"{verb.__name__}.log", **properties) as broker:
            assert client.offset(broker, "t", 0, EARLIEST) == 0, verb
            rows = client.consume(broker, "t")
            # Several rounds of what copies, and deletes.
            time.sleep(ROUNDS_SECONDS)
            assert rows[: len(expected)] == expected, verb
            assert "Deleted remote log segment" not in broker.log, verb
            # Reading remote segments is tried again until their metadata are there, and complains.
            said = [line for line in complaints(broker.log) if ".internals.log." in line or "LogManager" in line]
            assert said == [], verb
        assert set(before) <= set(objects(remote)), verb
    assert rows[-1]["offset"] == expected[-1]["offset"] + 1
    rewrite(bl.Retention(before_offset=10), data, topics=["t"])
    with Broker(data, log=tmp_path / "retained.log", **properties) as broker:
        assert client.offset(broker, "t", 0, EARLIEST) == 10
        assert client.consume(broker, "t") == rows[10:]


def test_a_start_in_the_remote_part_stays_after_a_crash(client, tmp_path):
    data, remote = tmp_path / "data", tmp_path / "remote"
    properties = {**tiered(remote), "log_flush_start_offset_checkpoint_interval_ms": 500}
    with Broker(data, log=tmp_path / "before.log", **properties) as broker:
        tier(client, broker, "t")
        end = client.consume(broker, "t")[-1]["offset"]
        client.delete_records(broker, "t", 0, 5)
        starts = lambda: bl.LogDirFiles(str(data)).log_start_offsets  # noqa: E731 - read again each time
        until(lambda: starts().get(("t", 0)) == 5, what="the start was never checkpointed")
        broker.kill()
    list(recovered(str(data)))
    assert bl.LogDirFiles(str(data)).log_start_offsets["t", 0] == 5
    with Broker(data, log=tmp_path / "after.log", **properties, **AFTER_A_KILL) as broker:
        assert [row["offset"] for row in client.consume(broker, "t")] == list(range(5, end + 1))
