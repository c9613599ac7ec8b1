"""What a cluster does with a repaired replica, and with an empty one, while other brokers have the records."""

import contextlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from filling import ISOLATION_LEVELS, data_batches
from kafka import DEFAULT, EACH_RELEASE, Broker, as_consumed, complaints

import brokerless as bl
from brokerless.layout import checkpoints
from support import damage
from support.polling import until

REPLICATED = {
    "offsets_topic_replication_factor": 3,
    "transaction_state_log_replication_factor": 3,
    "transaction_state_log_min_isr": 2,
}
# The node that is damaged, and the topics with the nodes of their replicas, the preferred leader first. Node 1 is the
# controller. Node 3 stops first, then node 2: node 1 leads the first topic then, node 2 is the last one in sync of the
# others. For "eligible" that is less than `min.insync.replicas`: node 3 stays eligible as a leader (KIP-966).
DAMAGED = 2
TOPICS = {"replicated": [2, 3, 1], "last": [2, 3], "eligible": [2, 3]}
SMALL = {"internal_segment_bytes": 5_000}


def disks_of(path):
    """The disks of each node. Those of the damaged one: all topics are on the first."""
    return {1: [path / "1"], DAMAGED: [path / "2a", path / "2b"], 3: [path / "3"]}


@contextlib.contextmanager
def started(path, name, version, *, others=(2, 3)):
    """Start the controller, then other nodes at once, and return all by id; what still runs in the end is killed."""
    nodes = {}
    try:
        start(nodes, path, name, version, 1)
        with ThreadPoolExecutor() as threads:
            for done in [threads.submit(start, nodes, path, name, version, node) for node in others]:
                done.result()
        yield nodes
    finally:
        for broker in nodes.values():
            broker.kill()


def start(nodes, path, name, version, node):
    options = {"node_id": node, "joins": nodes.get(1), "version": version, **REPLICATED}
    nodes[node] = Broker(*disks_of(path)[node], log=path / f"{name}-{node}.log", **options)


def wait_until_in_sync(client, broker):
    def are_all():
        found = client.topics(broker)
        return all(sorted(found[topic]["isr"][0]) == sorted(nodes) for topic, nodes in TOPICS.items())

    until(are_all)


def wait_until_led(client, broker, leaders):
    """A broker hears of an election a little after the controller has answered."""

    def are_led():
        found = client.topics(broker)
        return {topic: found[topic]["leaders"][0] for topic in TOPICS} == leaders

    until(are_led)


def elect_damaged(client, broker):
    """Elect the damaged node, which is the preferred leader of all topics. Clusters do so by themselves."""
    arguments = ["--election-type", "preferred", "--all-topic-partitions"]
    client.state(broker, "tool", main="org.apache.kafka.tools.LeaderElectionCommand", arguments=arguments)
    wait_until_led(client, broker, dict.fromkeys(TOPICS, DAMAGED))


def served(client, broker):
    return {(topic, level): client.consume(broker, topic, level) for topic in TOPICS for level in ISOLATION_LEVELS}


def on_disk(path, node, rows):
    """The rows on a node's disk, of those that were served before: what came later is left out."""
    logs = bl.LogDirs(disks_of(path)[node][0])
    return {
        (topic, level): [row for row in as_consumed(logs, topic, level) if row in of_topic]
        for (topic, level), of_topic in rows.items()
        if node in TOPICS[topic]
    }


def of_node(node, rows):
    return {(topic, level): of_topic for (topic, level), of_topic in rows.items() if node in TOPICS[topic]}


def without(rows, lost):
    """The rows but for the lost offsets of their topic."""
    return {
        (topic, level): [
            row
            for row in of_topic
            if not any(start <= row["offset"] and (end is None or row["offset"] < end) for start, end in lost[topic])
        ]
        for (topic, level), of_topic in rows.items()
    }


@pytest.fixture(scope="module")
def left(client, tmp_path_factory, request):
    """A cluster that was stopped: its disks, and what each topic had served."""
    path = tmp_path_factory.mktemp("cluster")
    with started(path, "before", request.param) as nodes:
        broker = nodes[1]
        for topic, replicas in TOPICS.items():
            client.create(broker, topic, replicas=replicas, min_insync_replicas=1 if topic == "last" else 2, **SMALL)
        for at in range(8):
            for topic in TOPICS:
                client.produce(broker, topic, 0, 20)
            client.produce(broker, "replicated", 0, 10, mode="abort" if at % 2 else "commit")
        disk, other = disks_of(path)[DAMAGED]
        for topic in TOPICS:
            if (other / f"{topic}-0").exists():
                client.move(nodes[DAMAGED], topic, 0, disk)
        until(lambda: all((disk / f"{topic}-0").exists() for topic in TOPICS))
        wait_until_in_sync(client, broker)
        rows = served(client, broker)
        for node in (3, 2, 1):
            nodes[node].stop()
    return SimpleNamespace(path=path, version=request.param, rows=rows)


@pytest.fixture
def copy(left, tmp_path):
    for disks in disks_of(left.path).values():
        for disk in disks:
            shutil.copytree(disk, tmp_path / disk.name)
    return tmp_path


def harm(disk):
    """Damage a batch amid each log, and the last one of "last"; return the lost offsets by topic."""
    lost = {}
    for topic in TOPICS:
        path, found = data_batches(disk / f"{topic}-0", 0)
        damage.flip_bit(path, found[2]["position"] + found[2]["size"] - 3)
        lost[topic] = [(found[2]["base_offset"], found[2]["last_offset"] + 1)]
    path, found = data_batches(disk / "last-0", -1)
    damage.flip_bit(path, found[-1]["position"] + found[-1]["size"] - 3)
    # Where the log ended, the recovery point of the clean stop tells.
    lost["last"].append((found[-1]["base_offset"], found[-1]["last_offset"] + 1))
    return lost


def lost_of(repaired):
    lost = {}
    for one in repaired.lost:
        lost.setdefault(one.topic, []).append((one.start_offset, one.end_offset))
    return lost


@pytest.mark.parametrize("left", [DEFAULT], indirect=True)
def test_a_leader_serves_what_another_replica_had(client, left, copy):
    disk = disks_of(copy)[DAMAGED][0]
    harm(disk)
    repaired = bl.repair(disk, in_place=True, sources=[disks_of(copy)[3][0]])
    assert [one.state for one in repaired.ranges] == ["recovered"] * 4
    # The other disk is not given.
    assert [one.code for one in bl.check(disk, level="deep")] == ["directory-absent"]
    with started(copy, "after", left.version) as nodes:
        wait_until_in_sync(client, nodes[1])
        elect_damaged(client, nodes[1])
        assert served(client, nodes[1]) == left.rows
        assert [line for line in complaints(nodes[DAMAGED].log) if "-0" in line] == []
        # in all of them, or it fails
        client.produce(nodes[1], "replicated", 0, 5)
        assert len(client.consume(nodes[1], "replicated")) == len(left.rows["replicated", "read_uncommitted"]) + 5
        for node in (3, 2, 1):
            nodes[node].stop()
    for node in TOPICS["replicated"]:
        assert on_disk(copy, node, left.rows) == of_node(node, left.rows)


@pytest.mark.parametrize("left", EACH_RELEASE, indirect=True)
def test_a_gap_stays_and_its_broker_may_lead(client, left, copy):
    """Why a result with lost ranges belongs only where no other replica has them."""
    disk = disks_of(copy)[DAMAGED][0]
    lost = harm(disk)
    assert lost_of(bl.repair(disk, in_place=True)) == lost
    with started(copy, "after", left.version, others=[DAMAGED]) as nodes:
        # It does not count as in sync, although its other disk has the marker of a clean shutdown.
        wait_until_led(client, nodes[1], {"replicated": 1, "last": DAMAGED, "eligible": -1})
        start(nodes, copy, "after", left.version, 3)
        wait_until_in_sync(client, nodes[1])
        wait_until_led(client, nodes[1], {"replicated": 1, "last": DAMAGED, "eligible": 3})
        of_last = {"replicated": [], "last": lost["last"], "eligible": []}
        assert served(client, nodes[1]) == without(left.rows, of_last)
        elect_damaged(client, nodes[1])
        assert served(client, nodes[1]) == without(left.rows, lost)
        # Its end is that of all.
        assert client.produce(nodes[1], "last", 0, 1)[0]["offset"] == lost["last"][1][0]
        for node in (3, 2, 1):
            nodes[node].stop()
    assert on_disk(copy, 2, left.rows) == without(left.rows, lost)
    # The others keep what they had amid the log, and cut off what the leader does not have at its end.
    ends = {**{topic: [] for topic in TOPICS}, "last": lost["last"][1:]}
    for node in (1, 3):
        assert on_disk(copy, node, left.rows) == of_node(node, without(left.rows, ends))
    # So it can still be filled.
    repaired = bl.repair(disk, in_place=True, sources=[disks_of(copy)[3][0]], lost_path=copy / "later.lost")
    assert {(one.topic, one.start_offset, one.state) for one in repaired.ranges} == {
        (topic, lost[topic][0][0], "recovered") for topic in TOPICS
    }
    assert on_disk(copy, 2, left.rows) == without(left.rows, ends)


@pytest.mark.parametrize("left", [DEFAULT], indirect=True)
@pytest.mark.parametrize("has_marker", [True, False])
def test_an_empty_replica_fetches_all_only_where_another_one_leads(client, left, copy, has_marker):
    """Why a partition's directory may be moved away only while another broker leads the partition."""
    disk = disks_of(copy)[DAMAGED][0]
    for topic in TOPICS:
        shutil.rmtree(disk / f"{topic}-0")
    if not has_marker:
        (disk / checkpoints.CLEAN_SHUTDOWN).unlink()
    with started(copy, "after", left.version, others=[DAMAGED]) as nodes:
        led = {"replicated": 1, "last": DAMAGED, "eligible": DAMAGED if has_marker else -1}
        wait_until_led(client, nodes[1], led)
        start(nodes, copy, "after", left.version, 3)
        wait_until_in_sync(client, nodes[1])
        # The other replica truncates its log to that of an empty leader.
        rows = {key: [] if led[key[0]] == DAMAGED else of_topic for key, of_topic in left.rows.items()}
        assert served(client, nodes[1]) == rows
        for node in (3, 2, 1):
            nodes[node].stop()
    for node in (1, 2, 3):
        assert on_disk(copy, node, left.rows) == of_node(node, rows)
