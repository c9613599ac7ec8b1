"""A process that is killed for good, at any moment: what it flushed is there, and the log is whole."""

import signal
import subprocess
import sys

import pytest

import brokerless as bl

WRITER = """
import sys
import brokerless as bl

with bl.LogDir.create(sys.argv[1]) as log_dir:
    log_dir.create_topic("t", segment_bytes=20000)
    producer = bl.Producer(log_dir, "t", idempotent=True, compression="lz4", batch_size=500)
    number = 0
    while True:
        producer.send([{"value": b"%d" % (number + i)} for i in range(100)])
        producer.flush()
        number += 100
        print(number, flush=True)
"""


@pytest.mark.parametrize("flushes", [1, 3, 20, 60])
def test_what_was_flushed_survives_a_kill(tmp_path, flushes):
    path = tmp_path / "d"
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(flushes):
            said = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        flushed = int((process.stdout.read().splitlines() or [said])[-1])
    with bl.LogDir.open(path) as log_dir:
        assert not log_dir.was_clean
        log_dir.log("t", 0)
    values = [int(row["value"]) for rows in bl.Log(path / "t-0").read() for row in rows.to_pylist()]
    assert values == list(range(len(values)))
    assert flushed <= len(values)
