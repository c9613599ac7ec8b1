"""A broker and we keep each other out of a log directory, and so do two writers of one process."""

import os
import subprocess
import sys

import pytest

import brokerless as bl
from brokerless.layout.lock import Lock, is_held

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
"""


def other_process(path, then=""):
    """Lock `path` in another process, as Java does; with `then`, go on with this."""
    command = [sys.executable, "-c", HOLD + then, path]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def can_be_locked_by_another(path):
    with other_process(path) as process:
        return process.stdout.read() == b"locked\n"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".lock")


def test_a_lock_keeps_a_broker_out_until_it_is_released(path):
    lock = Lock(path)
    assert not can_be_locked_by_another(path)
    lock.release()
    assert not os.path.exists(path)
    open(path, "w").close()
    assert can_be_locked_by_another(path)


def test_a_broker_keeps_us_out_and_is_named(path):
    open(path, "w").close()
    with other_process(path, "sys.stdin.read()") as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(
            bl.errors.LogInUseError, match=rf"process {process.pid} \(python.*\) holds .*/\.lock; stop it"
        ):
            Lock(path)
        process.stdin.close()
    Lock(path).release()


def test_the_same_process_cannot_take_it_twice(path):
    """The system would let it, and the first close of the two would end the lock of both."""
    lock = Lock(path)
    with pytest.raises(bl.errors.LogInUseError, match="this process already writes"):
        Lock(path)
    os.symlink(path, f"{path}-by-another-name")
    with pytest.raises(bl.errors.LogInUseError, match="this process already writes"):
        Lock(f"{path}-by-another-name")
    assert not can_be_locked_by_another(path)
    lock.release()
    Lock(path).release()


def test_asking_whether_it_is_held_does_not_end_our_own_lock(path, tmp_path):
    """Closing any descriptor of the file would."""
    lock = Lock(path)
    assert is_held(path)
    assert bl.LogDirFiles(str(tmp_path)).is_locked
    assert not can_be_locked_by_another(path)
    lock.release()
    assert not is_held(path)


def test_what_a_killed_writer_left_is_taken_over(path):
    open(path, "w").close()
    lock = Lock(path)
    assert not can_be_locked_by_another(path)
    lock.release()
    lock.release()


def test_a_lock_whose_file_was_removed_while_we_waited_is_not_believed(path, monkeypatch):
    """Its holder removes it when it goes: we would hold a file without a name while another locks a new one."""
    from brokerless.layout import lock as module

    opened = module._opened
    waited = []

    def opened_just_before_the_removal(path):
        file = opened(path)
        if not waited:
            waited.append(os.unlink(path))
        return file

    monkeypatch.setattr(module, "_opened", opened_just_before_the_removal)
    lock = Lock(path)
    assert not can_be_locked_by_another(path)
    lock.release()


def test_a_named_pipe_is_no_lock(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        Lock(path)


def test_no_directory_no_lock(tmp_path):
    with pytest.raises(FileNotFoundError):
        Lock(str(tmp_path / "nowhere" / ".lock"))


def test_a_link_that_leads_nowhere_is_refused_in_the_place_of_a_lock(path):
    """It can neither be opened nor created anew: no attempt would end."""
    os.symlink("nowhere", path)
    assert not is_held(path)
    with pytest.raises(bl.errors.CorruptRecordError, match="the directory cannot be locked"):
        Lock(path)
