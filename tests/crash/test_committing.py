"""A write by tasks, cut short at every step: what is left has all of its rows or none, before and after an opening."""

import os

import pyarrow as pa
import pytest
from faults import FALLS, each_crash

import brokerless as bl
from brokerless import committing
from brokerless.committing import begin
from brokerless.log import journal
from brokerless.parts import Encoding
from building import NOW, batch


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """What the tests themselves write need not be durable; the dying disk keeps books of its own."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    # A dying disk is read as it is: nobody else holds it.
    monkeypatch.setattr(committing, "check_at_rest", lambda _: None)


@pytest.fixture
def start(tmp_path):
    """A topic of two partitions, of which the first has two segments and starts at offset 1, and another topic."""
    with bl.LogDir.create(tmp_path / "start") as log_dir:
        log_dir.create_topic("t", partitions=2, segment_bytes=200, index_interval_bytes=0)
        log_dir.create_topic("u")
        for number in range(4):
            log_dir.log("t", number // 3).append(batch(0, [b"%d" % number], timestamp=NOW))
        log_dir.log("u", 0).append(batch(0, [b"u"], timestamp=NOW))
        log_dir.log("t", 0).delete_records(1)
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
        for log in bl.LogDir(directory).logs()
        for found in log.read(isolation_level="read_committed", columns=["offset", "value"])
        for row in found.to_pylist()
    )


CASES = {
    "append": ({}, ["a", "b" * 20], [0, 1]),
    "a new segment": ({}, ["b" * 60], [0]),
    "transactional": ({"encoding": Encoding(transactional=True)}, ["a", "b"], [0, 1]),
    "a new topic": ({"topic": "new", "partitions": 2}, ["a"], [1]),
    "overwrite": ({"overwrite": True, "partitions": 1}, ["a"], [0]),
}


@pytest.mark.parametrize(("options", "values", "partitions"), CASES.values(), ids=CASES)
def test_all_rows_or_none(start, tmp_path, options, values, partitions):
    def work(path):
        write = begin(path, **{"topic": "t", **options})
        task = write.writer()
        table = {"value": [value.encode() for value in values], "partition": partitions}
        task.send(pa.RecordBatch.from_pydict(table))
        write.commit(task.finish(), threads=1)

    # The moves are the same for all: the hardest fall is tried with the two that move the most.
    falls = FALLS if options.get("overwrite") or not options else ("names",)
    old, found = rows(start), set()
    crashes = [(crash, rows(crash.directory)) for crash in each_crash(work, start, tmp_path, falls)]
    new = crashes[-1][1]
    topic = options.get("topic", "t")
    kept = [] if options.get("overwrite") else [row[3] for row in old if row[0] == topic]
    assert sorted(row[3] for row in new if row[0] == topic) == sorted(kept + values)
    assert [row for row in new if row[0] != topic] == [row for row in old if row[0] != topic]
    for crash, held in crashes:
        assert held in (old, new), crash
        found.add((held == new, (crash.directory / journal.NAME).exists()))
        if (crash.directory / journal.NAME).exists():
            assert held == new, crash
            assert not bl.Root(str(crash.directory)).is_clean, crash
        with bl.LogDir.open(crash.directory, sole_replica=True) as log_dir:
            for key in log_dir.partitions():
                log_dir.log(*key)
        assert rows(crash.directory) == held, crash
        assert bl.Root(str(crash.directory)).is_clean, crash
        assert not (crash.directory / journal.NAME).exists(), crash
        for log in bl.LogDir(crash.directory).logs():
            for segment in log.segments:
                segment.offset_index().sanity_check()
                segment.time_index().sanity_check()
        assert {path.name for path in crash.directory.iterdir() if path.is_file()} <= ROOT_FILES, crash
        # a broker deletes what is left over, and has nothing else that it does not know
        for path in crash.directory.iterdir():
            assert not path.is_dir() or path.name.endswith("-delete") or path.name[:-2] in ("t", "u", "new"), crash
        if crash.fall == "kill":
            continue
        # it can be written to again
        with bl.Producer(crash.directory, "u") as producer:
            producer.send([{"value": b"later", "partition": 0}])
        assert [row for row in rows(crash.directory) if row[3] != "later"] == held, crash
    assert {(False, False), (True, True), (True, False)} <= found
