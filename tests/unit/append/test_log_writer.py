"""A log whose files may not hold what it should is never closed as if they did, and neither is its directory."""

import os
import warnings
from unittest import mock

import pytest

import brokerless as bl
from brokerless.append.writer import LogWriter
from brokerless.io import disk
from support.damage import flip_bit
from support.log_files import batch


@pytest.fixture
def path(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        directory.create_topic("t", 2)
    return str(tmp_path / "d")


def open_quietly(path):
    return bl.open_log_dir(path, sole_replica=True)


def values(path, partition=0):
    log = bl.LogDirs(path).log("t", partition)
    return [value for rows in log.read() for value in rows["value"].to_pylist()]


def recovers(path):
    with open_quietly(path) as directory:
        assert not directory.was_clean
        directory.log("t", 0)
        directory.log("t", 1)
    return bl.LogDirFiles(path).is_clean


def test_a_log_that_could_not_be_closed_is_not_taken_for_closed(path):
    """Its own `with` block reports the error first, and the directory's closes it a second time."""

    def close_on_a_full_disk():
        with open_quietly(path) as directory:
            log = directory.log("t", 0)
            log.append(batch(0, [b"a"]))
            with mock.patch.object(disk.Output, "sync", side_effect=OSError(28, "full")):
                log.close()

    with pytest.raises(OSError, match="full"):
        close_on_a_full_disk()
    assert not bl.LogDirFiles(path).is_clean
    assert recovers(path)


def test_an_interrupt_between_decision_and_files_breaks_the_log(path):
    directory = open_quietly(path)
    log = directory.log("t", 0)
    log.append(batch(0, [b"a"], timestamp=1000))
    with mock.patch.object(LogWriter, "_write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        log.append(batch(0, [b"b", b"c"], timestamp=5000))
    with pytest.raises(ValueError, match="broken by an earlier error"):
        log.append(batch(0, [b"d"]))
    with pytest.raises(ValueError, match="broken by an earlier error"):
        directory.close()
    assert not bl.LogDirFiles(path).is_clean
    assert recovers(path)
    assert values(path) == [b"a"]


def test_a_refused_append_does_not_break_the_log(path):
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        with pytest.raises(bl.errors.CorruptRecordError):
            log.append(batch(0, [b"a"])[:-1] + b"x")
        log.append(batch(0, [b"a"]))
    assert bl.LogDirFiles(path).is_clean
    assert values(path) == [b"a"]


def test_a_flush_that_failed_is_not_made_good_by_a_second_one(path):
    """The system drops what it could not write, and the next fsync succeeds."""
    directory = open_quietly(path)
    log = directory.log("t", 0)
    log.append(batch(0, [b"a"]))
    with mock.patch.object(disk.Output, "sync", side_effect=OSError(5, "lost")), pytest.raises(OSError, match="lost"):
        log.flush()
    with pytest.raises(ValueError, match="broken by an earlier error"):
        directory.close()
    assert not bl.LogDirFiles(path).is_clean


def test_the_first_error_of_a_block_is_the_one_that_is_seen(path):
    def append_to_a_full_disk():
        with open_quietly(path) as directory:
            log = directory.log("t", 0)
            with mock.patch.object(disk.Output, "write_at", side_effect=OSError(28, "full")):
                log.append(batch(0, [b"a"]))

    with pytest.raises(OSError, match="full") as caught:
        append_to_a_full_disk()
    assert "could not be closed and needs recovery" in caught.value.__notes__[0]
    assert not bl.LogDirFiles(path).is_clean


def test_the_first_error_of_a_logs_own_block_is_the_one_that_is_seen(path):
    """Parts are appended to logs that no directory has open."""

    def append_to_a_full_disk():
        with (
            LogWriter.open(f"{path}/t-0", config=bl.TopicConfig(), is_clean=True) as log,
            mock.patch.object(disk.Output, "write_at", side_effect=OSError(28, "full")),
        ):
            log.append(batch(0, [b"a"]))

    with pytest.raises(OSError, match="full"):
        append_to_a_full_disk()


def test_a_log_start_that_was_not_written_everywhere_breaks_the_log(path):
    """The epochs in its file are older than the start of the log, and nothing else says so."""
    directory = open_quietly(path)
    log = directory.log("t", 0)
    log.append(batch(0, [b"a", b"b"]))
    with pytest.raises(bl.errors.OffsetOutOfRangeError, match="before offset 3"):
        log.run(bl.Retention(before_offset=3))
    assert not log.is_broken
    with mock.patch.object(disk, "atomic_write", side_effect=OSError(28, "full")), pytest.raises(OSError, match="full"):
        log.run(bl.Retention(before_offset=1))
    assert log.is_broken


def test_an_open_that_fails_leaves_a_clean_directory_clean(path):
    """Of a transaction that was left open each partition is opened; one may be damaged."""
    directory = open_quietly(path)
    producer = bl.Producer(directory, "t", transactional_id="x")
    producer.begin()
    producer.send([{"value": b"a", "partition": 0}, {"value": b"b", "partition": 1}])
    producer.flush()
    directory.close()
    assert bl.LogDirFiles(path).is_clean
    damaged = f"{path}/t-1/leader-epoch-checkpoint"
    with open(damaged, "w") as file:
        file.write("no number")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(bl.errors.CorruptRecordError):
        open_quietly(path)
    assert bl.LogDirFiles(path).is_clean
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_log_that_was_opened_half_leaves_no_marker(path):
    os.unlink(f"{path}/t-0/partition.metadata")
    directory = open_quietly(path)
    with (
        mock.patch("brokerless.recovery.file_changes.Changes.apply", side_effect=OSError(28, "full")),
        pytest.raises(OSError, match="full"),
    ):
        directory.log("t", 0)
    directory.close()
    assert not bl.LogDirFiles(path).is_clean
    assert recovers(path)


def test_a_log_that_was_opened_half_is_recovered_by_the_second_try(path):
    with open_quietly(path) as directory:
        with (
            mock.patch("brokerless.recovery.file_changes.Changes.apply", side_effect=OSError),
            pytest.raises(OSError),
        ):
            directory.log("t", 0)
        with mock.patch.object(LogWriter, "open", wraps=LogWriter.open) as opening:
            directory.log("t", 0)
        assert not opening.call_args.kwargs["is_clean"]
    assert bl.LogDirFiles(path).is_clean


def test_a_forked_process_closes_nothing(path):
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        log.append(batch(0, [b"a"]))
        process = os.fork()
        if process == 0:
            status = 1
            try:
                with pytest.raises(ValueError, match="not in this one"):
                    log.append(batch(0, [b"child"]))
                log.close()
                directory.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(process, 0)[1] == 0
        assert not bl.LogDirFiles(path).is_clean
        assert os.path.exists(f"{path}/.lock")
        log.append(batch(0, [b"b"]))
    assert values(path) == [b"a", b"b"]


def test_a_log_that_was_closed_can_be_opened_again(path):
    with open_quietly(path) as directory:
        for value in (b"a", b"b"):
            with directory.log("t", 0) as log:
                log.append(batch(0, [value]))
                assert log.recovery == [] or value == b"a"
    assert values(path) == [b"a", b"b"]
    assert bl.LogDirFiles(path).is_clean


def test_replicated_batches_of_any_epoch_are_taken(path):
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        appended = log.append(batch(7, [b"a"], leader_epoch=5), origin="replication")
    assert (appended.last_offset, values(path)) == (7, [b"a"])


def test_a_warning_that_is_an_error_leaves_the_directory_as_it_was(path):
    os.makedirs(f"{path}/__cluster_metadata-0")
    with open(f"{path}/__cluster_metadata-0/{0:020d}.log", "wb"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="belongs to cluster"):
            bl.open_log_dir(path)
    assert bl.LogDirFiles(path).is_clean
    open_quietly(path).close()


def test_recovering_one_topic_of_a_clean_directory_leaves_it_clean(path):
    bl.open_log_dir(path, sole_replica=True, recover=True).close()
    with bl.open_log_dir(path, sole_replica=True, recover=True) as directory:
        directory.log("t", 0)
    assert bl.LogDirFiles(path).is_clean


def test_a_start_offset_above_the_end_deletes_nothing_in_a_clean_directory(path):
    """A broker would: one wrong number in a text, and the log is gone."""
    with open_quietly(path) as directory:
        directory.log("t", 0).append(batch(0, [b"a"]))
    with open(f"{path}/log-start-offset-checkpoint", "w") as file:
        file.write("0\n1\nt 0 1000\n")
    with (
        open_quietly(path) as directory,
        pytest.raises(bl.errors.CorruptRecordError, match="correct the offset in log-start-offset-check"),
    ):
        directory.log("t", 0)
    assert bl.LogDirFiles(path).is_clean
    assert os.path.getsize(f"{path}/t-0/{0:020d}.log") > 0


def test_what_recovery_cannot_cure_is_not_said_to_be_cured_by_it(path):
    with (
        open(f"{path}/t-0/1.log", "wb"),
        bl.open_log_dir(path, sole_replica=True, recover=True) as directory,
        pytest.raises(bl.errors.CorruptRecordError, match="rename the file to") as caught,
    ):
        directory.log("t", 0)
    assert "brokerless recover" not in str(caught.value)


def test_damage_in_a_clean_segment_without_an_index_is_not_cut_away_in_silence(path):
    """A broker makes the index anew, and cuts the segment at the first bad batch, with all the good ones behind."""
    with open_quietly(path) as directory:
        for value in (b"a", b"b", b"c"):
            directory.log("t", 0).append(batch(0, [value]))
        directory.log("t", 0).roll()
    log = f"{path}/t-0/{0:020d}.log"
    flip_bit(log, os.path.getsize(log) // 2)
    os.remove(log.replace(".log", ".index"))
    with (
        open_quietly(path) as directory,
        pytest.raises(bl.errors.CorruptRecordError, match=r"no index, at byte \d+: .*recover"),
    ):
        directory.log("t", 0)
    assert bl.LogDirFiles(path).is_clean
    assert os.path.getsize(log) == 3 * len(batch(0, [b"a"]))
    with bl.open_log_dir(path, sole_replica=True, recover=True) as directory:
        directory.log("t", 0)
    assert values(path) == [b"a"]


def test_a_clean_segment_that_is_split_loses_nothing(path):
    """Its offsets lie too far apart for one index, which is why it has none."""
    log = f"{path}/t-0/{0:020d}.log"
    with open(log, "wb") as file:
        file.write(batch(0, [b"a"]) + batch(3 << 29, [b"b"]) + batch(3 << 30, [b"c"]))
    with open_quietly(path) as directory:
        directory.log("t", 0)
    assert values(path) == [b"a", b"b", b"c"]
    assert [segment.base_offset for segment in bl.Log(f"{path}/t-0").segments] == [0, 3 << 30]


def test_a_swap_file_of_another_name_is_damage(path):
    with (
        open(f"{path}/t-0/x.swap", "wb"),
        open_quietly(path) as directory,
        pytest.raises(bl.errors.CorruptRecordError, match=r"the name x\.swap does not begin with an offset"),
    ):
        directory.log("t", 0)


def test_the_cleaner_looks_again_at_what_was_truncated(path):
    """What is written there later would count as cleaned."""
    checkpoint = f"{path}/cleaner-offset-checkpoint"
    with open_quietly(path) as directory:
        log = directory.log("t", 0, segment_bytes=300)
        for _ in range(12):
            log.append(batch(0, [b"a"]))
    with open(checkpoint, "w") as file:
        file.write("0\n2\nt 0 11\nt 1 3\n")
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        log.truncate_to(5)
        log.append(batch(0, [b"b"]))
    with open(checkpoint) as file:
        assert file.read() == "0\n2\nt 0 4\nt 1 3\n"


@pytest.mark.parametrize("cut", [1, 60, 62])
def test_a_batch_that_is_cut_is_not_left_out_in_silence(path, cut):
    """A broker leaves it out, for its next fetch brings it; a restore would have a gap."""
    whole, late = batch(0, [b"a"]), batch(1, [b"b"])
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        for append, content in (
            (log.append, whole[:-cut]),
            (log.append_as_follower, whole + late[:-cut]),
            (log.append, b"abc"),
        ):
            with pytest.raises(bl.errors.CorruptRecordError, match=r"the last batch is cut, \d+ bytes are left of it"):
                append(content)
        assert log.log_end_offset == 0
        assert log.append_as_follower(whole + late).consumed == len(whole + late)
    assert values(path) == [b"a", b"b"]


def test_less_than_no_segments_cannot_be_deleted(path):
    with open_quietly(path) as directory:
        log = directory.log("t", 0)
        for value in (b"a", b"b", b"c"):
            log.append(batch(0, [value]))
            log.roll()
        with pytest.raises(ValueError, match="cannot delete -1 segments"):
            log.delete_segments(-1)
    assert len(values(path)) == 3


def test_a_file_that_cannot_be_read_leaves_the_directory_as_clean_as_it_was(path, monkeypatch):
    """Nothing has been changed by then; without its marker a broker would recover every log."""

    def fails(*_, **__):
        raise PermissionError(13, "Permission denied")

    with open_quietly(path) as directory:
        with monkeypatch.context() as patched:
            patched.setattr("brokerless.append.writer.load", fails)
            with pytest.raises(PermissionError):
                directory.log("t", 0)
        directory.log("t", 1)
    assert bl.LogDirFiles(path).is_clean


def test_a_lock_file_that_is_gone_is_no_reason_to_fail_a_close(path):
    with open_quietly(path) as directory:
        directory.log("t", 0).append(batch(0, [b"a"]))
        os.remove(f"{path}/.lock")
    assert values(path) == [b"a"]
    assert bl.LogDirFiles(path).is_clean


@pytest.mark.parametrize("leader_epoch", [-1, 1 << 31])
def test_a_leader_epoch_that_no_batch_can_have_changes_nothing(path, leader_epoch):
    with open_quietly(path) as directory:
        with pytest.raises(ValueError, match="0 to 2147483647 are allowed"):
            directory.create_topic("new", leader_epoch=leader_epoch)
        with pytest.raises(ValueError, match="0 to 2147483647 are allowed"):
            directory.log("t", 0, leader_epoch=leader_epoch)
        directory.create_topic("new")
    assert bl.LogDirFiles(path).is_clean


@pytest.mark.parametrize(("start", "found"), [(0, [0, 1, 2, 3]), (2, [2, 3]), (4, []), (9, [])])
def test_a_log_starts_where_its_leaders_does(path, start, found):
    """Whatever its policy, and though its leader has deleted all that it has."""
    with open_quietly(path) as directory:
        log = directory.log("t", 0, cleanup_policy="compact")
        log.append_as_follower(batch(0, [b"0", b"1", b"2", b"3"]))
        log.start_at(start)
        log.start_at(1)
        assert (log.log_start_offset, log.log_end_offset) == (max(start, 1), max(start, 4))
    for offset in range(2):
        with open_quietly(path) as directory:
            log = directory.log("t", 0)
            assert (log.log_start_offset, log.log_end_offset) == (max(start, 1), max(start, 4) + offset)
            log.append(batch(0, [b"more"]))
    assert values(path) == [*(b"%d" % number for number in found if number), b"more", b"more"]
