"""A log directory: whose it is, how it was left, and whether a broker is there now."""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import brokerless as bl


def test_a_real_brokers_directory(golden):
    root = bl.LogDirFiles(str(golden / "logs" / "kafka-4.1"))
    assert (root.node_id, root.cluster_id, root.directory_id) == (1, "goldenSetPublicAAAAAAA", "VxOSAnLfzy4RI5jgcY3wIQ")
    assert root.is_clean
    assert root.broker_epoch == 544
    assert root.log_start_offsets == {("trimmed-delete-records", 0): 117, ("trimmed-to-end", 0): 200}
    assert root.high_watermarks["txn-open", 0] == 45
    assert root.recovery_points["txn-open", 0] == 45
    assert ("compact-plain", 0) in root.first_dirty_offsets


def test_a_zookeeper_brokers_directory(golden):
    root = bl.LogDirFiles(str(golden / "logs" / "kafka-2.8-v0"))
    assert (root.node_id, root.directory_id) == (1, None)
    assert root.is_clean
    assert root.broker_epoch is None


def test_a_killed_brokers_directory_is_not_clean(golden):
    assert not bl.LogDirFiles(str(golden / "logs" / "kafka-4.1-crashed")).is_clean


def test_a_damaged_checkpoint_matters_only_to_those_who_need_it(golden, copied):
    log = bl.Log(copied("kafka-4.1", "codec-none-0"))
    (Path(log.root.path) / "cleaner-offset-checkpoint").write_text("7\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(rows.num_rows for rows in log.read()) == 350


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_read_goes_on_without_a_damaged_checkpoint_that_tells_where_logs_end(copied, name):
    log = bl.Log(copied("kafka-4.1", "codec-none-0"))
    (Path(log.root.path) / name).write_text("7\n")
    with pytest.warns(UserWarning, match=f"unknown version at .*{name}: stored '7'"):
        assert sum(rows.num_rows for rows in log.read()) == 350
    assert name.startswith("recovery") or log.high_watermark is None


def test_a_malformed_log_start_checkpoint_does_not_make_every_partition_unreadable(copied):
    directory = copied("kafka-4.1", "trimmed-delete-records-0")
    (directory.parent / "log-start-offset-checkpoint").write_bytes(b"\0garbage\xff")
    log = bl.Log(directory)
    with pytest.warns(UserWarning, match=r"treated as empty: .*log-start-offset-checkpoint"):
        assert log.log_start_offset == log.segments[0].base_offset
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(rows.num_rows for rows in log.read()) == log.log_end_offset - log.segments[0].base_offset


def test_a_named_pipe_for_a_lock_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(OSError, match="not a regular file"):
        _ = bl.LogDirFiles(str(tmp_path)).is_locked


def test_the_clean_shutdown_marker_may_be_empty(tmp_path):
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert bl.LogDirFiles(str(tmp_path)).is_clean


def test_no_lock_file_no_broker(tmp_path):
    assert not bl.LogDirFiles(str(tmp_path)).is_locked


def test_a_lock_file_that_a_killed_broker_left_is_not_held(tmp_path):
    (tmp_path / ".lock").touch()
    assert not bl.LogDirFiles(str(tmp_path)).is_locked


@pytest.fixture
def locked(tmp_path):
    """A directory that another process, as a broker does, holds a POSIX lock in."""
    (tmp_path / ".lock").touch()
    holder = """
        import fcntl, sys
        file = open(sys.argv[1], "r+")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("locked", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(holder), str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        yield tmp_path
        process.stdin.close()
        process.wait()


def test_a_live_broker_is_seen(locked):
    assert bl.LogDirFiles(str(locked)).is_locked


def test_asking_for_the_lock_does_not_take_it(tmp_path):
    """A broker that starts while we look must get its lock: so nothing of ours may hold it, not even for a moment."""
    (tmp_path / ".lock").touch()
    root = bl.LogDirFiles(str(tmp_path))
    assert not root.is_locked
    other = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", other, str(tmp_path / ".lock")], check=True)
        assert not root.is_locked
