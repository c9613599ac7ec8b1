"""A cluster's metadata as tables: those of a real broker at several points, and each kind of record."""

import json
import shutil

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.metadata.bootstrap import snapshot_records
from brokerless.metadata.image import SCHEMAS, MetadataImage
from brokerless.metadata.records import topic_record
from brokerless.metadata.schema import finite
from brokerless.state.cluster import ClusterState
from support.damage import overwrite

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


@pytest.fixture
def broker(golden):
    return golden / "logs/kafka-4.1"


def after(*records, **options):
    image = MetadataImage(**options)
    for name, value in records:
        image.replay(name, value)
    return image


def rows(image, subject):
    return image.table(subject).to_pylist()


def test_metadata_of_a_broker(broker):
    state = bl.cluster(broker)
    assert (state.offset, state.topics.num_rows, state.partitions.num_rows) == (666, 39, 44)
    topics = {row["topic"]: row for row in state.topics.to_pylist()}
    assert topics["multi-partition"]["partitions"] == 4
    for log in bl.LogDirs(broker).logs():
        if log.topic != "__cluster_metadata":
            assert topics[log.topic]["topic_id"] == log.topic_id
    (row,) = state.brokers.to_pylist()
    assert (row["broker_id"], row["is_fenced"], row["in_controlled_shutdown"]) == (1, True, True)
    assert row["endpoints"][0]["security_protocol"] == "PLAINTEXT"
    assert {row["feature"]: row["level"] for row in state.features.to_pylist()} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 27,
        "transaction.version": 2,
    }
    assert [(row["voter_id"], row["is_leader"]) for row in state.voters.to_pylist()] == [(1, True)]
    configs = {(row["resource"], row["name"]): row["value"] for row in state.configs.to_pylist()}
    assert configs["retention-all", "retention.ms"] == "1000"
    # Stopped: every partition is without leader, and its epochs counted all changes.
    assert set(state.partitions["leader"].to_pylist()) == {-1}


def test_each_offset_and_time_gives_what_was_there(broker):
    """The topics grow one by one, and a time gives what its last offset gives."""
    seen = 0
    for offset in range(0, 667, 37):
        state = bl.cluster(broker, as_of_offset=offset)
        assert state.offset <= offset
        assert state.topics.num_rows >= seen
        seen = state.topics.num_rows
        if state.time is not None:
            same = bl.cluster(broker, as_of=state.time)
            assert same.offset >= state.offset
            assert same.time == state.time
    assert seen == 39


def test_a_snapshot_gives_what_the_log_gives(broker, tmp_path):
    """The records before the snapshot need not be there any more."""
    copy = tmp_path / "copy"
    shutil.copytree(broker, copy, ignore=lambda path, names: [] if path == str(broker) else names)
    shutil.rmtree(copy / "__cluster_metadata-0")
    shutil.copytree(broker / "__cluster_metadata-0", copy / "__cluster_metadata-0")
    whole = bl.cluster(copy)
    values = []
    for values_of in bl.Log(copy / "__cluster_metadata-0").read(end_offset=400, columns=["value"]):
        values += values_of["value"].to_pylist()
    snapshot = copy / "__cluster_metadata-0" / f"{400:020d}-{2:010d}.checkpoint"
    snapshot.write_bytes(with_header(_native.kraft_snapshot(values, 1_795_210_060_000), 1_795_210_060_000))
    assert snapshot_records(snapshot.read_bytes()) == values
    again = bl.cluster(copy)
    assert again.diff(whole).num_rows == 0
    assert bl.cluster(copy, as_of_offset=300).diff(bl.cluster(broker, as_of_offset=300)).num_rows == 0


def with_header(content, time):
    """A snapshot whose header says when its last record was written."""
    from support.log_files import batch

    key = b"\0\0" + (3).to_bytes(2)
    value = b"\0\0" + time.to_bytes(8) + b"\0"
    return batch(0, [value], keys=[key], control=True) + content


def test_a_damaged_log_is_known_up_to_the_damage(broker, copied):
    directory = copied("kafka-4.1", "__cluster_metadata-0")
    position = next(bl.Log(directory).scan())["position"][40].as_py()
    overwrite(directory / f"{0:020d}.log", position + 70, b"\xff")
    with pytest.warns(UserWarning, match="read up to the damage at .* A broker truncates the metadata log"):
        state = bl.cluster(directory.parent)
    assert 0 < state.offset < 666
    assert state.topics.num_rows < 39


def with_log_from(broker, tmp_path, base):
    """A copy of the metadata log that begins at an offset, with a snapshot of what was before."""
    directory = tmp_path / "cut" / "__cluster_metadata-0"
    values, batches = [], []
    log = bl.Log(broker / "__cluster_metadata-0")
    for found in log.read(end_offset=base, columns=["value"]):
        values += found["value"].to_pylist()
    content = (broker / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    for headers in log.scan():
        for position, size, offset in zip(
            *(headers[name].to_pylist() for name in ("position", "size", "base_offset")), strict=True
        ):
            if offset >= base:
                batches.append(content[position : position + size])
    directory.mkdir(parents=True)
    (directory / f"{base:020d}.log").write_bytes(b"".join(batches))
    shutil.copy(broker / "meta.properties", tmp_path / "cut")
    time = 1_795_210_060_000
    snapshot = with_header(_native.kraft_snapshot(values, time), time)
    (directory / f"{base:020d}-{2:010d}.checkpoint").write_bytes(snapshot)
    return tmp_path / "cut"


def test_a_point_before_the_start_of_the_log_is_refused(broker, tmp_path):
    """And is not answered from a later snapshot."""
    base = next(
        offset
        for headers in bl.Log(broker / "__cluster_metadata-0").scan()
        for offset in headers["base_offset"].to_pylist()
        if offset >= 400
    )
    cut = with_log_from(broker, tmp_path, base)
    assert bl.cluster(cut).diff(bl.cluster(broker)).num_rows == 0
    assert bl.cluster(cut, as_of_offset=base + 50).diff(bl.cluster(broker, as_of_offset=base + 50)).num_rows == 0
    with pytest.raises(ValueError, match=f"begins at offset {base}, and has no snapshot up to offset 100"):
        bl.cluster(cut, as_of_offset=100)
    # A snapshot beyond the end of the log counts: a broker cuts the log back to it.
    for path in (cut / "__cluster_metadata-0").glob("*.log"):
        path.unlink()
    assert bl.cluster(cut).diff(bl.cluster(broker, as_of_offset=base)).num_rows <= 1


@pytest.mark.parametrize("place", [8, 16, 70])
def test_damage_leaves_what_comes_before_it(broker, copied, place):
    """A broken length, an unknown magic or a broken record, at the end or at a time."""
    directory = copied("kafka-4.1", "__cluster_metadata-0")
    headers = next(bl.Log(directory).scan())
    position, offset = (headers[name][40].as_py() for name in ("position", "base_offset"))
    overwrite(directory / f"{0:020d}.log", position + place, b"\xff\xff")
    expected = bl.cluster(broker, as_of_offset=offset)
    for at in (None, expected.time + 1):
        with pytest.warns(UserWarning, match="read up to the damage"):
            state = bl.cluster(directory.parent, as_of=at)
        assert (state.offset, state.diff(expected).num_rows) == (expected.offset, 0)


def test_a_directory_without_metadata_is_refused(tmp_path, golden):
    with pytest.raises(ValueError, match=r"no __cluster_metadata-0 in .*ZooKeeper has none"):
        bl.cluster(golden / "logs/kafka-2.8-mixed")
    with pytest.raises(ValueError, match="both give a point: give one"):
        bl.cluster(tmp_path, as_of=0, as_of_offset=0)


def test_a_cluster_that_has_not_started(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        directory.create_topic("t", partitions=2, retention_ms=5)
    state = bl.cluster(tmp_path / "d")
    assert state.offset is None
    assert state.partitions.select(["topic", "partition", "replicas"]).num_rows == 2
    assert state.configs.to_pylist()[0]["value"] == "5"
    assert "metadata.version" in state.features["feature"].to_pylist()


def test_users_and_sensitive_settings_are_hidden_unless_asked_for():
    records = [
        (
            "UserScramCredentialRecord",
            {"name": "u", "mechanism": 1, "salt": "c2E=", "storedKey": "a2s=", "serverKey": "c2s=", "iterations": 4096},
        ),
        ("ConfigRecord", {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "secret"}),
        ("ConfigRecord", {"resourceType": 4, "resourceName": "1", "name": "log.retention.ms", "value": "1"}),
        (
            "ConfigRecord",
            {
                "resourceType": 4,
                "resourceName": "",
                "name": "listener.name.x.scram-sha-256.sasl.jaas.config",
                "value": "secret",
            },
        ),
    ]
    hidden = after(*records)
    assert "secret" not in json.dumps([rows(hidden, subject) for subject in ("users", "configs")])
    assert rows(hidden, "users")[0] == {
        "user": "u",
        "mechanism": "SCRAM-SHA-256",
        "iterations": 4096,
        "salt": None,
        "stored_key": None,
        "server_key": None,
    }
    assert [row["is_sensitive"] for row in rows(hidden, "configs")] == [True, False, True]
    for name in ("delegation.token.secret.key", "rsm.config.s3.secret.access.key", "my.plugin.setting"):
        config = {"resourceType": 4, "resourceName": "1", "name": name, "value": "secret"}
        assert rows(after(("ConfigRecord", config)), "configs")[0]["value"] is None
    for name in (
        "log.retention.ms",
        "listener.name.x.max.connections",
        "auto.create.topics.enable",
        "min.insync.replicas",
    ):
        config = {"resourceType": 4, "resourceName": "", "name": name, "value": "1"}
        assert rows(after(("ConfigRecord", config)), "configs")[0]["value"] == "1"
    shown = after(*records, secrets=True)
    assert rows(shown, "users")[0]["stored_key"] == "a2s="
    assert [row["value"] for row in rows(shown, "configs")] == ["secret", "1", "secret"]
    assert rows(after(*records, ("RemoveUserScramCredentialRecord", {"name": "u", "mechanism": 1})), "users") == []


def test_partitions_change_as_in_kafka():
    """`PartitionRegistration.merge`: a new leader, also the same one again, is a new leader epoch."""
    created = {
        "partitionId": 0,
        "topicId": TOPIC_ID,
        "leader": 1,
        "leaderEpoch": 4,
        "partitionEpoch": 7,
        "replicas": [1, 2],
        "isr": [1, 2],
        "addingReplicas": [],
        "removingReplicas": [],
    }
    place = {"partitionId": 0, "topicId": TOPIC_ID}
    start = [("TopicRecord", {"name": "t", "topicId": TOPIC_ID}), ("PartitionRecord", created)]

    def changed(*changes):
        image = after(*start, *(("PartitionChangeRecord", {**place, **change}) for change in changes))
        (row,) = rows(image, "partitions")
        return [row[name] for name in ("leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr")]

    assert changed() == [1, 4, 7, [1, 2], [1, 2], []]
    assert changed({"isr": [2], "leader": 2}) == [2, 5, 8, [1, 2], [2], []]
    assert changed({"leader": 1}) == [1, 5, 8, [1, 2], [1, 2], []]
    assert changed({"isr": [], "leader": -1, "eligibleLeaderReplicas": [1]}) == [-1, 5, 8, [1, 2], [], [1]]
    assert changed({"replicas": [3, 1, 2], "addingReplicas": [3]}) == [1, 4, 8, [3, 1, 2], [1, 2], []]
    cleared = ("ClearElrRecord", {"topicName": "t"})
    image = after(*start, ("PartitionChangeRecord", {**place, "eligibleLeaderReplicas": [1]}), cleared)
    assert rows(image, "partitions")[0]["elr"] == []


def test_a_removed_topic_takes_its_settings_along():
    config = {"resourceType": 2, "resourceName": "t", "name": "retention.ms", "value": "1"}
    records = [("TopicRecord", {"name": "t", "topicId": TOPIC_ID}), ("ConfigRecord", config)]
    image = after(*records, ("RemoveTopicRecord", {"topicId": TOPIC_ID}))
    assert [rows(image, subject) for subject in ("topics", "configs")] == [[], []]
    image = after(*records, ("ConfigRecord", {**config, "value": None}))
    assert rows(image, "configs") == []


def test_access_rights_quotas_and_tokens():
    acl = {
        "id": "A",
        "resourceType": 2,
        "resourceName": "t",
        "patternType": 4,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    quota = {"entity": [{"entityType": "user", "entityName": None}], "key": "producer_byte_rate", "value": 1024.0}
    token = {
        "owner": "User:a",
        "requester": "User:b",
        "renewers": [],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expirationTimestamp": 2,
        "tokenId": "T",
    }
    image = after(
        ("AccessControlEntryRecord", acl),
        ("ClientQuotaRecord", {**quota, "remove": False}),
        ("DelegationTokenRecord", token),
    )
    (found,) = rows(image, "acls")
    assert (found["resource_type"], found["pattern_type"], found["operation"], found["permission"]) == (
        *("TOPIC", "PREFIXED", "READ"),
        "ALLOW",
    )
    assert rows(image, "quotas") == [
        {"entity": [{"type": "user", "name": None}], "name": "producer_byte_rate", "value": 1024.0}
    ]
    assert rows(image, "tokens")[0]["owner"] == "User:a"
    image.replay("RemoveAccessControlEntryRecord", {"id": "A"})
    image.replay("ClientQuotaRecord", {**quota, "remove": True})
    image.replay("RemoveDelegationTokenRecord", {"tokenId": "T"})
    assert [rows(image, subject) for subject in ("acls", "quotas", "tokens")] == [[], [], []]


@pytest.mark.parametrize("end", ["EndTransactionRecord", "AbortTransactionRecord", None])
def test_a_metadata_transaction_counts_when_it_ends(end):
    topic = ("TopicRecord", {"name": "t", "topicId": TOPIC_ID})
    records = [("BeginTransactionRecord", {"name": "x"}), topic, *([(end, {})] if end else [])]
    assert len(rows(after(*records), "topics")) == (end == "EndTransactionRecord")


def test_every_subject_is_empty_without_records():
    for subject, schema in SCHEMAS.items():
        assert MetadataImage().table(subject) == pa.Table.from_pylist([], schema)
    with pytest.raises(ValueError, match="unknown subject 'nothing': there are brokers, "):
        ClusterState("", MetadataImage()).table("nothing")


def test_a_change_of_a_secret_is_told_without_the_secret():
    user = {"name": "u", "mechanism": 1, "salt": "c2E=", "storedKey": "a2s=", "serverKey": "c2s=", "iterations": 4096}
    config = {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "old"}
    before = after(("UserScramCredentialRecord", user), ("ConfigRecord", config))
    later = after(("UserScramCredentialRecord", {**user, "salt": "bmV3"}), ("ConfigRecord", {**config, "value": "new"}))
    changes = ClusterState("", before).diff(ClusterState("", later)).to_pylist()
    assert [(row["column"], row["before"], row["after"]) for row in changes] == [
        ("value", None, None),
        ("salt", None, None),
    ]


def test_a_change_shows_the_value_that_was_added_or_removed():
    acl = {
        "id": "A",
        "resourceType": 2,
        "resourceName": "orders",
        "patternType": 3,
        "principal": "User:ann",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    config = {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "1"}
    secret = {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "x"}
    named = [("AccessControlEntryRecord", acl), ("ConfigRecord", config), ("ConfigRecord", secret)]
    nothing, something = ClusterState("", after()), ClusterState("", after(*named))
    columns = ("subject", "key", "change", "column", "before", "after")
    assert [tuple(row[name] for name in columns) for row in nothing.diff(something).to_pylist()] == [
        ("configs", "broker 1 ssl.key.password", "added", "value", None, None),
        ("configs", "topic orders retention.ms", "added", "value", None, '"1"'),
        ("acls", "User:ann ALLOW READ TOPIC LITERAL orders *", "added", None, None, None),
    ]
    removed = something.diff(nothing).to_pylist()
    assert [(row["change"], row["before"]) for row in removed] == [
        ("removed", None),
        ("removed", '"1"'),
        ("removed", None),
    ]
    # The same rights in another cluster have another id.
    other = ClusterState("", after(("AccessControlEntryRecord", {**acl, "id": "B"}), *named[1:]))
    assert something.diff(other).num_rows == 0


def test_odd_records_do_not_break_a_table():
    entity = [{"entityType": "user", "entityName": None}, {"entityType": "user", "entityName": "a"}]
    quota = {"entity": entity, "key": "request_percentage", "value": "Infinity", "remove": False}
    assert rows(after(("ClientQuotaRecord", quota)), "quotas")[0]["value"] == float("inf")
    created = {
        "partitionId": 0,
        "topicId": TOPIC_ID,
        "leader": 1,
        "leaderEpoch": 2**31 - 1,
        "partitionEpoch": 2**31 - 1,
        "replicas": [1],
        "isr": [1],
        "addingReplicas": [],
        "removingReplicas": [],
    }
    changed = {"partitionId": 0, "topicId": TOPIC_ID, "leader": 1}
    records = [("TopicRecord", {"name": "t", "topicId": TOPIC_ID}), ("PartitionRecord", created)]
    (row,) = rows(after(*records, ("PartitionChangeRecord", changed)), "partitions")
    assert (row["leader_epoch"], row["partition_epoch"]) == (-(2**31), -(2**31))


def test_what_changed_between_two_points(broker):
    changes = bl.cluster(broker, as_of_offset=30).diff(bl.cluster(broker)).to_pylist()
    added = [row["key"] for row in changes if (row["subject"], row["change"]) == ("topics", "added")]
    assert "retention-all" in added
    epochs = [row for row in changes if (row["subject"], row["column"]) == ("brokers", "epoch")]
    assert [row["after"] for row in epochs] == ["544"]
    back = bl.cluster(broker).diff(bl.cluster(broker, as_of_offset=30)).to_pylist()
    assert added == [row["key"] for row in back if (row["subject"], row["change"]) == ("topics", "removed")]
    assert bl.cluster(broker).diff(bl.cluster(broker)).num_rows == 0


def quota_of(value):
    entity = [{"entityType": "user", "entityName": "u"}]
    return after(("ClientQuotaRecord", {"entity": entity, "key": "k", "value": value, "remove": False}))


def test_quotas_without_a_json_number_are_text_in_json():
    """And NaN, which equals nothing, is no change."""
    states = {name: ClusterState("", quota_of(name)) for name in ("Infinity", "-Infinity", "NaN")}
    (change,) = states["Infinity"].diff(states["-Infinity"]).to_pylist()
    assert [json.loads(change[side], parse_constant=pytest.fail) for side in ("before", "after")] == [
        "Infinity",
        "-Infinity",
    ]
    assert states["NaN"].diff(ClusterState("", quota_of("NaN"))).num_rows == 0
    assert [finite(state.quotas["value"][0].as_py()) for state in states.values()] == list(states)


def test_clearing_the_replicas_of_one_topic_leaves_the_others():
    """A topic of the same name that was created again is another one."""
    records = []
    for name, topic_id in (("a", "1"), ("b", "2"), ("a", "3")):
        if topic_id == "3":
            records.append(("RemoveTopicRecord", {"topicId": "1"}))
        records.append(("TopicRecord", {"name": name, "topicId": topic_id}))
        partition = {"topicId": topic_id, "partitionId": 0, "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
        partition |= {"replicas": [1], "isr": [1], "addingReplicas": [], "removingReplicas": []}
        records.append(("PartitionRecord", {**partition, "eligibleLeaderReplicas": [2], "lastKnownElr": [3]}))

    def elr(*cleared):
        image = after(*records, *(("ClearElrRecord", {"topicName": name}) for name in cleared))
        return {row["topic"]: row["elr"] for row in rows(image, "partitions")}

    assert elr("a") == {"a": [], "b": [2]}
    assert elr("gone") == {"a": [2], "b": [2]}
    assert elr("") == {"a": [], "b": []}


@pytest.mark.parametrize("size", [0, 90, -10])
def test_damage_in_a_snapshot_names_its_file(broker, tmp_path, run, size):
    copy = tmp_path / "copy"
    shutil.copytree(broker, copy)
    content = with_header(_native.kraft_snapshot([topic_record("t", "AAECAwQFBgcICQoLDA0ODw")] * 9, 1), 1)
    snapshot = copy / "__cluster_metadata-0" / f"{400:020d}-{2:010d}.checkpoint"
    snapshot.write_bytes(content[:size] if size else b"")
    with pytest.raises(CorruptRecordError) as raised:
        bl.cluster(copy)
    assert raised.value.path == str(snapshot)
    # A controller replays the records before the cut.
    code = "metadata-cut" if size else "metadata-damaged"
    (finding,) = [one for one in bl.check(copy, level="quick") if one.code == code]
    assert finding.path == str(snapshot)
    assert f"{snapshot}" in run("cluster", "topics", copy).err
