"""A cluster of three nodes loses disks; what a rescue makes of the rest starts, and says the same as before."""

import shutil
from itertools import pairwise
from types import SimpleNamespace

import pytest
from filling import EARLIEST_LOCAL, tier, wait_until_moved
from kafka import (
    AFTER_A_KILL,
    DEFAULT,
    EACH_RELEASE,
    NEWEST,
    OLDER,
    Broker,
    OldBroker,
    again,
    complaints,
    free_ports,
    start_nodes,
    tiered,
)
from state_workload import NEW_SETTINGS
from test_cluster import ACLS, AUTHORIZER, QUOTAS

import brokerless as bl
from brokerless.log_dir.start_faults import STRAY_CURE
from support.polling import until

NODES = (1, 2, 3)
REPLICATED = {
    "offsets_topic_replication_factor": 3,
    "transaction_state_log_replication_factor": 3,
    "transaction_state_log_min_isr": 2,
    **AUTHORIZER,
}
CONFIGS = [
    {"type": "TOPIC", "resource": "orders", "name": "retention.ms", "value": "123456789"},
    {"type": "BROKER", "resource": "1", "name": "log.cleaner.threads", "value": "2"},
    {"type": "BROKER", "resource": "", "name": "log.retention.ms", "value": "777777777"},
    # KIP-966: the first controller of a new cluster sets it as its own configuration has it.
    {"type": "BROKER", "resource": "", "name": "min.insync.replicas", "value": "2"},
]
USERS = [("ann", "SCRAM-SHA-256", 4096), ("bob", "SCRAM-SHA-512", 8192)]
TOPICS = ("orders", "payments", "single")
# What the metadata alone tell.
SUBJECTS = ("acls", "quotas", "users", "features", "configs")


def told(client, broker):
    """What a cluster says of its metadata: by subject, without what depends on its nodes."""
    rows = client.state(broker, "metadata")
    return {subject: sorted(map(repr, (row for row in rows if row["subject"] == subject))) for subject in SUBJECTS}


def in_force(client, broker):
    """The settings in force of each topic, and those of the broker that were set at runtime."""
    of_broker = client.configs(broker, "broker", str(broker.node_id)).items()
    return {
        "": {name: value for name, value in of_broker if value[1].startswith("DYNAMIC")},
        **{topic: client.configs(broker, "topic", topic) for topic in client.topics(broker)},
    }


def ids(client, broker):
    return {name: (topic["id"], len(topic["leaders"])) for name, topic in client.topics(broker).items()}


def groups(client, broker):
    return sorted(client.state(broker, "groupOffsets", groups=["half", "other"]), key=repr)


@pytest.fixture(scope="module")
def lost(client, tmp_path_factory):
    """The disks of a cluster that was killed, two for each node; and what it had said."""
    path = tmp_path_factory.mktemp("lost")
    disks = {node: [path / f"disk-{node}-{number}" for number in (0, 1)] for node in NODES}
    nodes = start_nodes(disks, log=path, **REPLICATED, **AFTER_A_KILL)
    try:
        broker = nodes[0]
        client.create(broker, "orders", 3, [1, 2, 3], internal_segment_bytes=5_000)
        client.create(broker, "payments", 2, [3, 1], internal_segment_bytes=5_000)
        client.create(broker, "single", 2, [2])
        for partition in range(3):
            client.produce(broker, "orders", partition, 100)
        for partition in range(2):
            client.produce(broker, "single", partition, 20)
            for mode in ("commit", "abort", "commit"):
                client.produce(broker, "payments", partition, 30, mode=mode)
        client.state(broker, "changeMetadata", acls=ACLS, quotas=QUOTAS, configs=CONFIGS)
        for user, mechanism, iterations in USERS:
            given = {"user": user, "mechanism": mechanism, "iterations": iterations}
            client.state(broker, "changeMetadata", users=[given])
        client.commit(broker, "half", "orders", 0, 50)
        client.commit(broker, "half", "orders", 1, 70)
        client.commit(broker, "other", "payments", 0, 10)
        until(lambda: all(len(isr) == 3 for isr in client.topics(broker)["orders"]["isr"]))
        said = SimpleNamespace(
            disks=disks,
            told=told(client, broker),
            ids=ids(client, broker),
            groups=groups(client, broker),
            rows={topic: client.consume(broker, topic, "read_committed") for topic in TOPICS},
        )
    finally:
        for node in nodes:
            node.kill()
    return said


def copied(lost, tmp_path, nodes=NODES, numbers=(0, 1)):
    """Copy some of the disks."""
    found = []
    for node in nodes:
        for number in numbers:
            name = f"disk-{node}-{number}"
            shutil.copytree(lost.disks[node][number], tmp_path / name)
            found.append(tmp_path / name)
    return found


def test_two_of_three_controllers_are_lost(client, lost, tmp_path):
    rescued = bl.rescue(*copied(lost, tmp_path, nodes=[1]), output=tmp_path / "new")
    gone = {(one.topic, one.partition) for one in rescued.missing if one.is_gone}
    assert gone == {("single", 0), ("single", 1)}
    assert rescued.left == []
    alone = {**AUTHORIZER, **AFTER_A_KILL}
    with Broker(tmp_path / "new", log=tmp_path / "log", **alone) as broker:
        assert ids(client, broker) == lost.ids
        # What one node cannot keep is announced.
        announced = {
            "min.insync.replicas of topic __transaction_state is lowered from 2 to 1, the number of its replicas",
            "min.insync.replicas of the cluster is lowered from 2 to 1, the number of nodes",
        }
        assert announced <= set(map(str, rescued.notes))
        two, one = (f"'name': 'min.insync.replicas', 'value': '{count}'" for count in (2, 1))
        configs = [row.replace(two, one) for row in lost.told["configs"]]
        assert told(client, broker) == {**lost.told, "configs": configs}
        assert groups(client, broker) == lost.groups
        for topic in ("orders", "payments"):
            assert client.consume(broker, topic, "read_committed") == lost.rows[topic]
        assert client.consume(broker, "single") == []
        assert [line for line in complaints(broker.log) if "stray" in line] == []
        assert client.produce(broker, "orders", 0, 5)[0]["offset"] == 100


@pytest.mark.parametrize("version", [NEWEST, again(DEFAULT), again(OLDER[0])])
@pytest.mark.parametrize("standalone", [False, True])
def test_each_layer_of_settings_is_in_force_whatever_the_new_configuration_says(client, tmp_path, version, standalone):
    data, options = tmp_path / "data", {"version": version, "standalone": standalone, **AUTHORIZER}
    configs = [
        *CONFIGS[:-1],
        {**CONFIGS[-1], "value": "1"},
        {"type": "CLIENT_METRICS", "resource": "all", "name": "interval.ms", "value": "60000"},
    ]
    with Broker(data, log=tmp_path / "before.log", **options) as broker:
        client.create(broker, "orders", segment_bytes=1 << 20)
        client.create(broker, "payments")
        client.state(broker, "changeMetadata", acls=ACLS, quotas=QUOTAS, configs=configs)
        client.state(
            broker, "changeMetadata", users=[{"user": "ann", "mechanism": "SCRAM-SHA-256", "iterations": 4096}]
        )
        before = told(client, broker), in_force(client, broker)
    port = {1: free_ports(1)[0]}
    rescued = bl.rescue(data, output=tmp_path / "new", voters=f"1@127.0.0.1:{port[1]}" if standalone else None)
    assert rescued.is_whole
    new = {**options, **AFTER_A_KILL, "controllers": port, "min_insync_replicas": 3, "log_cleaner_threads": 4}
    with Broker(tmp_path / "new", log=tmp_path / "new.log", **new) as broker:
        assert (told(client, broker), in_force(client, broker)) == before
        assert client.produce(broker, "orders", 0, 1)[0]["offset"] == 0


def test_all_metadata_are_lost(client, lost, tmp_path):
    disks = copied(lost, tmp_path)
    for disk in disks:
        shutil.rmtree(disk / "__cluster_metadata-0", ignore_errors=True)
        (disk / "bootstrap.checkpoint").unlink(missing_ok=True)
    rescued = bl.rescue(*disks, output=tmp_path / "new", nodes=NODES)
    assert rescued.metadata is None
    assert rescued.left == []
    directories = {node: [path] for node, path in rescued.nodes.items()}
    nodes = start_nodes(directories, log=tmp_path, **REPLICATED, **AFTER_A_KILL)
    try:
        broker = nodes[1]
        assert ids(client, broker) == lost.ids
        assert groups(client, broker) == lost.groups
        for topic in TOPICS:
            assert client.consume(broker, topic, "read_committed") == lost.rows[topic]
    finally:
        for node in nodes:
            node.kill()


@pytest.mark.parametrize("version", [NEWEST, again(OLDER[0])])
def test_a_log_starts_where_it_did_although_a_cleaner_has_emptied_its_first_segment(client, tmp_path, version):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "before.log", version=version) as broker:
        client.create(broker, "t", **{"segment_bytes" if version == OLDER[0] else "internal_segment_bytes": 5_000})
        for _ in range(10):
            client.produce(broker, "t", 0, 20)
    first, second = sorted((data / "t-0").glob("*.log"))[:2]
    first.write_bytes(b"")
    for suffix in (".index", ".timeindex"):
        first.with_suffix(suffix).unlink()
    (data / ".kafka_cleanshutdown").unlink()
    assert bl.rescue(data, output=tmp_path / "new").left == []
    starts = []
    for path in (tmp_path / "new", data):
        with Broker(path, log=tmp_path / f"{path.name}.log", version=version, **AFTER_A_KILL) as broker:
            starts.append(client.offset(broker, "t", 0, -2))
            assert client.consume(broker, "t")[0]["offset"] == int(second.stem)
    assert starts == [0, 0]
    assert bl.Log(tmp_path / "new/t-0").log_start_offset == 0


PARTITIONS = {
    "offsets_topic_num_partitions": 7,
    "transaction_state_log_num_partitions": 3,
    "share_coordinator_state_topic_num_partitions": 4,
}


def end_of(data, topic):
    """Return the sum of the log end offsets of a topic; it may not be there yet."""
    return sum(log.log_end_offset for log in bl.LogDirs(data).logs() if log.topic == topic)


@pytest.mark.parametrize("version", [NEWEST, again(DEFAULT)])
def test_without_metadata_coordinators_of_each_kind_find_their_groups(client, tmp_path, version):
    """Kafka's own topics get as many partitions as before, and not as many as by default."""
    data, options = tmp_path / "data", {**NEW_SETTINGS, **PARTITIONS, "version": version}

    def known(broker):
        columns = ("group", "type", "epoch")
        return sorted(tuple(row.get(column) for column in columns) for row in client.state(broker, "groups"))

    with Broker(data, log=tmp_path / "before.log", **options) as broker:
        if version == DEFAULT:
            client.state(broker, "feature", feature="share.version", level=1)
        client.create(broker, "orders", 3)
        for partition in range(3):
            client.produce(broker, "orders", partition, 5, mode="commit", transactional_id=f"id-{partition}")
        client.commit(broker, "classic", "orders", 0, 3)
        kinds = {"consumer": ["new-1", "new-2"], "share": ["shared-1", "shared-2"]}
        for kind, groups in kinds.items():
            for group in groups:
                client.state(
                    broker, "join", member=group, group=group, kind=kind, topics=["orders"], pattern=None, properties={}
                )
        if version == NEWEST:
            client.state(broker, "joinStreams", group="streaming", topic="orders", isReady=True)
        joined = {group for groups in kinds.values() for group in groups}
        until(lambda: all(len(row["members"]) == 1 for row in client.state(broker, "groups") if row["group"] in joined))
        # What share groups have read is kept from the first assignment on.
        until(lambda: end_of(data, "__share_group_state") >= 6)
        for member in sorted(joined):
            client.state(broker, "leave", member=member)
        until(lambda: all(not row["members"] for row in client.state(broker, "groups") if row["group"] in joined))
        before, topics = known(broker), ids(client, broker)
    shutil.rmtree(data / "__cluster_metadata-0")
    rescued = bl.rescue(data, output=tmp_path / "new", release=version)
    assert {name: count for name, (_, count) in topics.items()} == rescued.topics
    assert any("no disk has the cluster's metadata" in doubt for doubt in map(str, rescued.doubts))
    with Broker(tmp_path / "new", log=tmp_path / "new.log", **options, **AFTER_A_KILL) as broker:
        if version == DEFAULT:
            client.state(broker, "feature", feature="share.version", level=1)
        assert ids(client, broker) == topics
        assert known(broker) == before
        again_in = {"member": "back", "group": "shared-1", "kind": "share", "topics": ["orders"], "pattern": None}
        client.state(broker, "join", **again_in, properties={})
        until(lambda: any(row["members"] for row in client.state(broker, "groups") if row["group"] == "shared-1"))
        client.state(broker, "leave", member="back")


def test_a_data_disk_of_each_node_is_lost(client, lost, tmp_path):
    """The disks with the metadata are the first ones."""
    rescued = bl.rescue(*copied(lost, tmp_path, numbers=[0]), output=tmp_path / "new", nodes=NODES)
    gone = {(one.topic, one.partition) for one in rescued.missing if one.is_gone}
    directories = {node: [path] for node, path in rescued.nodes.items()}
    nodes = start_nodes(directories, log=tmp_path, **REPLICATED, **AFTER_A_KILL)
    try:
        broker = nodes[2]
        assert ids(client, broker) == lost.ids
        assert told(client, broker) == lost.told
        for topic in TOPICS:
            expected = [row for row in lost.rows[topic] if (topic, row["partition"]) not in gone]
            assert client.consume(broker, topic, "read_committed") == expected
    finally:
        for node in nodes:
            node.kill()


def test_the_metadata_log_names_the_controllers(client, lost, tmp_path):
    ports = dict(zip(NODES, free_ports(3), strict=True))
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items())
    rescued = bl.rescue(*copied(lost, tmp_path), output=tmp_path / "new", nodes=NODES, voters=voters)
    directories = {node: [path] for node, path in rescued.nodes.items()}
    options = {**REPLICATED, **AFTER_A_KILL, "standalone": True}
    nodes = start_nodes(directories, log=tmp_path, controllers=ports, **options)
    try:
        broker = nodes[0]
        assert ids(client, broker) == lost.ids
        assert client.consume(broker, "orders", "read_committed") == lost.rows["orders"]
        (version,) = [row for row in client.state(broker, "metadata") if row.get("feature") == "kraft.version"]
        assert version["level"] == 1
    finally:
        for node in nodes:
            node.kill()
    ids_of_nodes = [bl.LogDirFiles(path).directory_id for path in rescued.nodes.values()]
    voters = bl.cluster(rescued.nodes[1]).voters.to_pylist()
    assert [(row["voter_id"], row["directory_id"]) for row in voters] == list(zip(NODES, ids_of_nodes, strict=True))


@pytest.mark.parametrize(
    ("message_format", "convert"),
    [
        again(0, False),
        (0, True),
        (1, False),
        again(1, True),
        (2, False),
    ],
)
def test_a_cluster_with_zookeeper_becomes_one_without(client, tmp_path, message_format, convert):
    data = tmp_path / "data"
    with OldBroker(data, log=tmp_path / "old.log", node_id=5, message_format=message_format) as broker:
        client.create(broker, "old", 2, segment_bytes=5_000)
        for partition in range(2):
            client.produce(broker, "old", partition, 100, mode="plain")
        client.commit(broker, "g", "old", 0, 50)
        rows = client.consume(broker, "old")
    rescued = bl.rescue(data, output=tmp_path / "new", convert=convert)
    assert (rescued.left, list(rescued.nodes)) == ([], [5])
    magics = {magic for batches in bl.Log(tmp_path / "new/old-0").scan() for magic in batches["magic"].to_pylist()}
    assert magics == {2 if convert else message_format}
    with Broker(tmp_path / "new", log=tmp_path / "log", node_id=5, **AFTER_A_KILL) as broker:
        # What older formats do not have
        new = {"leaderEpoch": 0, "timestampType": 0} if convert and message_format < 2 else {}
        assert client.consume(broker, "old") == [{**row, **new} for row in rows]
        assert [row["offset"] for row in client.state(broker, "groupOffsets", groups=["g"])] == [50]
        assert client.produce(broker, "old", 0, 1)[0]["offset"] == 100


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_a_fork_starts_beside_its_cluster(client, tmp_path, version):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "before.log", version=version) as broker:
        client.create(broker, "orders", 2)
        client.create(broker, "other", 1)
        client.produce(broker, "orders", 0, 50)
        rows = client.consume(broker, "orders")
    rescued = bl.rescue(
        data, output=tmp_path / "fork", topics=["orders"], rename={"orders": "orders-test"}, cluster_id="laptop"
    )
    assert rescued.left == []
    with (
        Broker(data, log=tmp_path / "again.log", version=version) as broker,
        Broker(tmp_path / "fork", log=tmp_path / "fork.log", version=version) as fork,
    ):
        assert client.consume(fork, "orders-test") == rows
        assert [name for name in client.topics(fork) if not name.startswith("__")] == ["orders-test"]
        assert client.produce(fork, "orders-test", 1, 5)[0]["offset"] == 0
        assert client.consume(broker, "orders") == rows


@pytest.fixture
def remote_cluster(client, tmp_path):
    """The disk of a tiered cluster, its remote storage, and what it served."""
    data, remote = tmp_path / "data", tmp_path / "remote"
    with Broker(data, log=tmp_path / "before.log", **tiered(remote)) as broker:
        tier(client, broker, "t")
        wait_until_moved(client, broker, data / "t-0")
        rows = client.consume(broker, "t")
        start = client.offset(broker, "t", 0, EARLIEST_LOCAL)
    assert (rows[0]["offset"], start > 0) == (0, True)
    return SimpleNamespace(data=data, remote=remote, rows=rows, start=start)


@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_cluster_in_the_place_of_a_tiered_one_serves_what_is_in_remote_storage(
    client, tmp_path, remote_cluster, has_metadata
):
    if not has_metadata:
        shutil.rmtree(remote_cluster.data / "__cluster_metadata-0")
        (remote_cluster.data / "bootstrap.checkpoint").unlink()
    rescued = bl.rescue(remote_cluster.data, output=tmp_path / "new")
    assert rescued.left == []
    before = {path for path in remote_cluster.remote.rglob("*") if path.is_file()}
    with Broker(tmp_path / "new", log=tmp_path / "new.log", **tiered(remote_cluster.remote)) as broker:
        assert client.offset(broker, "t", 0, -2) == 0
        assert client.consume(broker, "t") == remote_cluster.rows
        assert client.produce(broker, "t", 0, 1)[0]["offset"] == remote_cluster.rows[-1]["offset"] + 1
    assert before <= {path for path in remote_cluster.remote.rglob("*") if path.is_file()}


def test_a_fork_of_a_tiered_cluster_has_what_was_on_its_disk(client, tmp_path, remote_cluster):
    """Even with the same remote storage: it deletes nothing there."""
    rescued = bl.rescue(remote_cluster.data, output=tmp_path / "fork", cluster_id="laptop")
    assert rescued.left == []
    before = {path: path.read_bytes() for path in remote_cluster.remote.rglob("*") if path.is_file()}
    with Broker(tmp_path / "fork", log=tmp_path / "fork.log", **tiered(remote_cluster.remote)) as broker:
        local = [row for row in remote_cluster.rows if row["offset"] >= remote_cluster.start]
        assert client.consume(broker, "t") == local
        assert client.produce(broker, "t", 0, 1)[0]["offset"] == remote_cluster.rows[-1]["offset"] + 1
    after = {path: path.read_bytes() for path in remote_cluster.remote.rglob("*") if path.is_file()}
    assert before.items() <= after.items()


def decided_and_marked(data):
    """Return when a coordinator decided on each transaction, and when its markers were written."""
    states = bl.transactions(data, history=True).to_pylist()
    decided = sorted(row["coordinator_time"] for row in states if row["state"] == "PrepareCommit")
    markers = sorted(
        marker["max_timestamp"]
        for log in bl.LogDirs(data).logs(["t", "__consumer_offsets"])
        for headers in log.scan()
        for marker in headers.filter(headers["is_control"]).to_pylist()
    )
    times = [round(one.timestamp() * 1000) for one in decided]
    each = [[one for one in markers if begin <= one < end] for begin, end in pairwise([*times, 1 << 62])]
    return list(zip(times, each, strict=True))


def transact(client, broker, number):
    """Commit a transaction over all partitions of a topic and a group; return the last offset of each partition."""
    return client.state(
        broker,
        "transaction",
        id=f"id-{number % 4}",
        end="commit",
        records=[{"topic": "t", "partition": partition, "count": 1 + number % 2} for partition in range(3)],
        group="g",
        offsets=[{"topic": "t", "partition": 0, "offset": number}],
        anew=False,
        properties={},
    )


def test_what_is_cut_at_a_time_has_each_transaction_whole(client, tmp_path):
    """Between the decision and the last marker, in all partitions, in the group and at the coordinator."""
    few = {"offsets_topic_num_partitions": 5, "transaction_state_log_num_partitions": 3}
    rows, count = [], 40
    with Broker(tmp_path / "data", log=tmp_path / "log", **few) as broker:
        client.create(broker, "t", 3, [1])
        for number in range(count):
            (last,) = transact(client, broker, number)
            rows.append({(int(name[2:]), offset - i) for name, offset in last.items() for i in range(1 + number % 2)})
    found = decided_and_marked(tmp_path / "data")
    assert len(found) == count
    # Behind the decision, before the first marker; and between the markers.
    moments = [decided + 1 for decided, markers in found if decided < markers[0]][3:][:2]
    moments += [markers[-1] for _, markers in found if markers[0] < markers[-1]][3:][:2]
    assert moments
    for at, moment in enumerate(moments):
        new = tmp_path / f"new-{at}"
        rescued = bl.rescue(tmp_path / "data", output=new, as_of=moment)
        assert rescued.left == []
        assert any("now committed, because this had been decided by then" in note for note in map(str, rescued.notes))
        with Broker(new, log=tmp_path / f"log-{at}", **few) as broker:
            seen = {(row["partition"], row["offset"]) for row in client.consume(broker, "t", "read_committed")}
            (group,) = client.state(broker, "groupOffsets", groups=["g"])
            assert transact(client, broker, count)
        whole = [number for number in range(count) if rows[number] <= seen]
        assert whole == list(range(sum(decided < moment for decided, _ in found)))
        assert seen == set().union(*(rows[number] for number in whole))
        assert group["offset"] == whole[-1]


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_the_replica_that_was_in_sync_is_taken_also_if_it_has_fewer_records(client, tmp_path, version):
    """Its leader deleted records, or wrote on, after the other replica had left: what is behind comes back never."""
    disks = {node: tmp_path / str(node) for node in (1, 2)}
    nodes = {1: Broker(disks[1], log=tmp_path / "1.log", node_id=1, version=version, **REPLICATED)}
    nodes[2] = Broker(disks[2], log=tmp_path / "2.log", node_id=2, joins=nodes[1], version=version, **REPLICATED)
    topics = ("emptied", "trimmed", "longer")
    try:
        for topic in topics:
            client.create(nodes[1], topic, replicas=[1, 2], min_insync_replicas=1, internal_segment_bytes=2_000)
            client.produce(nodes[1], topic, 0, 50)
            until(lambda topic=topic: sorted(client.topics(nodes[1])[topic]["isr"][0]) == [1, 2])
        nodes[2].stop()
        until(lambda: all(client.topics(nodes[1])[topic]["isr"][0] == [1] for topic in topics))
        client.delete_records(nodes[1], "emptied", 0, 50)
        client.delete_records(nodes[1], "trimmed", 0, 30)
        client.produce(nodes[1], "longer", 0, 20)
        consumed = {topic: client.consume(nodes[1], topic) for topic in topics}
        assert [len(consumed[topic]) for topic in topics] == [0, 20, 70]
        nodes[1].stop()
    finally:
        for broker in nodes.values():
            broker.kill()
    for order in ((1, 2), (2, 1)):
        to = tmp_path / f"new-{order[0]}"
        result = bl.rescue(*(disks[node] for node in order), output=to)
        assert result.ranges == []
        with Broker(to, log=tmp_path / f"new-{order[0]}.log", node_id=1, version=version, **AFTER_A_KILL) as broker:
            assert {topic: client.consume(broker, topic) for topic in topics} == consumed
            starts = [client.offset(broker, topic, 0, -2) for topic in topics]
            assert starts == [50, 30, 0]
            assert client.produce(broker, "emptied", 0, 1)[0]["offset"] == 50


def test_a_broker_that_started_with_a_new_metadata_log_gave_up_all_partitions(client, tmp_path):
    """It renamed them `-stray`: a rescue makes partitions of them again, with all records and commits.

    Where the old metadata log is found again, `check` says which directories need their names back, and a broker serves
    them.
    """
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "log") as broker:
        client.create(broker, "orders", 3)
        for partition in range(3):
            client.produce(broker, "orders", partition, 20)
        client.commit(broker, "half", "orders", 0, 5)
        rows, committed = client.consume(broker, "orders"), groups(client, broker)
    shutil.move(data / "__cluster_metadata-0", tmp_path / "old")
    ids = (data / "meta.properties").read_bytes()
    (data / "bootstrap.checkpoint").unlink(missing_ok=True)
    with Broker(tmp_path / "blank", log=tmp_path / "log"):
        pass
    shutil.copytree(tmp_path / "blank/__cluster_metadata-0", data / "__cluster_metadata-0")
    shutil.copy(tmp_path / "blank/meta.properties", data)
    with Broker(data, log=tmp_path / "log") as broker:
        until(lambda: "orders" not in client.topics(broker) and list(data.glob("orders-2.*-stray")))
    codes = [one.code for one in bl.check(data) if one.topic == "orders"]
    assert codes == ["stray"] * 3
    rescued = bl.rescue(data, output=tmp_path / "new")
    assert rescued.topics["orders"] == 3
    assert any("topic orders is in no metadata" in doubt for doubt in map(str, rescued.doubts))
    with Broker(tmp_path / "new", log=tmp_path / "log") as broker:
        assert client.consume(broker, "orders") == rows
        assert groups(client, broker) == committed
    shutil.rmtree(data / "__cluster_metadata-0")
    shutil.move(tmp_path / "old", data / "__cluster_metadata-0")
    (data / "meta.properties").write_bytes(ids)
    lost = [one.message for one in bl.check(data) if one.code == "partition-lost"]
    assert len(lost) == len(list(data.glob("*-stray"))) > 3
    for stray in data.glob("*-stray"):
        assert any(f"{stray}: {STRAY_CURE}" in message for message in lost)
        stray.rename(data / stray.name.partition(".")[0])
    assert "partition-lost" not in {one.code for one in bl.check(data)}
    with Broker(data, log=tmp_path / "log") as broker:
        assert client.consume(broker, "orders") == rows
        assert groups(client, broker) == committed
