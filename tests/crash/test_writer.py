"""A log that is being written, recovered or truncated, cut short at every step.

Whatever is left opens again, to a prefix of what was appended, and nothing that was flushed is missing.
"""

import shutil

import pytest
from faults import each_crash

import brokerless as bl
from brokerless import _native
from brokerless.log.segment import offset_index, time_index
from brokerless.log_dir.recover import recovered
from support.log_files import batch

T = 1_700_000_000_000
VALUES = [b"value %d" % i for i in range(12)]


def values(directory, isolation_level="read_uncommitted"):
    log = bl.LogDirs(directory).log("t", 0)
    return [value for rows in log.read(isolation_level=isolation_level) for value in rows["value"].to_pylist()]


def opens_again(directory):
    """Recover, check that a clean directory results whose indexes are right, and return the values."""
    with bl.open_log_dir(directory, sole_replica=True) as log_dir:
        log_dir.log("t", 0)
    assert bl.LogDirFiles(str(directory)).is_clean
    log = bl.LogDirs(directory).log("t", 0)
    for segment in log.segments:
        offset_index(segment).sanity_check()
        time_index(segment).sanity_check()
    return values(directory)


def new_directory(path, **settings):
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("t", **settings)
    return path


@pytest.mark.parametrize("flush_each", [False, True])
def test_appending_and_rolling(tmp_path, flush_each):
    settings = {"segment_bytes": 400, "index_interval_bytes": 0, "flush_messages": 1 if flush_each else 1 << 62}
    start = new_directory(tmp_path / "start", **settings)
    flushed = 0

    def work(path):
        nonlocal flushed
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log = log_dir.log("t", 0)
            for i, value in enumerate(VALUES):
                log.append(batch(0, [value], timestamp=T + i))
                if flush_each:
                    flushed = i + 1
                elif i % 5 == 4:
                    log.flush()
                    flushed = i + 1
        flushed = len(VALUES)

    steps = set()
    for crash in each_crash(work, start, tmp_path, observe=lambda: flushed):
        steps.add(crash.step.split(" ")[0])
        held = opens_again(crash.directory)
        assert held == VALUES[: len(held)], crash
        assert len(held) >= crash.progress, crash
        with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
            log_dir.log("t", 0).append(batch(0, [b"one more"], timestamp=T))
        assert values(crash.directory) == [*held, b"one more"], crash
    assert {"create", "write", "fsync", "rename", ""} <= steps
    assert len(bl.LogDirs(crash.directory).log("t", 0).segments) > 2


def test_a_call_that_is_decided_on_piece_by_piece(tmp_path, monkeypatch):
    """Each piece is written before the next is decided on, over segments and leader epochs."""
    monkeypatch.setattr("brokerless.append.writer._PIECE", 100)
    start = new_directory(tmp_path / "start", segment_bytes=400, index_interval_bytes=0)

    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            batches = [batch(0, [value], timestamp=T + i) for i, value in enumerate(VALUES)]
            log_dir.log("t", 0).append_each(b"".join(batches))

    for crash in each_crash(work, start, tmp_path):
        held = opens_again(crash.directory)
        assert held == VALUES[: len(held)], crash
    assert held == VALUES


def test_a_transaction_is_committed_whole_or_not_at_all(tmp_path):
    """In both partitions: a commit that was decided is finished by the next who opens the directory."""
    start = tmp_path / "start"
    with bl.create_log_dir(start) as log_dir:
        log_dir.create_topic("t", 2)
    committed = False

    def work(path):
        nonlocal committed
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            producer = bl.Producer(log_dir, "t", transactional_id="x", producer_id=1 << 62)
            with producer.transaction():
                producer.send([{"value": value, "partition": i % 2} for i, value in enumerate(VALUES)])
            committed = True

    outcomes = set()
    for crash in each_crash(work, start, tmp_path, observe=lambda: committed):
        with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
            for partition in range(2):
                log_dir.log("t", partition)
            # who takes the id again aborts what has no outcome
            bl.Producer(log_dir, "t", transactional_id="x").close()
        logs = bl.LogDirs(crash.directory).logs(["t"])
        counts = [sum(rows.num_rows for rows in log.read(isolation_level="read_committed")) for log in logs]
        assert counts in ([0, 0], [6, 6]), crash
        assert not crash.progress or counts == [6, 6], crash
        assert [log.last_stable_offset for log in logs] == [log.log_end_offset for log in logs], crash
        outcomes.add(counts[0])
    assert outcomes == {0, 6}


@pytest.mark.filterwarnings("ignore:t-0 ends at .*After a crash")
def test_truncating(tmp_path):
    start = new_directory(tmp_path / "start", segment_bytes=400)
    with bl.open_log_dir(start) as log_dir:
        for i, value in enumerate(VALUES):
            log_dir.log("t", 0).append(batch(0, [value], timestamp=T + i))

    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log_dir.log("t", 0).truncate_to(4)

    for crash in each_crash(work, start, tmp_path):
        held = opens_again(crash.directory)
        assert held == VALUES[: len(held)], crash
        assert len(held) >= 4, crash
        if not crash.step:
            assert held == VALUES[:4]


@pytest.mark.parametrize("name", ["crash-txn-0", "crash-zstd-0", "crash-no-index-0"])
def test_recovering_again_after_a_crash_in_the_recovery(golden, tmp_path, name):
    start = tmp_path / "start"
    start.mkdir()
    crashed = golden / "logs" / "kafka-4.1-crashed"
    shutil.copytree(crashed / name, start / name)
    for file in crashed.iterdir():
        if file.is_file():
            shutil.copy2(file, start)

    def work(path):
        for _ in recovered(path):
            pass

    def contents(directory):
        # the order of a snapshot's entries, and a `.tmp` that a crash left and the next write replaces, mean nothing
        return {
            file.name: (
                sorted(map(repr, _native.producer_snapshot(file.read_bytes()).to_pylist()))
                if file.suffix == ".snapshot"
                else file.read_bytes()
            )
            for file in (directory / name).iterdir()
            if file.suffix != ".tmp"
        }

    work(str(shutil.copytree(start, tmp_path / "whole")))
    expected = contents(tmp_path / "whole")
    for crash in each_crash(work, start, tmp_path, falls=("kill", "power")):
        work(str(crash.directory))
        assert contents(crash.directory) == expected, crash
