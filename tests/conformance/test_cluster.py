"""The metadata of a cluster, against what its controller said while it ran."""

import time

import pytest
from kafka import AFTER_A_KILL, RELEASES, Broker

import brokerless as bl

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
ACLS = [
    {
        "resource_type": "TOPIC",
        "resource": resource,
        "pattern_type": pattern,
        "principal": "User:ann",
        "host": "*",
        "operation": operation,
        "permission": permission,
    }
    for resource, pattern, operation, permission in (
        ("orders", "LITERAL", "READ", "ALLOW"),
        ("pay", "PREFIXED", "DESCRIBE_CONFIGS", "DENY"),
        ("gone", "LITERAL", "ALL", "ALLOW"),
    )
] + [
    {
        "resource_type": kind,
        "resource": resource,
        "pattern_type": "LITERAL",
        "principal": "User:bob",
        "host": "10.0.0.1",
        "operation": operation,
        "permission": "ALLOW",
    }
    for kind, resource, operation in (
        ("GROUP", "g", "DELETE"),
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE"),
        ("TRANSACTIONAL_ID", "tx", "WRITE"),
    )
]
QUOTAS = [
    {"entity": {"user": "ann"}, "name": "producer_byte_rate", "value": 1024.0},
    {"entity": {"user": None, "client-id": "app"}, "name": "request_percentage", "value": 12.5},
    {"entity": {"ip": "10.0.0.1"}, "name": "connection_creation_rate", "value": 3.0},
    {"entity": {"user": "bob"}, "name": "consumer_byte_rate", "value": 5.0},
]
CONFIGS = [
    {"type": "TOPIC", "resource": "orders", "name": "retention.ms", "value": "123456"},
    {"type": "TOPIC", "resource": "orders", "name": "cleanup.policy", "value": "compact"},
    {"type": "BROKER", "resource": "1", "name": "log.cleaner.threads", "value": "2"},
    {"type": "BROKER", "resource": "", "name": "log.retention.ms", "value": "777777"},
    {"type": "BROKER", "resource": "1", "name": "listener.name.plaintext.ssl.keystore.password", "value": "secret"},
]
SUBJECTS = ("acls", "quotas", "users", "features", "topics", "partitions", "configs", "voters")


@pytest.fixture(scope="module", params=RELEASES)
def seen(request, tmp_path_factory, client):
    """A stopped broker's directory, and what it said at several moments."""
    path = tmp_path_factory.mktemp("cluster")
    data, moments = path / "data", []
    with Broker(data, log=path / "log", version=request.param, **AUTHORIZER, **AFTER_A_KILL) as broker:

        def ask():
            time.sleep(0.5)
            moments.append((int(time.time() * 1000), client.state(broker, "metadata")))
            time.sleep(0.5)

        client.create(broker, "orders", 2)
        client.create(broker, "gone", 1, retention_ms="1")
        ask()
        client.state(broker, "changeMetadata", acls=ACLS, quotas=QUOTAS, configs=CONFIGS)
        users = [("ann", "SCRAM-SHA-256", 4096), ("ann", "SCRAM-SHA-512", 8192), ("bob", "SCRAM-SHA-256", 5000)]
        for user, mechanism, iterations in users:
            given = {"user": user, "mechanism": mechanism, "iterations": iterations}
            client.state(broker, "changeMetadata", users=[given])
        ask()
        client.state(
            broker,
            "changeMetadata",
            removedAcls=ACLS[2:3],
            quotas=[{**QUOTAS[3], "value": None}],
            configs=[{**CONFIGS[1], "value": None}],
            users=[{"user": "bob", "mechanism": "SCRAM-SHA-256"}],
            partitions={"orders": 3},
            deletedTopics=["gone"],
        )
        ask()
    return data, moments


def said(rows, subject):
    return [
        {name: value for name, value in row.items() if name != "subject"} for row in rows if row["subject"] == subject
    ]


def ours(state, subject, theirs):
    """Our rows of a subject, with the columns that Kafka's answer has."""
    rows = state.table(subject).to_pylist()
    if subject == "quotas":
        rows = [{**row, "entity": {part["type"]: part["name"] for part in row["entity"]}} for row in rows]
    names = {name for row in theirs for name in row}
    return [{name: value for name, value in row.items() if name in names} for row in rows]


def in_order(rows):
    return sorted(rows, key=repr)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_subject_differs_at_any_moment(seen, subject):
    data, moments = seen
    for at, rows in moments:
        theirs = said(rows, subject)
        state = bl.cluster(data, at=at, secrets=subject == "configs")
        found = ours(state, subject, theirs)
        if subject == "configs":
            # Kafka answers no value of a sensitive setting.
            found = [{**row, "value": None if row["is_sensitive"] else row["value"]} for row in found]
        if subject == "features":
            # That of the Raft layer is no record of the metadata where voters are configured.
            theirs = [row for row in theirs if row["feature"] != "kraft.version"]
        columns = list(theirs[0]) if theirs else []
        assert in_order([{name: row[name] for name in columns} for row in found]) == in_order(theirs)


def test_secrets_are_not_shown(seen):
    data, _ = seen
    shown = bl.cluster(data)
    assert "secret" not in str(shown.configs.to_pylist())
    assert set(shown.users["stored_key"].to_pylist()) == {None}
    assert None not in bl.cluster(data, secrets=True).users["stored_key"].to_pylist()


def test_what_changed_between_the_moments(seen):
    data, moments = seen
    before, after = (bl.cluster(data, at=at) for at, _ in moments[1:])
    changes = {(row["subject"], row["key"], row["change"]) for row in before.diff(after).to_pylist()}
    assert {
        ("topics", "gone", "removed"),
        ("partitions", "orders 2", "added"),
        ("users", "bob SCRAM-SHA-256", "removed"),
        ("configs", "topic orders cleanup.policy", "removed"),
    } <= changes
    assert len([key for subject, key, change in changes if (subject, change) == ("acls", "removed")]) == 1
