"""Verbs that rewrite a log, cut short at every step of the writing, the swap and the copying.

What is left holds, read as it is or loaded first, the old rows or the new ones, group by group; once loaded there are
no leftovers, and the log goes on.
"""

import os
import shutil

import pytest
from faults import each_crash

import brokerless as bl
from brokerless.io import storage
from brokerless.log.segment import offset_index, time_index
from brokerless.rewriting.compact.compact import Compaction
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.erase import Erasure
from brokerless.rewriting.run import rewrite, rewrite_each
from support.drop_batches import DropBatches, Repeating, change_settings
from support.log_files import NOW, batch, marker

PRODUCER = 7


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing that a test writes needs to be durable: what is, `faults.py` knows without the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def start(tmp_path):
    """Twelve records in segments of three, 6 to 8 aborted."""
    with bl.create_log_dir(tmp_path / "start") as log_dir:
        log_dir.create_topic("t", segment_bytes=250, index_interval_bytes=0, segment_index_bytes=1200)
        log = log_dir.log("t", 0)
        for i in range(6):
            log.append(batch(0, [b"%d" % i], timestamp=NOW + i))
        for i in range(6, 9):
            log.append(batch(0, [b"%d" % i], producer_id=PRODUCER, base_sequence=i - 6, transactional=True))
        log.append(marker(0, PRODUCER, commit=False), origin="coordinator")
        for i in range(10, 12):
            log.append(batch(0, [b"%d" % i], timestamp=NOW + i))
    return tmp_path / "start"


def values(directory, isolation_level="read_uncommitted"):
    rows = bl.LogDirs(directory).log("t", 0).read(isolation_level=isolation_level)
    return [int(value) for batch in rows for value in batch["value"].to_pylist()]


def check_left(crash, allowed):
    """Check what a crash left, and return which of the allowed values that are."""
    held = values(crash.directory)
    assert held in allowed, crash
    with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
        log = log_dir.log("t", 0)
        assert log.log_end_offset == 12, crash
    names = storage.list_directory(str(crash.directory / "t-0"))
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], crash
    assert values(crash.directory) == held, crash
    assert values(crash.directory, "read_committed") == [value for value in held if not 6 <= value < 9], crash
    for segment in bl.LogDirs(crash.directory).log("t", 0).segments:
        offset_index(segment).sanity_check()
        time_index(segment).sanity_check()
    with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
        log_dir.log("t", 0).append(batch(0, [b"12"], timestamp=NOW))
    assert values(crash.directory) == [*held, 12], crash
    return allowed.index(held)


@pytest.mark.parametrize(
    ("verb", "stages"),
    [
        (DropBatches((1, 4), (2,)), [{1, 4}]),
        (DropBatches((1, 4), (1, 1)), [{1}, {4}]),
        (DropBatches((1, 7, 10), (4,)), [{1, 7, 10}]),
        (DropBatches((1, 4), (2,), parts=2), [{1, 4}]),
        # Kafka's own load keeps old segments behind the last new offset: they are as they were
        (DropBatches((1, 3, 4, 5), (2,)), [set(), {1}, {1, 3, 4, 5}]),
        (DropBatches((0, 1, 2), (1,)), [{0, 1, 2}]),
    ],
    ids=["two into one", "two swaps", "all into one", "two into two", "the last one empty", "all gone"],
)
def test_a_swap(start, tmp_path, verb, stages):
    old = [i for i in range(12) if i != 9]
    allowed, gone = [old], set()
    for stage in stages:
        gone |= stage
        allowed.append([i for i in old if i not in gone])
    found = set()
    for crash in each_crash(lambda path: rewrite(verb, path, topics=["t"]), start, tmp_path):
        found.add(check_left(crash, allowed))
    assert {0, len(stages)} <= found


def test_segments_written_beside_are_swapped_in_whole_or_not_at_all(start, tmp_path):
    """What was written in a directory beside is moved, then swapped in; of the rest a broker deletes what is left."""
    verb = DropBatches((1, 4), (1, 1))
    old = [i for i in range(12) if i != 9]
    allowed = [old, [i for i in old if i != 1], [i for i in old if i not in (1, 4)]]

    def work(path):
        list(rewrite_each(verb, [path], topics=["t"], runner=Repeating()))

    found, moved = set(), 0
    for crash in each_crash(work, start, tmp_path, falls=("names", "power")):
        names = storage.list_directory(str(crash.directory / "t-0"))
        moved += any(name.endswith(".cleaned") for name in names)
        found.add(check_left(crash, allowed))
        for left in crash.directory.glob("t-0.*"):
            assert left.name.endswith("-delete")
    assert found == {0, 1, 2}
    assert moved
    assert not list(crash.directory.glob("t-0.*"))


def test_a_copy_that_is_rewritten(start, tmp_path):
    """The old directory stays as it was; the new one is there as a whole, or is not."""
    verb = DropBatches((1, 4), (2,))
    (tmp_path / "outer").mkdir()
    start.rename(tmp_path / "outer" / "data")
    old = [i for i in range(12) if i != 9]
    found = set()

    def work(path):
        rewrite(verb, f"{path}/data", topics=["t"], output=f"{path}/new")

    for crash in each_crash(work, tmp_path / "outer", tmp_path):
        assert values(crash.directory / "data") == old, crash
        assert bl.LogDirFiles(str(crash.directory / "data")).is_clean, crash
        new = crash.directory / "new"
        found.add(new.exists())
        if new.exists():
            assert values(new) == [i for i in old if i not in (1, 4)], crash
            assert bl.LogDirFiles(str(new)).is_clean, crash
            assert len(list(crash.directory.iterdir())) == 2
        for left in crash.directory.glob("new-0.*"):
            assert left.name.endswith("-delete")
    assert found == {False, True}


@pytest.mark.parametrize(("before", "first"), [(3, 3), (4, 3), (9, 9), (12, 9)])
def test_deleting_records(start, tmp_path, before, first):
    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log_dir.log("t", 0).run(bl.Retention(before_offset=before))

    old = [i for i in range(12) if i != 9]
    allowed = [[i for i in old if i >= base] for base in sorted({0, 3, 6, 9, before}) if base <= max(before, first)]
    for crash in each_crash(work, start, tmp_path):
        check_left(crash, allowed)
    assert values(crash.directory)[:-1] == [i for i in old if i >= before]
    assert bl.LogDirs(crash.directory).log("t", 0).segments[0].base_offset == first


@pytest.mark.parametrize("kraft", [True, False], ids=["settings known", "settings not known"])
@pytest.mark.parametrize("before", [6, 7, -1])
def test_a_deletion_that_is_killed_leaves_whole_segments_and_nothing_seems_to_be_in_remote_storage(
    tmp_path, before, kraft
):
    """As a broker that is killed: some of the oldest segments are gone. A second run deletes the rest."""
    with bl.create_log_dir(tmp_path / "start", kraft=kraft) as log_dir:
        log_dir.create_topic("t", segment_bytes=250, index_interval_bytes=0, segment_index_bytes=1200)
        for i in range(12):
            log_dir.log("t", 0).append(batch(0, [b"%d" % i], timestamp=NOW + i))
    retain = bl.Retention(before_offset=before)
    whole = bl.LogDirs(shutil.copytree(tmp_path / "start", tmp_path / "whole")).log("t", 0)
    rewrite(retain, tmp_path / "whole", topics=["t"])
    end = 12 if before == -1 else before
    bases = [base for base in (0, 3, 6, 9) if base < end]
    found = []
    for crash in each_crash(lambda path: rewrite(retain, path, topics=["t"]), tmp_path / "start", tmp_path):
        log = bl.LogDirs(crash.directory).log("t", 0)
        assert log.missing_offsets is None, crash
        assert values(crash.directory) == list(range(log.log_start_offset, 12)), crash
        found.append(log.log_start_offset)
        assert not [one for one in bl.check(crash.directory) if one.severity == "error"], crash
        rewrite(retain, crash.directory, topics=["t"])
        log = bl.LogDirs(crash.directory).log("t", 0)
        assert log.log_start_offset == end, crash
        assert [one.base_offset for one in log.segments] == [one.base_offset for one in whole.segments], crash
    assert sorted(set(found)) == sorted({*bases, end})


def test_deleting_all_segments(start, tmp_path):
    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log_dir.log("t", 0).delete_segments(4)

    old = [i for i in range(12) if i != 9]
    allowed = [[i for i in old if i >= base] for base in (0, 3, 6, 9, 12)]
    for crash in each_crash(work, start, tmp_path):
        check_left(crash, allowed)
    assert bl.LogDirs(crash.directory).log("t", 0).segments[0].base_offset == 12


def both(directory):
    """Return the rows of either isolation level."""
    columns = ["offset", "timestamp", "key", "value", "headers"]
    log = bl.LogDirs(directory).log("t", 0)
    return tuple(
        [row for batch in log.read(isolation_level=level, columns=columns) for row in batch.to_pylist()]
        for level in ("read_uncommitted", "read_committed")
    )


def sizes(directory):
    return [(segment.base_offset, segment.size) for segment in bl.LogDirs(directory).log("t", 0).segments]


@pytest.fixture
def keyed(tmp_path):
    """Segments of keys that come again and again, tombstones, an aborted and a committed transaction."""
    with bl.create_log_dir(tmp_path / "start") as log_dir:
        log_dir.create_topic(
            "t", segment_bytes=400, index_interval_bytes=0, segment_index_bytes=1200, cleanup_policy="compact"
        )
        log = log_dir.log("t", 0)
        sequence = 0
        for i in range(12):
            keys = [b"k%d" % (i % 5), b"m%d" % i]
            values = [None if i % 7 == 6 else b"v%d" % i, b"w%d" % i]
            if i % 8 in (2, 3):
                fields = {"producer_id": PRODUCER, "base_sequence": sequence, "transactional": True}
                log.append(batch(0, values, keys=keys, timestamp=NOW + i, **fields))
                sequence += 2
            else:
                log.append(batch(0, values, keys=keys, timestamp=NOW + i))
            if i % 8 == 3:
                log.append(marker(0, PRODUCER, commit=i < 8), origin="coordinator")
    return tmp_path / "start"


def test_a_compaction_that_needs_more_segments_than_there_were(keyed, tmp_path):
    """No slot is left in an index: the new segments of a group go on with another, and come into force together."""
    with bl.open_log_dir(keyed, sole_replica=True) as log_dir:
        segments = [segment.base_offset for segment in log_dir.log("t", 0).state().segments]
    change_settings(keyed, "t", segment_index_bytes=24, segment_bytes=1 << 20)
    old, whole = both(keyed), shutil.copytree(keyed, tmp_path / "whole")
    rewrite(Compaction(roll=True), whole, topics=["t"])
    new, made = both(whole), [base_offset for base_offset, _ in sizes(whole)]
    assert len(made) > 3
    assert set(made) - set(segments)
    for crash in each_crash(
        lambda path: rewrite(Compaction(roll=True), path, topics=["t"]), keyed, tmp_path, falls=("names", "power")
    ):
        held = both(crash.directory)
        kept = {row["offset"] for row in held[0]}
        assert {row["offset"] for row in new[0]} <= kept <= {row["offset"] for row in old[0]}, crash
        assert all(row in old[1] for row in held[1]), crash
        with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
            log_dir.log("t", 0)
        assert both(crash.directory) == held, crash
        if crash.fall == "names":
            rewrite(Compaction(roll=True, ignore_checkpoint=True), crash.directory, topics=["t"])
            assert both(crash.directory) == new, crash
    assert both(crash.directory) == new


VERBS = {
    "compact": Compaction(roll=True),
    "convert": Conversion(compression="zstd"),
    "downgrade": Conversion(magic=1, drop=frozenset({"producers"})),
    "erase": Erasure(keys=(b"k1", b"m10")),
    "blank": Erasure(key_prefixes=(b"k",), blank=True),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_each_verb(keyed, tmp_path, verb):
    """Some of the old segments, from the first on, are replaced, and the others are what they were."""
    old, whole = both(keyed), shutil.copytree(keyed, tmp_path / "whole")
    rewrite(verb, whole, topics=["t"])
    new = both(whole)
    assert sizes(whole) != sizes(keyed)
    log = bl.LogDirs(keyed).log("t", 0)
    starts = [*(segment.base_offset for segment in log.segments), log.log_end_offset]
    assert len(starts) > 4
    allowed = [
        tuple(
            [row for row in after if row["offset"] < start] + [row for row in before if row["offset"] >= start]
            for before, after in zip(old, new, strict=True)
        )
        for start in starts
    ]
    found = set()
    for crash in each_crash(lambda path: rewrite(verb, path, topics=["t"]), keyed, tmp_path, falls=("names", "power")):
        held = both(crash.directory)
        assert held in allowed, crash
        found.add(allowed.index(held))
        with bl.open_log_dir(crash.directory, sole_replica=True) as log_dir:
            assert log_dir.log("t", 0).log_end_offset == starts[-1], crash
        names = storage.list_directory(str(crash.directory / "t-0"))
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], crash
        assert both(crash.directory) == held, crash
        if crash.fall == "names":
            # what is left can be worked on again, to the same end
            rewrite(verb, crash.directory, topics=["t"])
            assert both(crash.directory) == new, crash
    assert sizes(crash.directory) == sizes(whole)
    assert len(found) > 1 or new == old
