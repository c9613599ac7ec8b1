"""A broker takes a repaired directory as it is, without a recovery, and serves every record that was kept."""

import shutil

import pytest
from filling import data_batches
from kafka import AFTER_A_KILL, EACH_RELEASE, RELEASES, Broker, complaints

import brokerless as bl
from brokerless.layout import checkpoints
from support import damage
from support.log_files import batch, write_snapshot

SMALL = {"internal_segment_bytes": 10_000}
_KILLED = "killed"


@pytest.fixture(scope="module", params=[*EACH_RELEASE, _KILLED])
def left(client, tmp_path_factory, request):
    """A directory with plain records and transactions, whose broker was stopped, or killed; and what it had served."""
    release = RELEASES[0] if request.param == _KILLED else request.param
    data = tmp_path_factory.mktemp("left") / "data"
    broker = Broker(data, log=data.with_name("before.log"), version=release)
    try:
        client.create(broker, "plain", **SMALL)
        client.create(broker, "txn", internal_segment_bytes=2_500)
        for at in range(12):
            client.produce(broker, "plain", 0, 40)
            client.produce(broker, "txn", 0, 20, mode="abort" if at % 3 == 1 else "commit")
        consumed = {
            (topic, level): client.consume(broker, topic, level)
            for topic in ("plain", "txn")
            for level in ("read_uncommitted", "read_committed")
        }
    except BaseException:
        broker.kill()
        raise
    broker.kill() if request.param == _KILLED else broker.stop()
    return data, release, consumed


def harm(data):
    """Damage batches on both sides of sound ones, and files of each kind; return the lost batches by topic."""
    path, of_first = data_batches(data / "plain-0", 0)
    damage.flip_bit(path, of_first[3]["position"] + 70)
    # No checksum covers the magic and the length: a repair keeps such batches.
    damage.flip_bit(path, of_first[5]["position"] + 16)
    damage.flip_bit(path, of_first[7]["position"] + 10)
    path, of_second = data_batches(data / "plain-0", 1)
    damage.overwrite(path, of_second[2]["position"], bytes(of_second[2]["size"]))
    path, of_txn = data_batches(data / "txn-0", 1)
    damage.flip_bit(path, of_txn[1]["position"] + of_txn[1]["size"] - 3)
    for extension in ("index", "timeindex"):
        for index in (data / "plain-0").glob(f"*.{extension}"):
            damage.randomize(index)
    next((data / "txn-0").glob("*.txnindex")).unlink()
    for name in (checkpoints.LEADER_EPOCHS, checkpoints.PARTITION_METADATA):
        (data / "txn-0" / name).write_text("x")
    (data / checkpoints.RECOVERY_POINTS).write_text("x")
    return {"plain": [of_first[3], of_second[2]], "txn": [of_txn[1]]}


@pytest.mark.parametrize("in_place", [False, True])
def test_a_broker_serves_what_was_kept(client, left, tmp_path, in_place):
    source, release, consumed = left
    data = shutil.copytree(source, tmp_path / "data")
    lost = harm(data)
    to = data if in_place else tmp_path / "repaired"
    repaired = bl.repair(data, None if in_place else to, in_place=in_place)
    assert sorted((one.topic, one.start_offset) for one in repaired.lost) == sorted(
        (topic, batch["base_offset"]) for topic, of_topic in lost.items() for batch in of_topic
    )
    assert [one for one in bl.check(to, level="deep") if one.severity != "note"] == []
    with Broker(to, log=tmp_path / "after.log", version=release, **AFTER_A_KILL) as broker:
        for (topic, level), rows in consumed.items():
            gone = {at for one in lost[topic] for at in range(one["base_offset"], one["last_offset"] + 1)}
            assert client.consume(broker, topic, level) == [row for row in rows if row["offset"] not in gone]
        assert [line for line in complaints(broker.log) if "-0" in line] == []
        end = client.offset(broker, "plain", 0, -1)
        assert client.produce(broker, "plain", 0, 1)[0]["offset"] == end


@pytest.mark.parametrize("magic", [3, 130])
def test_a_consumer_stops_at_a_magic_that_no_release_writes(client, left, tmp_path, magic):
    source, release, _ = left
    data = shutil.copytree(source, tmp_path / "data")
    path, batches = data_batches(data / "plain-0", 0)
    damage.overwrite(path, batches[5]["position"] + 16, bytes([magic]))
    assert "batch-magic" in {one.code for one in bl.check(data)}
    is_killed = not (data / checkpoints.CLEAN_SHUTDOWN).exists()
    with Broker(data, log=tmp_path / "broker.log", version=release, **AFTER_A_KILL) as broker:
        rows, error = client.consume_to_damage(broker, "plain")
        end = client.offset(broker, "plain", 0, -1)
    assert [row["offset"] for row in rows] == list(range(batches[5]["base_offset"]))
    # A recovery takes a negative magic for 1, and truncates the log there.
    is_cut = is_killed and magic == 130
    assert (error is None, end == batches[5]["base_offset"]) == (is_cut, is_cut)


def test_a_broker_serves_all_with_what_another_replica_has(client, left, tmp_path):
    source, release, consumed = left
    data = shutil.copytree(source, tmp_path / "data")
    harm(data)
    repaired = bl.repair(data, tmp_path / "repaired", sources=[source])
    assert {one.state for one in repaired.ranges} == {"recovered"}
    with Broker(tmp_path / "repaired", log=tmp_path / "after.log", version=release, **AFTER_A_KILL) as broker:
        for (topic, level), rows in consumed.items():
            assert client.consume(broker, topic, level) == rows
        assert [line for line in complaints(broker.log) if "-0" in line] == []


@pytest.mark.parametrize("is_empty", [True, False])
def test_records_of_an_open_transaction_stay_hidden_although_its_snapshots_were_lost(client, tmp_path, is_empty):
    """With an empty snapshot, or none, a broker gives them to consumers with read_committed."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"a"] * 3))
        log.append(batch(0, [b"b"] * 2, producer_id=8, base_sequence=0, transactional=True))
        log.append(batch(0, [b"c"] * 2))
    for path in (tmp_path / "data/t-0").glob("*.snapshot"):
        path.unlink()
    if is_empty:
        write_snapshot(tmp_path / "data/t-0", 7)
    shutil.copytree(tmp_path / "data", tmp_path / "as-it-is")
    bl.repair(tmp_path / "data", tmp_path / "repaired")
    seen = {}
    for name in ("as-it-is", "repaired"):
        with Broker(tmp_path / name, log=tmp_path / f"{name}.log") as broker:
            rows = client.consume(broker, "t", "read_committed", patience=5)
            seen[name] = [row["offset"] for row in rows]
    assert seen == {"as-it-is": [*range(7)], "repaired": [*range(3)]}
