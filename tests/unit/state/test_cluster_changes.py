"""The changes that operators made to a cluster: each with its time, newest first, without the churn of leaders."""

import brokerless as bl
from brokerless.metadata.records import metadata_record as record
from brokerless.metadata.records import partition_record
from brokerless.state.cluster_changes import changes_in
from support.damage import cut
from support.log_files import NOW, batch, write_segment

ORDERS, OTHER = "AAECAwQFBgcICQoLDA0ODw", "AQECAwQFBgcICQoLDA0ODw"
USER = {"name": "ann", "mechanism": 1, "salt": "c2E=", "storedKey": "a2s=", "serverKey": "c2s=", "iterations": 4096}


def config(value, name="retention.ms", resource="orders", kind=2):
    return record("ConfigRecord", resourceType=kind, resourceName=resource, name=name, value=value)


def topic(name, topic_id, partitions):
    places = [partition_record(at, topic_id, [1], 0, ["A" * 22]) for at in range(partitions)]
    return [record("TopicRecord", name=name, topicId=topic_id), *places]


def metadata(tmp_path, *batches):
    """A metadata log with a batch of records for each second."""
    offset, written = 0, []
    for second, records in enumerate(batches):
        written.append(batch(offset, records, timestamp=NOW + second * 1000, step=0))
        offset += len(records)
    path = write_segment(tmp_path / "__cluster_metadata-0", 0, written)
    (log,) = bl.LogDirs(path.parent).logs()
    return log


def found(log, *columns, **options):
    columns = columns or ("subject", "key", "change", "column", "before", "after")
    return [tuple(row[name] for name in columns) for row in changes_in(log, **options).table.to_pylist()]


def test_each_change_has_its_time_and_offset_newest_first(tmp_path):
    log = metadata(tmp_path, topic("orders", ORDERS, 1), [config("1")], [config("2")], [config(None)])
    assert found(log) == [
        ("configs", "topic orders retention.ms", "removed", "value", '"2"', None),
        ("configs", "topic orders retention.ms", "changed", "value", '"1"', '"2"'),
        ("configs", "topic orders retention.ms", "added", "value", None, '"1"'),
        ("topics", "orders", "added", "partitions", None, "1"),
    ]
    times = changes_in(log).table["time"].cast("int64").to_pylist()
    assert [(time - NOW) // 1000 for time in times] == [3, 2, 1, 0]
    assert [offset for (offset,) in found(log, "offset")] == [4, 3, 2, 0]


def test_partitions_of_a_new_topic_are_one_change_and_later_ones_another(tmp_path):
    more = [partition_record(at, ORDERS, [1], 0, ["A" * 22]) for at in (3, 4)]
    log = metadata(tmp_path, topic("orders", ORDERS, 3), more, [record("RemoveTopicRecord", topicId=ORDERS)])
    assert found(log, "key", "change", "before", "after") == [
        ("orders", "removed", "5", None),
        ("orders", "changed", "3", "5"),
        ("orders", "added", None, "3"),
    ]


def test_leaders_and_settings_that_stay_are_no_changes(tmp_path):
    moved = record("PartitionChangeRecord", partitionId=0, topicId=ORDERS, leader=2, isr=[2])
    log = metadata(tmp_path, topic("orders", ORDERS, 1), [config("1")], [moved], [record("NoOpRecord")], [config("1")])
    assert len(found(log)) == 2


def test_a_new_password_is_one_change_without_the_password(tmp_path):
    users = [[record("UserScramCredentialRecord", **USER)]]
    users.append([record("UserScramCredentialRecord", **{**USER, "salt": "bmV3", "storedKey": "bmV3"})])
    secret = [config(value, "ssl.key.password", "1", 4) for value in ("old", "new")]
    log = metadata(tmp_path, *users, secret[:1], secret[1:])
    assert found(log) == [
        ("configs", "broker 1 ssl.key.password", "changed", "value", None, None),
        ("configs", "broker 1 ssl.key.password", "added", "value", None, None),
        ("users", "ann SCRAM-SHA-256", "changed", "password", None, None),
        ("users", "ann SCRAM-SHA-256", "added", "iterations", None, "4096"),
    ]


def test_an_aborted_transaction_of_the_controller_changes_nothing(tmp_path):
    begin, end = record("BeginTransactionRecord", name="x"), record("AbortTransactionRecord", reason="y")
    assert found(metadata(tmp_path, [begin, *topic("orders", ORDERS, 1), end])) == []


def test_only_the_newest_changes_are_kept_and_the_others_counted(tmp_path):
    log = metadata(tmp_path, *([config(str(at))] for at in range(10)))
    changes = changes_in(log, most=3)
    assert (changes.table["after"].to_pylist(), changes.earlier) == (['"9"', '"8"', '"7"'], 7)


def test_a_choice_of_topics_shows_their_changes_only(tmp_path):
    both = [*topic("orders", ORDERS, 1), *topic("other", OTHER, 1)]
    user = [record("UserScramCredentialRecord", **USER)]
    log = metadata(tmp_path, both, [config("1")], [config("1", resource="other")], user)
    assert [key for (key,) in found(log, "key", topics=["orders"])] == ["topic orders retention.ms", "orders"]


def test_changes_end_at_damage(tmp_path):
    log = metadata(tmp_path, [config("1")], [config("2")])
    segment = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    cut(segment, segment.stat().st_size - 5)
    (log,) = bl.LogDirs(tmp_path / "__cluster_metadata-0").logs()
    assert [after for (after,) in found(log, "after")] == ['"1"']


def test_the_changes_of_a_broker_add_up_to_the_difference_of_its_ends(golden):
    path = golden / "logs/kafka-4.1"
    (log,) = bl.LogDirs(path).logs(["__cluster_metadata"])
    whole = bl.cluster(path, as_of_offset=0).diff(bl.cluster(path)).to_pylist()
    added = {(row["subject"], row["key"]) for row in whole if row["subject"] in ("topics", "configs", "acls", "users")}
    mine = {(subject, key) for subject, key in found(log, "subject", "key") if subject != "features"}
    assert added
    assert added <= mine
