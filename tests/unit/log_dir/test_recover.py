"""Our recovery of a crashed broker's directory leaves what that broker's own recovery left."""

import errno
import os
import shutil

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.log_dir.recover import forecast, planned, recovered
from support.log_files import batch

CRASHED, RECOVERED = "kafka-4.1-crashed", "kafka-4.1-recovered"


# When that broker recovered: of producers whose last record is older than a day, it forgets the sequences.
RECOVERED_NS = 1_795_209_800_000 * 1_000_000


@pytest.fixture
def crashed(golden, tmp_path, monkeypatch):
    """Return a copy of the crashed directory: what our recovery may change."""
    monkeypatch.setattr("time.time_ns", lambda: RECOVERED_NS)
    return shutil.copytree(golden / "logs" / CRASHED, tmp_path / "data")


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("name", ["retention-all-0", "retention-bytes-0", "trimmed-delete-records-0", "idempotent-0"])
def test_a_second_recovery_changes_nothing(golden, tmp_path, name):
    """It wrote a producer snapshot at the start of an empty log, and removed it again."""
    data = tmp_path / "data"
    shutil.copytree(golden / "logs/kafka-4.1" / name, data / name)
    for file in ("meta.properties", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
        shutil.copy(golden / "logs/kafka-4.1" / file, data)
    first, second = ([step for _, steps in recovered(str(data)) for step in steps] for _ in range(2))
    assert (bool(first), second) == (True, [])


def test_all_files_are_what_kafkas_recovery_left(golden, crashed):
    for _ in recovered(str(crashed)):
        pass
    kafka = golden / "logs" / RECOVERED
    ours, theirs = contents(crashed), contents(kafka)
    names = {name for name in ours | theirs if "__cluster_metadata" not in name and "/" in name}
    names = {name for name in names if file_names.SET_ASIDE not in name}
    assert names <= ours.keys() & theirs.keys()
    for name in sorted(names):
        if name.endswith(".snapshot"):
            found, expected = (_native.producer_snapshot(content[name]).to_pylist() for content in (ours, theirs))
            key = repr
            assert sorted(found, key=key) == sorted(expected, key=key), name
        elif name.endswith(checkpoints.LEADER_EPOCHS):
            found, expected = checkpoints.parse_leader_epochs(ours[name]), checkpoints.parse_leader_epochs(theirs[name])
            # the restarted broker was elected once more
            assert found == expected[: len(found)], name
            assert len(expected) - len(found) <= 1
        else:
            assert ours[name] == theirs[name], name
    ends = checkpoints.parse_offset_checkpoint(ours[checkpoints.RECOVERY_POINTS])
    assert ends == checkpoints.parse_offset_checkpoint(theirs[checkpoints.RECOVERY_POINTS])
    assert bl.LogDirFiles(str(crashed)).is_clean


def test_a_dry_run_says_the_same_and_changes_nothing(crashed):
    before = contents(crashed)
    said = dict(planned(str(crashed)))
    assert contents(crashed) == before
    assert any(said.values())
    assert dict(recovered(str(crashed))) == said


def test_a_second_recovery_changes_no_data(crashed):
    for _ in recovered(str(crashed)):
        pass
    before = contents(crashed)
    for _ in recovered(str(crashed)):
        pass
    assert contents(crashed) == before


def test_a_partial_batch_behind_a_clean_marker_is_refused_with_a_cure_that_works(tmp_path):
    """A broker appends behind it, and everything it appends is lost at the next recovery (clean-partial-tail)."""
    path = tmp_path / "data"
    with bl.Producer(path, "t", batch_size=1) as producer:
        producer.send([{"value": b"0"}, {"value": b"1"}, {"value": b"2"}])
    log = path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-7])
    cut = log.stat().st_size
    with bl.open_log_dir(path) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match="recover --force"):
        log_dir.log("t", 0)
    assert log.stat().st_size == cut
    assert bl.LogDirFiles(str(path)).is_clean
    [(name, steps)] = recovered(str(path), force=True)
    assert name == "t-0"
    assert any(str(step).startswith(f"truncate {log.name}") for step in steps)
    with bl.Producer(path, "t") as producer:
        producer.send([{"value": b"3"}])
    assert [v for rows in bl.Log(path / "t-0").read() for v in rows["value"].to_pylist()] == [b"0", b"1", b"3"]


def test_a_magic_that_there_is_not_in_the_last_batch_stops_no_broker_and_no_recovery(tmp_path):
    """No checksum covers it, so recovery keeps the batch; what is appended follows it, and a reader reports it."""
    path = tmp_path / "data"
    with bl.Producer(path, "t", batch_size=1) as producer:
        producer.send([{"value": b"0"}, {"value": b"1"}])
    log = path / "t-0" / f"{0:020d}.log"
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 2 + 16] = 5
    log.write_bytes(whole)
    for has_marker in (False, True):
        if not has_marker:
            (path / checkpoints.CLEAN_SHUTDOWN).unlink()
        assert dict(recovered(str(path))) == {"t-0": []}
        with bl.open_log_dir(path) as log_dir:
            assert log_dir.log("t", 0).log_end_offset == 2
    assert log.read_bytes() == whole
    with pytest.raises(bl.errors.UnsupportedFormatError, match="magic 5"):
        list(bl.Log(path / "t-0").read())


@pytest.mark.parametrize("behind", [bytes(17), b"\x7f" * 40], ids=["zeros", "garbage"])
def test_what_a_broker_does_not_see_behind_the_last_batch_is_not_said_to_stop_it(tmp_path, behind):
    path = tmp_path / "data"
    with bl.Producer(path, "t") as producer:
        producer.send([{"value": b"0"}])
    log = path / "t-0" / f"{0:020d}.log"
    whole = log.read_bytes()
    log.write_bytes(whole + behind)
    said = f"does not see the {len(behind)} bytes after the last whole batch"
    with bl.open_log_dir(path) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match=said):
        log_dir.log("t", 0)
    list(recovered(str(path)))
    assert log.read_bytes() == whole


def test_a_dry_run_knows_the_settings_that_a_new_cluster_starts_with(tmp_path):
    path = str(tmp_path / "d")
    with bl.create_log_dir(path) as directory:
        directory.create_topic("t", index_interval_bytes=0)
        log = directory.log("t", 0)
        for i in range(5):
            log.append(batch(0, [b"a"], timestamp=1000 + i))
    (tmp_path / "d" / "t-0" / f"{0:020d}.index").unlink()
    expected = dict(planned(path))
    assert any(".index (32 bytes)" in str(step) for step in expected["t-0"])
    assert dict(recovered(path)) == expected


def test_there_is_nothing_to_do_after_a_clean_close(tmp_path):
    """A broker removes the last snapshot before it checks the log, and writes it again: that is no change."""
    with bl.Producer(tmp_path / "d", "t", transactional_id="x") as producer, producer.transaction():
        producer.send([{"value": b"0"}, {"value": b"1"}])
    before = contents(tmp_path / "d")
    assert dict(planned(str(tmp_path / "d"))) == dict(recovered(str(tmp_path / "d"))) == {"t-0": []}
    assert contents(tmp_path / "d") == before


def test_a_snapshot_that_does_not_hold_any_more_says_why_it_goes(tmp_path):
    with bl.Producer(tmp_path / "d", "t", batch_size=1) as producer:
        producer.send([{"value": b"0"}, {"value": b"1"}])
    log = tmp_path / "d" / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-7])
    [(_, steps)] = planned(str(tmp_path / "d"))
    why = "a producer snapshot above offset 0, from which recovery checks the log"
    assert f"remove {2:020d}.snapshot: {why}" in map(str, steps)


@pytest.mark.parametrize(
    "name", [checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS, "brokerless-transactional-ids.json"]
)
def test_a_dry_run_stops_at_the_files_at_which_the_run_stops(tmp_path, name):
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"0"}])
    (tmp_path / "d" / name).write_text("damaged\n")
    before = contents(tmp_path / "d")
    said = []
    for recover in (planned, recovered):
        with pytest.raises(bl.errors.CorruptRecordError) as raised:
            list(recover(str(tmp_path / "d")))
        said.append(str(raised.value))
        assert contents(tmp_path / "d") == before
    assert said[0] == said[1]
    assert name in said[0]


def test_a_dry_run_takes_only_what_the_run_takes(tmp_path):
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"0"}])
        for recover in (planned, recovered):
            with pytest.raises(bl.errors.LogInUseError, match="this process already writes"):
                list(recover(str(tmp_path / "d")))
    (tmp_path / "empty").mkdir()
    for recover in (planned, recovered):
        with pytest.raises(ValueError, match=r"/empty' is not a log directory: it has none"):
            list(recover(str(tmp_path / "empty")))
        with pytest.raises(ValueError, match=r"is a partition's directory: recover the log directory"):
            list(recover(str(tmp_path / "d" / "t-0")))
        with pytest.raises(ValueError, match="unknown topic 'u'"):
            list(recover(str(tmp_path / "d"), ["t", "u"]))


def test_a_topic_whose_directory_is_still_to_be_made_is_told_of(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        directory.create_topic("t", partitions=2)
    (tmp_path / "d" / "t-1" / checkpoints.PARTITION_METADATA).unlink()
    (tmp_path / "d" / "t-1").rmdir()
    said = dict(planned(str(tmp_path / "d")))
    assert list(map(str, said["t-1"])) == [
        "make the directory, because the metadata of the new cluster have the partition"
    ]
    assert dict(recovered(str(tmp_path / "d"))) == said


@pytest.fixture(params=["future", "stray"])
def leftover(request, tmp_path):
    """Name a directory that a broker was filling when it was killed: its last segment's indexes are preallocated."""
    with bl.Producer(tmp_path / "source", "t", segment_bytes=200, batch_size=1) as producer:
        producer.send([{"value": b"x" * 40}] * 9)
    with bl.create_log_dir(tmp_path / "data", kraft=False) as log_dir:
        log_dir.create_topic("u")
    name = f"t-0.{'0' * 32}-{request.param}"
    shutil.copytree(tmp_path / "source" / "t-0", tmp_path / "data" / name)
    for kind, entry in (("index", 8), ("timeindex", 12)):
        newest = max((tmp_path / "data" / name).glob(f"*.{kind}"))
        newest.write_bytes(newest.read_bytes() + bytes(100 * entry))
    (tmp_path / "data" / checkpoints.CLEAN_SHUTDOWN).unlink()
    return tmp_path / "data" / name


def has_preallocated_indexes(directory):
    return any(path.read_bytes()[-8:] == bytes(8) and path.stat().st_size > 12 for path in directory.glob("*index"))


def test_replicas_on_their_way_here_are_recovered(leftover):
    """With the marker a broker takes zeros at an index's end for its last entry, and segments for ages old."""
    data = leftover.parent
    assert has_preallocated_indexes(leftover)
    said = dict(planned(str(data)))
    assert [step for step in said[leftover.name] if "timeindex" in str(step)]
    assert dict(recovered(str(data))) == said
    assert bl.LogDirFiles(str(data)).is_clean
    assert not has_preallocated_indexes(leftover)
    assert bl.LogDirFiles(str(data)).recovery_points["t", 0] == 9
    assert ("t", 0) not in bl.LogDirFiles(str(data)).high_watermarks


def test_no_marker_is_put_over_replicas_that_were_not_recovered(leftover):
    for topics in (["t"], ["u"]):
        list(recovered(str(leftover.parent), topics))
        assert bl.LogDirFiles(str(leftover.parent)).is_clean == (topics == ["u"])
        assert not has_preallocated_indexes(leftover)


def test_opening_all_logs_recovers_replicas_on_their_way_here(leftover):
    with bl.open_log_dir(leftover.parent) as log_dir:
        log_dir.log("u", 0)
    assert bl.LogDirFiles(str(leftover.parent)).is_clean
    assert not has_preallocated_indexes(leftover)


def test_opening_some_logs_leaves_the_directory_to_be_recovered(leftover):
    with bl.open_log_dir(leftover.parent) as log_dir:
        log_dir.create_topic("w")
    assert not bl.LogDirFiles(str(leftover.parent)).is_clean
    assert has_preallocated_indexes(leftover)


def test_no_marker_is_put_over_a_replica_that_cannot_be_recovered(leftover):
    (leftover / "nonsense.log").touch()
    with pytest.raises(
        bl.errors.CorruptRecordError, match=r"the file name nonsense\.log does not begin with an offset"
    ):
        list(recovered(str(leftover.parent)))
    assert not bl.LogDirFiles(str(leftover.parent)).is_clean
    log_dir = bl.open_log_dir(leftover.parent)
    log_dir.log("u", 0)
    with pytest.warns(UserWarning, match=r"without a clean-shutdown marker: .*nonsense\.log"):
        log_dir.close()
    assert not bl.LogDirFiles(str(leftover.parent)).is_clean


def test_what_a_broker_would_not_start_on_is_said(crashed):
    """It stops at a directory whose name is no partition's, wherever the damage is that it was started after."""
    (crashed / "remote-log-index-cache").mkdir()
    list(planned(str(crashed)))
    (crashed / "foo").mkdir()
    for verb in (planned, recovered):
        with pytest.raises(bl.errors.CorruptRecordError, match="'foo' is not <topic>-<partition>; move it out"):
            list(verb(str(crashed)))
    (crashed / "foo").rmdir()
    (crashed / "crash-zstd-0" / "partition.metadata").write_text("nonsense")
    for verb in (planned, recovered):
        with pytest.raises(bl.errors.CorruptRecordError, match=r"partition\.metadata"):
            list(verb(str(crashed)))


@pytest.mark.parametrize(
    ("file", "content"),
    [("leader-epoch-checkpoint", "0\n1\nx y\n"), ("partition.metadata", "nonsense"), ("nonsense.log", "")],
)
def test_what_is_about_to_be_deleted_is_loaded_first(crashed, file, content):
    """Else a directory would be called good on which no broker starts. What is there of records is nobody's."""
    deleted = crashed / f"u-3.{'0' * 32}-delete"
    shutil.copytree(next(path for path in crashed.iterdir() if path.name.endswith("-0")), deleted)
    log = max(deleted.glob("*.log"))
    log.write_bytes(bytes(8) + b"\0\0\0\5" + b"x" * 100)
    list(planned(str(crashed)))
    (deleted / file).write_text(content)
    for verb in (planned, recovered):
        with pytest.raises(
            bl.errors.CorruptRecordError,
            match=rf"does not start.*was about to delete the directory {deleted.name}: remove it",
        ):
            list(verb(str(crashed)))
    (deleted / file).unlink()
    list(recovered(str(crashed)))
    assert len(log.read_bytes()) == 112


def test_what_is_no_file_is_passed_over_and_what_cannot_be_read_is_refused(tmp_path, monkeypatch):
    """As by a broker; and nothing is changed, though an old segment would not be looked into."""
    path = tmp_path / "data"
    with bl.Producer(path, "t", batch_size=1) as producer:
        producer.send([{"value": b"0"}])
    log = path / "t-0"
    (log / "dangling").symlink_to("nowhere")
    os.mkfifo(log / f"{7:020d}.index")
    assert dict(planned(str(path))) == {"t-0": []}
    foreign = log / "mine.txt"
    foreign.touch()

    class Refused(storage._Local):
        def __init__(self, name):
            if name == str(foreign):
                raise PermissionError(errno.EACCES, "Permission denied", name)
            super().__init__(name)

    monkeypatch.setattr(storage, "_Local", Refused)
    for recover in (planned, recovered):
        with pytest.raises(PermissionError, match=r"mine\.txt"):
            dict(recover(str(path)))
    assert bl.LogDirFiles(str(path)).is_clean


def test_a_replica_on_its_way_here_that_lacks_a_segment_is_not_recovered_without_a_word(leftover):
    lost = sorted(leftover.glob("*.log"))[1]
    lost.unlink()
    said = f"{leftover.name}: offsets 1 to 1 are lost: {lost.name} is missing, but its indexes are here"
    assert list(map(str, forecast(str(leftover.parent)).missing)) == [said]
    with pytest.raises(bl.errors.CorruptRecordError, match=rf"records are missing.*{lost.name}.*Nothing was changed"):
        list(recovered(str(leftover.parent)))
    assert not bl.LogDirFiles(str(leftover.parent)).is_clean
    list(recovered(str(leftover.parent), force=True))
    assert bl.LogDirFiles(str(leftover.parent)).is_clean
