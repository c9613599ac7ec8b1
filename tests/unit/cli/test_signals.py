"""What ends the command from outside: a signal cleans up as an interrupt does, and no worker is left to itself."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import brokerless as bl
from support.polling import until

pytestmark = pytest.mark.slow

SLOW = ["--topic", "t", "--compression", "zstd", "--compression-level", "22", "--in-place"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two partitions whose conversion takes a while."""
    data = tmp_path_factory.mktemp("large") / "data"
    words = [b"%x " % random.Random(seed).getrandbits(30) for seed in range(500)]
    pick = random.Random(7)
    with bl.Producer(data, "t", partitions=2) as producer:
        for _ in range(30):
            rows = [{"value": b"".join(pick.choices(words, k=2000)), "partition": part} for part in (0, 1)]
            producer.send(rows * 20)
    return data


@pytest.fixture
def data(large, tmp_path):
    return shutil.copytree(large, tmp_path / "data")


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def started(*arguments):
    command = ["env", "--default-signal=INT,TERM,HUP", sys.executable, "-m", "brokerless", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def children(process):
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def lives(pid):
    """Whether a process runs: one that has ended, and that nobody has asked about, has no command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def converting(data, jobs):
    process = started("convert", data, *SLOW, "--jobs", jobs)
    until(lambda: len(list(data.rglob("*.log.cleaned"))) >= jobs)
    return process, children(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_leaves_the_logs_as_they_were(jobs, number, data):
    before = contents(data)
    process, workers = converting(data, jobs)
    process.send_signal(number)
    assert (process.communicate(timeout=30)[1], process.returncode) == ("", 128 + number)
    assert contents(data) == before
    until(lambda: not any(map(lives, workers)), 5)


def test_a_signal_to_all_processes_leaves_the_logs_as_they_were(data):
    """As `timeout` sends it: to the command, and then to all of its group."""
    before = contents(data)
    process, _ = converting(data, 2)
    process.terminate()
    os.killpg(process.pid, signal.SIGTERM)
    assert (process.communicate(timeout=30)[1], process.returncode) == ("", 128 + signal.SIGTERM)
    assert contents(data) == before


def test_no_worker_outlives_a_command_that_is_killed(data):
    process, workers = converting(data, 2)
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    until(lambda: not any(map(lives, workers)), 5)
    before = contents(data)
    time.sleep(0.3)
    assert contents(data) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_part_of_a_file(number, large, tmp_path):
    process = started("read", large, "--output", tmp_path / "rows.jsonl")
    until(lambda: os.listdir(tmp_path))
    process.send_signal(number)
    assert (process.communicate(timeout=30)[1], process.returncode) == ("", 128 + number)
    assert os.listdir(tmp_path) == []


def test_a_hangup_that_is_ignored_stays_so(large, tmp_path):
    """`nohup` is for that."""
    output = tmp_path / "rows.jsonl"
    command = ["nohup", sys.executable, "-m", "brokerless", "read", large, "--output", output]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: os.listdir(tmp_path))
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 0
    assert output.exists()
