"""The work on a large log divided among calls, each of which may be made twice, comes to what one call comes to."""

import os
import shutil
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.rewriting import attempts
from brokerless.rewriting.compact import distributed
from brokerless.rewriting.compact.compact import Compaction
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.run import rewrite_each
from brokerless.rewriting.task_steps import PartitionWork, Scheduler
from support.drop_batches import Repeating
from support.log_files import NOW, batch, marker

PRODUCER = 7


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing here dies."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def data(tmp_path):
    """Keys that come again and again, tombstones, aborted and committed transactions, in many segments."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic(
            "t", 2, segment_bytes=600, index_interval_bytes=0, segment_index_bytes=1200, cleanup_policy="compact"
        )
        for key in log_dir.partitions():
            log, sequence = log_dir.log(*key), 0
            for i in range(60):
                keys = [b"k%d" % (i % 17), b"m%d" % i]
                values = [None if i % 7 == 6 else b"v%d" % i, b"w%d" % i]
                fields = {}
                if i % 8 in (2, 3):
                    fields = {"producer_id": PRODUCER, "base_sequence": sequence, "transactional": True}
                    sequence += 2
                log.append(batch(0, values, keys=keys, timestamp=NOW + i, **fields))
                if i % 8 == 3:
                    log.append(marker(0, PRODUCER, commit=i % 16 < 8), origin="coordinator")
    return tmp_path / "data"


def rows(log):
    columns = ["offset", "timestamp", "key", "value", "headers", "producerId", "sequence"]
    return [
        pa.table(log.read(columns=columns, isolation_level=f"read_{level}")) for level in ("committed", "uncommitted")
    ]


def both_ways(verb, data, tmp_path, **options):
    """Rewrite as one call, and divided; check that the logs are the same, and return both reports."""
    whole = shutil.copytree(data, tmp_path / "whole")
    one = list(rewrite_each(verb, [whole], topics=["t"]))
    parts = list(rewrite_each(verb, [data], topics=["t"], runner=Repeating(**options), share=1000))
    for log in bl.LogDirs(data).logs():
        twin = bl.LogDirs(whole).log("t", log.partition)
        assert [(s.base_offset, s.size) for s in log.segments] == [(s.base_offset, s.size) for s in twin.segments]
        assert rows(log) == rows(twin)
        assert (log.log_start_offset, log.log_end_offset) == (twin.log_start_offset, twin.log_end_offset)
    assert bl.LogDirFiles(str(data)).first_dirty_offsets == bl.LogDirFiles(str(whole)).first_dirty_offsets
    assert not list(data.glob("*-delete"))
    return [result.report for result in one], [result.report for result in sorted(parts, key=lambda part: part.name)]


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(
    "verb",
    [
        Conversion(compression="zstd"),
        Conversion(compression="gzip", batch_size=1000),
        Conversion(magic=1, drop=frozenset({"producers"})),
        Compaction(roll=True),
    ],
    ids=["codec", "batches", "format", "compact"],
)
def test_divided_work(data, tmp_path, verb, fails):
    one, parts = both_ways(verb, data, tmp_path, fails=fails)
    assert parts == one


def test_a_compaction_whose_keys_do_not_fit(data, tmp_path, monkeypatch):
    """What the first pass has left is divided into ranges of its size, and each decided by itself."""
    made = []
    decide_all = distributed.decide_all

    def little(plan, verdicts, hash_range, *, memory, progress, passes=None):
        found = decide_all(plan, verdicts, hash_range, memory=1000, progress=progress, passes=passes)
        made.append((hash_range, found.passes, found.next_hash_range))
        return found

    monkeypatch.setattr(distributed, "decide_all", little)
    one, parts = both_ways(Compaction(roll=True), data, tmp_path)
    assert [report.segments for report in parts] == [report.segments for report in one]
    assert [report.keys for report in parts] == [report.keys for report in one]
    firsts = [left for hash_range, _, left in made if hash_range == (0, 0)]
    assert all(left is not None for left in firsts)
    assert [left for hash_range, _, left in made if hash_range != (0, 0)] == [None] * (len(made) - len(firsts))
    assert sum(report.passes for report in parts) > 20


@pytest.mark.parametrize(
    ("done", "count"), [(1 << 63, 1), (1 << 62, 3), ((1 << 62) + 5, 3), (3 << 61, 2), (1 << 54, 1023)]
)
def test_the_hashes_that_are_left_are_divided(done, count):
    ranges = distributed.divided((done, (1 << 64) - done))
    assert len(ranges) == count
    assert ranges[0][0] == done
    assert all(first + many == following for (first, many), (following, _) in pairwise(ranges))
    assert sum(ranges[-1]) == 1 << 64
    assert max(many for _, many in ranges) <= done


def test_records_without_a_key_are_refused(data):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.log("t", 1, cleanup_policy="delete").append(batch(0, [b"no key"], timestamp=NOW))
    before = rows(bl.LogDirs(data).log("t", 1))
    with pytest.raises(ValueError, match="1 of its records have no key"):
        list(rewrite_each(Compaction(roll=True), [data], topics=["t"], partitions=[1], runner=Repeating(), share=1000))
    assert rows(bl.LogDirs(data).log("t", 1)) == before
    assert not list(data.glob("*-delete"))


def test_attempts_at_a_partition_behind_a_link_are_on_its_disk(tmp_path):
    """Beside the link they could not be moved to where it leads, which may be another disk."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "disk" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "t-0").symlink_to(tmp_path / "disk" / "t-0")
    place = attempts.make(str(tmp_path / "logs" / "t-0"), "t", 0)
    assert Path(place).parent == tmp_path / "disk"
    attempts.remove(place)
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["t-0"]


class LastFirst:
    """A pool of some jobs that makes its calls in the reverse order of their submission."""

    may_retry = True

    def __init__(self, jobs):
        self.jobs = jobs
        self.calls = {}

    def submit(self, _name, call):
        future = Future()
        self.calls[future] = call
        return future

    def first_completed(self, futures):
        assert len(futures) <= self.jobs
        future = next(future for future in reversed(self.calls) if future in futures)
        return future, self.calls.pop(future)(progress=lambda _: None)


class Partition:
    """Work in steps of so many calls; the outcome is the results of all steps."""

    def __init__(self, name, steps, events):
        self.name, self._steps, self._events = name, steps, events

    def begin(self):
        self._events.append(f"{self.name} begins")
        return PartitionWork(self._calls())

    def _calls(self):
        results = []
        for step, count in enumerate(self._steps):
            results.append((yield [partial(self._call, step, number) for number in range(count)]))
        return results

    def _call(self, step, number, *, progress):
        self._events.append(f"{self.name} {step}.{number}")
        return number


@pytest.mark.parametrize("jobs", [1, 2, 3, 9])
def test_no_log_is_opened_while_a_call_of_an_opened_one_is_ready(jobs):
    """Nor does a step begin before the one before has ended, or an outcome lack or mix up results."""
    events = []
    steps = {"a": [1, 4, 2], "b": [3], "c": [1, 1]}
    partitions = [Partition(name, counts, events) for name, counts in steps.items()]
    outcomes = {partition.name: outcome for partition, outcome in Scheduler(LastFirst(jobs), partitions).run()}
    assert outcomes == {name: [list(range(count)) for count in counts] for name, counts in steps.items()}
    for name, counts in steps.items():
        of_partition = [int(event.split()[1][0]) for event in events if event.startswith(name) and "." in event]
        assert of_partition == [step for step, count in enumerate(counts) for _ in range(count)]
    begun = [event for event in events if event.endswith("begins")]
    assert begun == ["a begins", "b begins", "c begins"]
    if jobs == 1:
        assert events == sorted(events, key=lambda event: event[0])
