"""Logs that are cut at one moment keep each transaction whole, or none of it: outputs, offsets and coordinator."""

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless.log_dir.recover import recovered
from support.log_files import NOW, batch, marker, write_segment
from support.state_records import transaction_key, transaction_value

# There is no metadata log that tells the settings of the topics, and none decides here.
pytestmark = pytest.mark.filterwarnings("ignore:settings of topics are not known")
PARTITIONS = [("a", 0), ("a", 1), ("b", 0), ("__consumer_offsets", 0)]
TOPIC_IDS = {name: f"{name:A<22.22}" for name in ["a", "b", "__consumer_offsets", "__transaction_state"]}
COORDINATOR = ("__transaction_state", 0)
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = 1, 2, 3, 4, 5
PRODUCERS = [7, 8, 9]


class Cluster:
    """A cluster that exists on paper: what its brokers append, and when, is chosen by a seed.

    Attributes:
        batches: the batches of each partition.
        rows: of each committed transaction, by its number, the partition and value of each record.
        decided: when the coordinator decided on it.
        at: the offset of the decision in the coordinator's log.
    """

    def __init__(self, seed, *, times="honest", bumps_epochs=False):
        self.chance = random.Random(seed)
        self.times, self.bumps_epochs = times, bumps_epochs
        self.batches = defaultdict(list)
        self.ends = defaultdict(int)
        self.rows, self.decided, self.at, self.aborted = {}, {}, {}, set()
        self.sequences = defaultdict(int)
        self.clock, self.number = NOW, 0
        self.deciding, self.started = set(), {}
        self.states = []
        self.steps = {producer: self.transactions(producer, epoch=0) for producer in PRODUCERS}

    def run(self, steps):
        for _ in range(steps):
            self.clock += self.chance.choice([1, 10, 200, 3_000])
            next(self.steps[self.chance.choice(PRODUCERS)])
            if self.chance.random() < 0.2:
                self.append(self.chance.choice(PARTITIONS[:3]), [b"plain"], timestamp=self.producer_time())
        return self

    def finish(self):
        """Have the coordinator write all markers of what it decided."""
        while self.deciding:
            self.clock += 1
            next(self.steps[min(self.deciding)])
        return self

    def producer_time(self):
        if self.times == "old":
            return self.clock - 10_000_000 + self.chance.randrange(1_000_000)
        if self.times == "some in the future" and self.chance.random() < 0.02:
            return self.clock + 5_000
        return self.clock

    def append(self, partition, values, *, build=batch, **fields):
        offset = self.ends[partition]
        content = build(offset, values, **fields)
        self.batches[partition].append((offset, content))
        self.ends[partition] += len(values) if isinstance(values, list) else 1
        return offset

    def state(self, producer, status, partitions, epoch):
        value = transaction_value(producer, status, partitions, epoch=epoch, started=self.started[producer])
        offset = self.append(COORDINATOR, [value], keys=[transaction_key(f"id-{producer}")], timestamp=self.clock)
        self.states.append((offset, producer))
        return offset

    def compact(self):
        """Keep the last state of each producer in a first part of the coordinator's log, as its cleaner does."""
        clean = self.chance.randrange(len(self.states))
        last = {producer: offset for offset, producer in self.states[:clean]}
        kept = {*last.values(), *(offset for offset, _ in self.states[clean:])}
        self.batches[COORDINATOR] = [one for one in self.batches[COORDINATOR] if one[0] in kept]
        return self

    def transactions(self, producer, epoch):
        """Yield between the steps of one producer's transactions."""
        while True:
            self.number += 1
            number, rows = self.number, []
            self.started[producer] = self.clock
            partitions = self.chance.sample(PARTITIONS, self.chance.randint(1, len(PARTITIONS)))
            for known in range(1, len(partitions) + 1):
                self.state(producer, ONGOING, partitions[:known], epoch)
                yield
                if self.chance.random() < 0.1:  # added, and never written to
                    continue
                for _ in range(self.chance.randint(1, 2)):
                    value = f"{number}:{len(rows)}".encode()
                    self.append(
                        partitions[known - 1],
                        [value],
                        keys=[b""],
                        timestamp=self.producer_time(),
                        producer_id=producer,
                        producer_epoch=epoch,
                        base_sequence=self.sequences[producer, epoch, partitions[known - 1]],
                        transactional=True,
                    )
                    self.sequences[producer, epoch, partitions[known - 1]] += 1
                    rows.append((partitions[known - 1], value))
                    yield
            is_commit = self.chance.random() < 0.8
            epoch += self.bumps_epochs
            self.deciding.add(producer)
            at = self.state(producer, PREPARE_COMMIT if is_commit else PREPARE_ABORT, partitions, epoch)
            if is_commit:
                self.rows[number], self.decided[number], self.at[number] = rows, self.clock, at
            else:
                self.aborted.add(number)
            yield
            for partition in self.chance.sample(partitions, len(partitions)):
                self.append(
                    partition,
                    producer,
                    build=marker,
                    commit=is_commit,
                    producer_epoch=epoch,
                    coordinator_epoch=3,
                    timestamp=self.clock,
                )
                yield
            self.state(producer, COMPLETE_COMMIT if is_commit else COMPLETE_ABORT, [], epoch)
            self.deciding.discard(producer)
            yield

    def write(self, directory, *, coordinator=True):
        """Write the log directory, in segments of some batches each."""
        directory.mkdir(parents=True)
        for (topic, number), batches in self.batches.items():
            if coordinator or (topic, number) != COORDINATOR:
                size = self.chance.choice([3, 10, 1000])
                for first in range(0, len(batches), size):
                    part = batches[first : first + size]
                    write_segment(directory / f"{topic}-{number}", part[0][0], [content for _, content in part])
                identity = f"version: 0\ntopic_id: {TOPIC_IDS[topic]}\n"
                (directory / f"{topic}-{number}" / "partition.metadata").write_text(identity)
        (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
        # As a broker would: it makes the producer snapshots.
        list(recovered(str(directory)))
        return directory


def committed(directories, partition):
    """Return the committed values of a partition, which are the same in each replica."""
    contents = []
    for directory in directories:
        path = directory / f"{partition[0]}-{partition[1]}"
        if path.exists():
            log = bl.Log(path)
            assert log.last_stable_offset == log.log_end_offset
            contents.append(b"".join(file.read_bytes() for file in sorted(path.glob("*.log"))))
    assert len(set(contents)) == 1
    rows = log.read(isolation_level="read_committed", columns=["value"])
    return [value for part in rows for value in part["value"].to_pylist()]


def cut(cluster, tmp_path, timestamp, *, coordinator=True, how="abort"):
    """Cut all logs at a time. Return the rows that are left of each transaction, and the reports."""
    source, to = cluster.write(tmp_path / "data", coordinator=coordinator), tmp_path / "new"
    topics = {topic for topic, _ in cluster.batches if coordinator or topic != COORDINATOR[0]}
    verb = bl.Truncation(timestamp=timestamp, open_transactions=how)
    dry = bl.rewrite(verb, source, topics=topics, dry_run=True)
    done = bl.rewrite(verb, source, topics=topics, output=to)
    assert [one.report for one in done] == [one.report for one in dry]
    return whole(cluster, [to]), {one.name: one.report for one in done}


def whole(cluster, directories):
    """Return the committed rows of each transaction, by its number. Fail if some of its rows are missing."""
    found = defaultdict(list)
    for partition in cluster.batches.keys() - {COORDINATOR}:
        for value in committed(directories, partition):
            if value != b"plain":
                found[int(value.split(b":")[0])].append((partition, value))
    assert not found.keys() & cluster.aborted
    for number, rows in found.items():
        assert sorted(rows) == sorted(cluster.rows[number]), f"transaction {number} is halved"
    return found


def check_coordinator(cluster, directory, found):
    """A decision is kept if, and only if, what it decided is there."""
    end = bl.Log(directory / "__transaction_state-0").log_end_offset
    decided = {number for number, at in cluster.at.items() if at < end}
    assert {number for number in decided if cluster.rows[number]} == set(found)


seeds = st.integers(0, 2**32)
# Each example writes a directory, and cuts it twice.
some = settings(max_examples=settings.default.max_examples // 10)


@pytest.mark.slow
@given(
    seeds, st.sampled_from(["honest", "old", "some in the future"]), st.booleans(), st.sampled_from(["abort", "cut"])
)
def test_each_transaction_is_whole_or_absent(tmp_path_factory, seed, times, bumps_epochs, how):
    cluster = Cluster(seed, times=times, bumps_epochs=bumps_epochs).run(120)
    tmp_path = tmp_path_factory.mktemp("whole")
    timestamp = cluster.chance.randint(NOW, cluster.clock + 1)
    found, reports = cut(cluster, tmp_path, timestamp, how=how)
    check_coordinator(cluster, tmp_path / "new", found)
    if (how, times) == ("abort", "honest") and all(report.whole_from is None for report in reports.values()):
        # All that was decided is there: a transaction's batches are before its decision.
        assert set(found) == {n for n, when in cluster.decided.items() if when < timestamp and cluster.rows[n]}


@some
@given(seeds, st.booleans(), st.sampled_from(["abort", "cut"]))
@example(20004, False, "cut")
def test_a_cut_by_offset_beside_a_compacted_coordinator(tmp_path_factory, seed, bumps_epochs, how):
    """Compaction took the decisions, and left of each producer that its last transaction is complete."""
    cluster = Cluster(seed, bumps_epochs=bumps_epochs).run(120).compact()
    source, to = (tmp_path_factory.mktemp("compacted") / name for name in ("data", "new"))
    verb = bl.Truncation(offset=cluster.chance.randint(1, max(cluster.ends.values())), open_transactions=how)
    bl.rewrite(verb, cluster.write(source), topics={topic for topic, _ in cluster.batches}, output=to)
    whole(cluster, [to])


@some
@given(seeds, st.booleans(), st.sampled_from(["abort", "cut"]))
def test_without_a_coordinator_the_markers_tell(tmp_path_factory, seed, bumps_epochs, how):
    cluster = Cluster(seed, bumps_epochs=bumps_epochs).run(120).finish()
    timestamp = cluster.chance.randint(NOW, cluster.clock + 1)
    cut(cluster, tmp_path_factory.mktemp("alone"), timestamp, coordinator=False, how=how)


@pytest.mark.slow
@some
@given(seeds, st.booleans())
def test_a_rescue_of_several_nodes_keeps_them_whole(tmp_path_factory, seed, bumps_epochs):
    """Each disk has some partitions, and each node gets all."""
    cluster = Cluster(seed, bumps_epochs=bumps_epochs).run(120)
    tmp_path = tmp_path_factory.mktemp("rescue")
    disks = [cluster.write(tmp_path / "disk-1"), tmp_path / "disk-2"]
    shutil.copytree(*disks)
    (disks[1] / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=2\n")
    for path in [path for path in disks[0].glob("*-0") if path.name != "b-0"]:
        shutil.rmtree(disks[cluster.chance.randrange(2)] / path.name)
    until = cluster.chance.randint(NOW, cluster.clock + 1)
    rescued = bl.rescue(*disks, output=tmp_path / "new", nodes=[1, 2], as_of=until)
    assert rescued.left == []
    nodes = [Path(path) for path in rescued.nodes.values()]
    found = whole(cluster, nodes)
    for node in nodes:
        check_coordinator(cluster, node, found)


OLD = NOW - 10_000_000


def written(path, partitions, states=()):
    """Write a log directory of batches, which are functions of an offset, and of states of a coordinator."""
    cluster = Cluster(0)
    for partition, batches in partitions.items():
        for build in batches:
            build(cluster, partition)
    for time, *state in states:
        cluster.clock, cluster.started[state[0]] = time, NOW
        cluster.state(*state)
    return cluster.write(path, coordinator=bool(states))


def data(time, *, epoch=0, sequence=0):
    return lambda cluster, at: cluster.append(
        at,
        [b"v"],
        keys=[b""],
        timestamp=time,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def committing(time, *, epoch=0):
    return lambda cluster, at: cluster.append(
        at, 7, build=marker, commit=True, producer_epoch=epoch, coordinator_epoch=3, timestamp=time
    )


@pytest.mark.parametrize("place", [("a", 0), ("b", 0)])
@pytest.mark.parametrize("epoch", [0, 1])
def test_old_times_do_not_make_an_open_transaction_a_committed_one(tmp_path, place, epoch):
    """A stream passes on the times of its input. No marker and no decision tell that the second one was committed."""
    plain = lambda cluster, at: cluster.append(at, [b"plain"], timestamp=NOW)  # noqa: E731
    partitions = {("a", 0): [data(OLD), committing(NOW + 1000)], ("b", 0): [plain]}
    partitions[place].append(data(OLD, epoch=epoch, sequence=0 if epoch else 1))
    source = written(tmp_path / "data", partitions)
    topics = sorted({topic for topic, _ in partitions})
    done = bl.rewrite(bl.Truncation(timestamp=NOW + 30_000), source, topics=topics, output=tmp_path / "new")
    ended = [one for result in done for one in result.report.ended]
    assert [(one.producer_id, one.is_committed) for one in ended] == [(7, False)]


def test_a_transaction_that_its_coordinator_aborts_is_not_committed(tmp_path):
    """An earlier one was committed long before, and the ABORT markers are not written yet."""
    hour = 3_600_000
    partitions = {
        ("a", 0): [data(OLD), committing(NOW + 1000), data(OLD, sequence=1)],
        ("b", 0): [data(OLD)],
    }
    states = [
        (NOW + 900, 7, PREPARE_COMMIT, [("a", 0)], 0),
        (NOW + 1100, 7, COMPLETE_COMMIT, [], 0),
        (NOW + 2 * hour, 7, ONGOING, [("a", 0), ("b", 0)], 0),
        (NOW + 2 * hour + 5_000, 7, PREPARE_ABORT, [("a", 0), ("b", 0)], 0),
    ]
    source = written(tmp_path / "data", partitions, states)
    topics = ["a", "b", "__transaction_state"]
    done = bl.rewrite(bl.Truncation(timestamp=NOW + 2 * hour + 1_000), source, topics=topics, output=tmp_path / "new")
    assert {one.is_committed for result in done for one in result.report.ended} == {False}


@pytest.mark.parametrize("late", [1_000, 10_000, 60_000])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_marker_may_be_late(tmp_path, late, is_compacted):
    """The leader of a partition may be away for minutes. Compaction leaves the Complete record alone."""
    partitions = {
        ("a", 0): [data(NOW), committing(NOW + 1_000)],
        ("b", 0): [data(NOW), committing(NOW + 1_000 + late)],
    }
    states = [
        (NOW + 900, 7, PREPARE_COMMIT, [("a", 0), ("b", 0)], 0),
        (NOW + 1_100 + late, 7, COMPLETE_COMMIT, [], 0),
    ]
    source = written(tmp_path / "data", partitions, states[is_compacted:])
    topics = ["a", "b", "__transaction_state"]
    bl.rewrite(bl.Truncation(timestamp=NOW + 1_000 + late // 2), source, topics=topics, output=tmp_path / "new")
    found = [len(committed([tmp_path / "new"], (topic, 0))) for topic in ("a", "b")]
    assert found == ([0, 0] if is_compacted else [1, 1])


def test_a_cut_by_offset_does_not_keep_what_was_decided_behind_it(tmp_path):
    """Nothing is open in the partition, and the coordinator would abort the transaction."""
    partitions = {("a", 0): [data(NOW), committing(NOW + 1_000)]}
    states = [(NOW + at, 7, ONGOING, [("a", 0)], 0) for at in range(11)]
    states += [(NOW + 900, 7, PREPARE_COMMIT, [("a", 0)], 0), (NOW + 1_100, 7, COMPLETE_COMMIT, [], 0)]
    source = written(tmp_path / "data", partitions, states)
    bl.rewrite(bl.Truncation(offset=11), source, topics=["a", "__transaction_state"], output=tmp_path / "new")
    assert committed([tmp_path / "new"], ("a", 0)) == []
