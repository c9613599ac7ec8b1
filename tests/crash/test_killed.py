"""A process that is killed for good, at any moment: what it flushed is there, and the log is whole."""

import os
import signal
import subprocess
import sys

import killed_commits
import pytest

import brokerless as bl
from brokerless.layout import commit_journal
from brokerless.layout.streaming_epochs import committed
from support.tally import tally

WRITER = """
import sys
import brokerless as bl

with bl.create_log_dir(sys.argv[1]) as log_dir:
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
def test_flushed_records_survive_a_kill(tmp_path, flushes):
    path = tmp_path / "d"
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(flushes):
            said = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        tally("killed process")
        flushed = int((process.stdout.read().splitlines() or [said])[-1])
    with bl.open_log_dir(path) as log_dir:
        assert not log_dir.was_clean
        log_dir.log("t", 0)
    values = [int(row["value"]) for rows in bl.Log(path / "t-0").read() for row in rows.to_pylist()]
    assert values == list(range(len(values)))
    assert flushed <= len(values)


def values(path):
    return sorted(
        (log.topic, value)
        for log in bl.LogDirs(path).logs()
        for rows in log.read(columns=["value"])
        for value in rows["value"].to_pylist()
    )


def test_a_commit_that_is_killed_at_any_change_is_whole_or_nothing_and_then_repeated_once(tmp_path, monkeypatch):
    """As in test_committing.py, but with processes, locks, threads and the disk as they are."""
    with bl.create_log_dir(tmp_path / "start") as log_dir:
        log_dir.create_topic("t", segment_index_bytes=1200)
        with bl.Producer(log_dir, "t") as producer:
            producer.send([{"value": b"old"}])
    (tmp_path / "killed").mkdir()
    subprocess.run([sys.executable, killed_commits.__file__, tmp_path / "start", tmp_path / "killed"], check=True)
    old, new = [("t", b"old")], [("new", b"b"), ("t", b"a"), ("t", b"old")]
    left = sorted((tmp_path / "killed").iterdir())
    tally("killed process", times=len(left) - 1)
    assert values(left[-1]) == new
    monkeypatch.setattr(os, "fsync", lambda _: None)
    seen = set()
    for path in left:
        held = values(path)
        assert held in (old, new), path
        seen.add((held == new, (path / commit_journal.NAME).exists()))
        killed_commits.commit(path)
        assert values(path) == new, path
        assert committed(str(path)) == {"query": 0}
        assert not list(path.glob("brokerless-0.*-delete")), path
    assert seen == {(False, False), (True, True), (True, False)}
