"""Damage to what a broker wrote: what we read of it, and what the broker itself makes of the same directory."""

import itertools
import os
import shutil
from pathlib import Path

import pytest
from kafka import Broker, as_consumed

import brokerless as bl
from brokerless import Compaction, Conversion, Erasure, Retention, rewrite
from support.damage import flip_bit, overwrite, zero

LATEST = -1
# So many records in each of two kinds, or of five transactions and plain ones.
PLAIN, IN_TRANSACTION = 200, 60
SMALL = {"internal_segment_bytes": 2500}
# No batch has an index entry, or each has one.
UNINDEXED, INDEXED = {"index_interval_bytes": 1 << 20}, {"index_interval_bytes": 0}


def batches(path):
    return [row for rows in bl.Log(path).scan() for row in rows.to_pylist()]


def segment(directory, number):
    return Path(bl.Log(directory).segments[number].path)


def flipped_length(directory):
    """One bit of a length field: the batch seems to end somewhere in a later one."""
    path = segment(directory, 1)
    bad = batches(path)[1]
    flip_bit(path, bad["position"] + 10, 1)
    return [bad]


def zeroed_block(directory):
    path, start, end = segment(directory, 1), 700, 1212
    bad = [one for one in batches(path) if one["position"] < end and start < one["position"] + one["size"]]
    overwrite(path, start, bytes(end - start))
    return bad


def zeroed_tail(directory):
    """What is preallocated ends in zeros too; that these were batches only other files tell."""
    path = segment(directory, -1)
    bad = batches(path)
    bad = bad[len(bad) // 2 :]
    overwrite(path, bad[0]["position"], bytes(bad[-1]["position"] + bad[-1]["size"] - bad[0]["position"]))
    return bad


def swapped(directory):
    path = segment(directory, 1)
    first, second = batches(path)[1:3]
    content = path.read_bytes()
    start, middle, end = first["position"], second["position"], second["position"] + second["size"]
    overwrite(path, start, content[middle:end] + content[start:middle])
    return [first, second]


def doubled(directory):
    path = segment(directory, 1)
    end = batches(path)[1]["position"]
    content = path.read_bytes()
    path.write_bytes(content[:end] + content)
    return []


def removed(directory):
    path = segment(directory, 1)
    bad = batches(path)
    path.unlink()
    return bad


def cut(directory):
    path = segment(directory, -1)
    bad = batches(path)[-1]
    os.truncate(path, bad["position"])
    return [bad]


def flipped_marker(directory, *, commit):
    """One bit of the checksum of a marker: the second COMMIT, or the first ABORT."""
    paths = [Path(segment.path) for segment in bl.Log(directory).segments]
    markers = [(path, one) for path in paths for one in batches(path) if one["is_control"]]
    path, bad = markers[2 if commit else 1]
    flip_bit(path, bad["position"] + 17)
    return [bad]


def change_indexes(directory, change):
    paths = sorted(directory.glob("*.txnindex"))
    assert paths
    for path in paths:
        change(path)
    return []


# By topic: what is done to it, and with which settings it is made.
DAMAGED = {
    "length": (flipped_length, SMALL),
    "block": (zeroed_block, SMALL),
    "tail": (zeroed_tail, SMALL),
    "swapped": (swapped, SMALL),
    "doubled": (doubled, SMALL),
    "removed": (removed, SMALL),
    "cut": (cut, SMALL | UNINDEXED),
    "cut-indexed": (cut, SMALL | INDEXED),
}
UNSURE = {
    "commit-marker": (lambda directory: flipped_marker(directory, commit=True), SMALL),
    "abort-marker": (lambda directory: flipped_marker(directory, commit=False), SMALL),
    "index-removed": (lambda directory: change_indexes(directory, Path.unlink), SMALL),
    "index-zeroed": (lambda directory: change_indexes(directory, zero), SMALL),
}


class Case:
    """A damaged topic.

    Attributes:
        level: the isolation level that it is read in.
        before: the rows that the broker served before.
        bad: the headers of the batches that are damaged, or not there.
        served: the rows that a broker's consumer gets of it now.
        served_error: the error that it ends with.
        end: the log end offset that the broker has now.
    """

    def __init__(self, data, topic):
        self.data, self.topic = data, topic
        self.directory = data / f"{topic}-0"
        self.level = "read_uncommitted" if topic in DAMAGED else "read_committed"
        self.before = self.served = self.bad = ()
        self.served_error = self.end = None

    @property
    def bad_ranges(self):
        """The offsets of the bad batches, neighbours put together."""
        return joined((one["base_offset"], one["last_offset"] + 1) for one in self.bad)

    @property
    def kept(self):
        return [row for row in self.before if not is_in(row["offset"], self.bad_ranges)]

    def read(self, **options):
        """Return the offsets of our rows, the error that a read ends with, and what it reports as lost."""
        reader = bl.Log(self.directory).read(isolation_level=self.level, columns=["offset"], **options)
        found, error = [], None
        try:
            for rows in reader:
                found += rows["offset"].to_pylist()
        except bl.errors.CorruptRecordError as caught:
            error = str(caught)
        return found, error, [(lost.start_offset, lost.end_offset) for lost in reader.lost]

    def check_skipped(self):
        """Check that a read which skips damage returns all other rows, whole and by splits."""
        assert as_consumed(bl.LogDirs(self.data), self.topic, self.level, on_corrupt="skip") == self.kept
        splits = bl.Log(self.directory).plan(isolation_level=self.level, on_corrupt="skip", target_bytes=700)
        by_splits = [rows["offset"].to_pylist() for split in splits for rows in bl.read_split(split, ["offset"])]
        assert [*itertools.chain(*by_splits)] == offsets(self.kept)


def joined(ranges):
    found = []
    for start, end in sorted(ranges):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def is_in(offset, ranges):
    return any(start <= offset < end for start, end in ranges)


def offsets(rows):
    return [row["offset"] for row in rows]


@pytest.fixture(scope="module")
def cases(client, tmp_path_factory):
    """The damaged topics of a directory that a broker left cleanly, by name."""
    root = tmp_path_factory.mktemp("damage")
    found = {topic: Case(root / "data", topic) for topic in (*DAMAGED, *UNSURE)}
    with Broker(root / "data", log=root / "before.log") as broker:
        for topic, (_, settings) in DAMAGED.items():
            client.create(broker, topic, **settings)
            client.produce(broker, topic, 0, PLAIN, "keyed", batch_size=400)
            client.produce(broker, topic, 0, PLAIN, batch_size=400)
        for topic, (_, settings) in UNSURE.items():
            client.create(broker, topic, **settings)
            for mode in ("commit", "abort", "commit", "abort"):
                client.produce(broker, topic, 0, IN_TRANSACTION, mode, batch_size=400)
            client.produce(broker, topic, 0, IN_TRANSACTION, batch_size=400)
        for case in found.values():
            case.before = client.consume(broker, case.topic, case.level)
    for topic, (harm, _) in (DAMAGED | UNSURE).items():
        case = found[topic]
        assert len(bl.Log(case.directory).segments) > 2
        case.bad = harm(case.directory)
    shutil.copytree(root / "data", root / "theirs")
    # At zeros where its newest batch was a broker takes the whole disk for broken.
    shutil.rmtree(root / "theirs" / "tail-0")
    with Broker(root / "theirs", log=root / "after.log") as broker:
        for case in found.values():
            if case.topic != "tail":
                case.served, case.served_error = client.consume_to_damage(broker, case.topic, case.level)
                case.end = client.offset(broker, case.topic, 0, LATEST)
    return found


@pytest.mark.parametrize("topic", ["length", "block", "tail"])
def test_a_read_of_a_damaged_log_loses_only_damaged_batches(cases, topic):
    """A read up to the damage returns what a broker's consumer gets; one that skips it, all other rows."""
    case = cases[topic]
    case.check_skipped()
    _, error, lost = case.read(on_corrupt="skip")
    assert (error, joined(lost)) == (None, case.bad_ranges)
    assert 0 < len(case.bad) < 10
    rows, error, _ = case.read()
    assert rows == [offset for offset in offsets(case.before) if offset < case.bad_ranges[0][0]]
    assert error
    if topic != "tail":
        assert offsets(case.served) == rows
        assert "KafkaException" in case.served_error


@pytest.mark.parametrize("topic", ["removed", "cut", "cut-indexed"])
def test_what_a_broker_serves_of_a_log_that_lacks_records_is_not_all(cases, topic):
    """It says nothing, and we say what is missing. Nobody writes behind it unasked: the checkpoints tell only once."""
    case = cases[topic]
    case.check_skipped()
    _, error, lost = case.read(on_corrupt="skip")
    assert (error, lost) == (None, case.bad_ranges)
    assert case.served_error is None
    assert case.served == [row for row in case.kept if row["offset"] < case.end]
    log = bl.Log(case.directory)
    # Where the newest index entry is of a batch that is cut off, a broker does not see the newest segment at all.
    assert case.end == (log.segments[-1].base_offset if topic == "cut-indexed" else log.log_end_offset)
    _, error, _ = case.read()
    start, end = case.bad_ranges[0]
    said = f"{topic}-0 ends at {start}, but recovery-point-offset-checkpoint, "
    assert ("the file is missing" if topic == "removed" else said) in error
    refused = f"offsets {start} to {end - 1} are lost"
    if topic == "cut-indexed":
        refused += f"; a broker does not see offsets {case.end} to {start - 1}, because "
    with (
        bl.open_log_dir(case.data, sole_replica=True) as log_dir,
        pytest.raises(bl.errors.CorruptRecordError, match=f"records are missing at .* {refused}"),
    ):
        log_dir.log(topic, 0)


@pytest.mark.parametrize("topic", ["swapped", "doubled"])
def test_batches_out_of_order_are_an_error_or_skipped(cases, topic):
    """A consumer passes over what is behind its position without a word; so no row comes twice."""
    case = cases[topic]
    rows, error, _ = case.read()
    assert "where the segment continues" in error
    assert rows == sorted(set(rows))
    skipped, error, lost = case.read(on_corrupt="skip")
    assert error is None
    assert skipped == sorted(set(skipped))
    missing = [offset for offset in offsets(case.before) if offset not in skipped]
    assert all(is_in(offset, lost) for offset in missing)
    # Of two batches that contradict each other one goes.
    counts = [one["records_count"] for one in case.bad]
    assert len(missing) in (counts if topic == "swapped" else [0])
    assert case.served_error is None
    assert offsets(case.served) == skipped or topic == "swapped"


@pytest.mark.parametrize("topic", ["commit-marker", "abort-marker"])
def test_a_damaged_marker_never_ends_a_read_quietly_and_no_aborted_row_comes(cases, topic):
    case = cases[topic]
    committed = offsets(case.before)
    rows, error, _ = case.read()
    assert error
    assert rows == committed[: len(rows)]
    assert "KafkaException" in case.served_error
    assert set(rows) <= set(offsets(case.served))
    skipped, error, lost = case.read(on_corrupt="skip")
    assert error is None
    missing = [offset for offset in committed if offset not in skipped]
    # That a transaction was committed only its marker tells; that it was aborted, the transaction index too.
    assert len(missing) == (IN_TRANSACTION if topic == "commit-marker" else 0)
    assert skipped == [offset for offset in committed if offset not in missing]
    assert all(is_in(offset, lost) for offset in missing)


@pytest.mark.parametrize("topic", ["index-removed", "index-zeroed"])
def test_aborted_transactions_are_told_by_their_markers(cases, topic):
    """A broker believes the index, which has no checksum, and hands out aborted rows where it is gone."""
    case = cases[topic]
    assert as_consumed(bl.LogDirs(case.data), topic, case.level) == case.before
    assert len(case.before) == 3 * IN_TRANSACTION
    assert case.served_error is None
    assert len(case.served) == 5 * IN_TRANSACTION or topic == "index-zeroed"


def test_a_group_goes_on_at_its_offset_after_every_verb(client, tmp_path):
    """Its offsets are in `__consumer_offsets`, which no verb touches: a record keeps its offset whatever is done."""
    data, at = tmp_path / "data", 70
    verbs = {
        "converted": Conversion(compression="zstd"),
        "erased": Erasure(keys=(b"key-3",)),
        "retained": Retention(before_offset=60),
        "compacted": Compaction(roll=True),
    }
    with Broker(data, log=tmp_path / "before.log") as broker:
        for topic in verbs:
            client.create(broker, topic, cleanup_policy="compact" if topic == "compacted" else "delete", **SMALL)
            client.produce(broker, topic, 0, 100, "keyed", batch_size=400)
            client.commit(broker, "g", topic, 0, at)
    rest = {}
    for topic, verb in verbs.items():
        before = as_consumed(bl.LogDirs(data), topic)
        rewrite(verb, data, topics=[topic])
        after = as_consumed(bl.LogDirs(data), topic)
        assert (after == before) is (topic == "converted")
        rest[topic] = [row for row in after if row["offset"] >= at]
        assert 0 < len(rest[topic]) <= 30
    with Broker(data, log=tmp_path / "after.log") as broker:
        assert {topic: client.consume(broker, topic, group="g") for topic in verbs} == rest


def test_a_broker_passes_over_a_segment_that_ends_in_the_middle_of_a_batch(client, tmp_path):
    """After a clean shutdown it cuts nothing off: what the finding batch-cut says of brokers and consumers."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "before.log") as broker:
        for topic in ("older", "newest"):
            client.create(broker, topic, **SMALL)
            client.produce(broker, topic, 0, PLAIN, batch_size=400)
    torn = {}
    for topic, number in (("older", 1), ("newest", -1)):
        path = segment(data / f"{topic}-0", number)
        torn[topic] = batches(path)[-1]
        os.truncate(path, path.stat().st_size - 7)
    codes = {(one.topic, one.code) for one in bl.check(data)}
    assert {("older", "batch-cut"), ("newest", "batch-cut")} <= codes
    with Broker(data, log=tmp_path / "after.log") as broker:
        found = {}
        for topic in torn:
            served, error = client.consume_to_damage(broker, topic, "read_uncommitted")
            found[topic] = offsets(served), error, client.offset(broker, topic, 0, LATEST)
    first, last = torn["older"]["base_offset"], torn["older"]["last_offset"]
    assert found["older"] == ([one for one in range(PLAIN) if not first <= one <= last], None, PLAIN)
    assert found["newest"] == ([*range(torn["newest"]["base_offset"])], None, torn["newest"]["base_offset"])
