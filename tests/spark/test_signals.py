"""A command on Spark that is ended leaves no process behind, not even where Spark was still starting."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def processes(group):
    """Return the command lines of the processes of a group that run."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((directory / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                found.append((directory / "cmdline").read_bytes())
    return [command for command in found if command]


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_spark_starts_leaves_no_process(number, golden, tmp_path):
    verb = [sys.executable, "-m", "brokerless.cli", "spark", "check", golden / "logs/kafka-4.1"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            ["env", "--default-signal=INT,TERM,HUP", *verb], stdout=said, stderr=said, start_new_session=True
        )
    until(lambda: any(b"java" in command for command in processes(process.pid)))
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    until(lambda: not processes(process.pid))
    assert "Traceback" not in (tmp_path / "said").read_text()
