"""A write by tasks, cut short at every step: what is left has all of its rows or none, before and after an opening."""

import os
import shutil

import pyarrow as pa
import pytest
from faults import FALLS, each_crash

import brokerless as bl
from brokerless.layout import commit_journal
from brokerless.layout.streaming_epochs import Epoch, committed
from brokerless.log.segment import offset_index, time_index
from brokerless.log_dir.topics import NewTopic
from brokerless.staging import staged_logs
from brokerless.staging.atomic_write import AtomicWrite
from brokerless.staging.parts import Encoding
from support.log_files import NOW, batch


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing that a test writes needs to be durable: what is, `faults.py` knows without the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


# The indexes of active segments are as large as they may get: less to be copied for each step.
SMALL = {"segment_index_bytes": 1200}


@pytest.fixture
def start(tmp_path):
    """A topic of two partitions, of which the first has two segments and starts at offset 1, and another topic."""
    with bl.create_log_dir(tmp_path / "start") as log_dir:
        log_dir.create_topic("t", partitions=2, segment_bytes=200, index_interval_bytes=0, **SMALL)
        log_dir.create_topic("u", **SMALL)
        for number in range(4):
            log_dir.log("t", number // 3).append(batch(0, [b"%d" % number], timestamp=NOW))
        log_dir.log("u", 0).append(batch(0, [b"u"], timestamp=NOW))
        log_dir.log("t", 0).run(bl.Retention(before_offset=1))
    return tmp_path / "start"


ROOT_FILES = {
    "meta.properties",
    "bootstrap.checkpoint",
    "bootstrap.checkpoint.tmp",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
}


def rows(directory):
    return sorted(
        (log.topic, log.partition, row["offset"], row["value"].decode())
        for log in bl.LogDirs(directory).logs()
        for found in log.read(isolation_level="read_committed", columns=["offset", "value"])
        for row in found.to_pylist()
    )


T = {"t": NewTopic()}
CASES = {
    "append": ({"topics": T}, ["a", "b" * 20], {"partition": [0, 1]}),
    "a new segment": ({"topics": T}, ["b" * 60], {"partition": [0]}),
    "transactional": ({"topics": T, "encoding": Encoding(transactional=True)}, ["a", "b"], {"partition": [0, 1]}),
    "a new topic": ({"topics": {"new": NewTopic(partitions=2, config=SMALL)}}, ["a"], {"partition": [1]}),
    "overwrite": ({"topics": {"t": NewTopic(partitions=1, config=SMALL)}, "overwrite": True}, ["a"], {}),
    "topics by column": (
        {"others": NewTopic(config=SMALL)},
        ["a", "b"],
        {"topic": ["t", "new"], "partition": [1, 0]},
    ),
}


def commit(path, options, values, columns, epoch=None):
    write = AtomicWrite(path=path, **options)
    task = write.begin().writer()
    task.send(pa.RecordBatch.from_pydict({"value": [value.encode() for value in values], **columns}))
    write.commit(task.finish(), epoch=epoch, threads=1)


def test_all_rows_or_none_where_parts_become_segments(start, tmp_path, monkeypatch):
    monkeypatch.setattr(staged_logs, "_LEAST_BATCH", 0)
    test_all_rows_or_none(start, tmp_path, *CASES["a new segment"])


@pytest.mark.parametrize(("options", "values", "columns"), CASES.values(), ids=CASES)
def test_all_rows_or_none(start, tmp_path, options, values, columns):
    def work(path):
        commit(path, options, values, columns)

    # The moves are the same for all: the hardest fall is tried with the two that move the most.
    falls = FALLS if options.get("overwrite") or options == {"topics": T} else ("names",)
    old, found = rows(start), set()
    work(str(shutil.copytree(start, tmp_path / "whole")))
    new = rows(tmp_path / "whole")
    kept = [row for row in old if not options.get("overwrite") or row[0] != "t"]
    assert sorted(row[3] for row in new) == sorted([row[3] for row in kept] + values)
    for crash in each_crash(work, start, tmp_path, falls):
        held = rows(crash.directory)
        assert held in (old, new), crash
        found.add((held == new, (crash.directory / commit_journal.NAME).exists()))
        if (crash.directory / commit_journal.NAME).exists():
            assert held == new, crash
            assert not bl.LogDirFiles(str(crash.directory)).is_clean, crash
        with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
            for key in log_dir.partitions():
                log_dir.log(*key)
        assert rows(crash.directory) == held, crash
        assert bl.LogDirFiles(str(crash.directory)).is_clean, crash
        assert not (crash.directory / commit_journal.NAME).exists(), crash
        for log in bl.LogDirs(crash.directory).logs():
            for segment in log.segments:
                offset_index(segment).sanity_check()
                time_index(segment).sanity_check()
        assert {path.name for path in crash.directory.iterdir() if path.is_file()} <= ROOT_FILES, crash
        # a broker deletes what is left over, and has nothing else that it does not know
        for path in crash.directory.iterdir():
            assert not path.is_dir() or path.name.endswith("-delete") or path.name[:-2] in ("t", "u", "new"), crash
        # it can be written to again
        with bl.Producer(crash.directory, "u") as producer:
            producer.send([{"value": b"later", "partition": 0}])
        assert [row for row in rows(crash.directory) if row[3] != "later"] == held, crash
    assert {(False, False), (True, True), (True, False)} <= found


EPOCHS = {
    "append": ({"others": NewTopic(config=SMALL)}, ["a", "b"], {"topic": ["t", "new"], "partition": [1, 0]}),
    "complete": ({"topics": T, "overwrite": True}, ["a"], {"partition": [0]}),
    "no rows": ({"others": NewTopic(config=SMALL)}, [], {"topic": []}),
}


@pytest.mark.parametrize(("options", "values", "columns"), EPOCHS.values(), ids=EPOCHS)
def test_an_epoch_that_is_done_again_is_in_force_once(start, tmp_path, options, values, columns):
    """Spark repeats an epoch until it has heard of its commit. After a kill alone: see test_killed.py."""

    def work(path):
        commit(str(path), {**options, "owner": "/checkpoints/q"}, values, columns, Epoch("q", 0))

    work(shutil.copytree(start, tmp_path / "whole"))
    done = rows(tmp_path / "whole")
    assert set(values) <= {row[3] for row in done}
    was_committed = set()
    for crash in each_crash(work, start, tmp_path, ("names",)):
        was_committed.add(rows(crash.directory) == done)
        work(crash.directory)
        assert rows(crash.directory) == done, crash
        assert committed(str(crash.directory)) == {"q": 0}, crash
        # what the first attempt left is removed
        assert not list(crash.directory.glob("brokerless-0.*-delete")), crash
    assert was_committed == ({True, False} if values else {True})
