"""Logs that are cut at one moment keep each transaction whole, or none of it: outputs, offsets and coordinator."""

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless.log_dir.recover import recovered
from building import NOW, batch, marker, write_segment
from state_building import transaction_key, transaction_value

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
        self.steps = {producer: self.transactions(producer, epoch=0) for producer in PRODUCERS}

    def run(self, steps):
        for _ in range(steps):
            self.clock += self.chance.choice([1, 10, 200, 3_000])
            next(self.steps[self.chance.choice(PRODUCERS)])
            if self.chance.random() < 0.2:
                self.append(self.chance.choice(PARTITIONS[:3]), [b"plain"], timestamp=self.producer_time())
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
        value = transaction_value(producer, status, partitions, epoch=epoch, started=self.clock)
        return self.append(COORDINATOR, [value], keys=[transaction_key(f"id-{producer}")], timestamp=self.clock)

    def transactions(self, producer, epoch):
        """Yield between the steps of one producer's transactions."""
        while True:
            self.number += 1
            number, rows = self.number, []
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
    """Cut all logs at a time. Return the numbers of the transactions that are there, and the reports."""
    source, to = cluster.write(tmp_path / "data", coordinator=coordinator), tmp_path / "new"
    topics = {topic for topic, _ in cluster.batches if coordinator or topic != COORDINATOR[0]}
    verb = bl.TruncateTo(timestamp=timestamp, open_transactions=how)
    dry = bl.rewrite(verb, source, topics=topics, dry_run=True)
    done = bl.rewrite(verb, source, topics=topics, to=to)
    assert [one.report for one in done] == [one.report for one in dry]
    return whole(cluster, [to]), {one.name: one.report for one in done}


def whole(cluster, directories):
    """Return the rows of the transactions that are there: each of them as a whole."""
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
def test_without_a_coordinator_the_markers_tell(tmp_path_factory, seed, bumps_epochs, how):
    cluster = Cluster(seed, bumps_epochs=bumps_epochs).run(120)
    timestamp = cluster.chance.randint(NOW, cluster.clock + 1)
    cut(cluster, tmp_path_factory.mktemp("alone"), timestamp, coordinator=False, how=how)


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
    rescued = bl.rescue(*disks, to=tmp_path / "new", nodes=[1, 2], until=until)
    assert rescued.left == []
    nodes = [Path(path) for path in rescued.nodes.values()]
    found = whole(cluster, nodes)
    for node in nodes:
        check_coordinator(cluster, node, found)
