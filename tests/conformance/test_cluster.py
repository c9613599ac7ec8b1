"""The metadata of a cluster, against what its controller said while it ran."""

import re
import time
from types import SimpleNamespace

import pytest
from kafka import AFTER_A_KILL, EACH_RELEASE, NEWEST, Broker

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
# Kafka's command-line tools, and what they are asked.
CONFIG_TOOL = ("kafka.admin.ConfigCommand", "--describe", "--entity-type")
TOOLS = {
    "features": [("org.apache.kafka.tools.FeatureCommand", "describe")],
    "voters": [
        ("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status"),
        ("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--replication"),
    ],
    "acls": [("org.apache.kafka.tools.AclCommand", "--list")],
    "topics": [("org.apache.kafka.tools.TopicCommand", "--describe")],
    "configs": [(*CONFIG_TOOL, "topics"), (*CONFIG_TOOL, "brokers"), (*CONFIG_TOOL, "brokers", "--entity-default")],
    "all configs": [(*CONFIG_TOOL, "topics", "--entity-name", "orders", "--all")],
    "users": [
        (*CONFIG_TOOL, "users"),
        (*CONFIG_TOOL, "clients"),
        (*CONFIG_TOOL, "users", "--entity-type", "clients"),
        (*CONFIG_TOOL, "ips"),
    ],
}


@pytest.fixture(scope="module", params=EACH_RELEASE)
def seen(request, tmp_path_factory, client):
    """A stopped broker.

    Attributes:
        data: its directory.
        moments: times, and what it said then.
        tools: for each moment, what Kafka's tools printed, by what they were asked for.
        standalone: whether the voters of the metadata log are in that log, and not in the broker's properties.
    """
    path = tmp_path_factory.mktemp("cluster")
    data, moments, tools = path / "data", [], []
    standalone = request.param == NEWEST
    options = {"version": request.param, "standalone": standalone, **AUTHORIZER, **AFTER_A_KILL}
    with Broker(data, log=path / "log", **options) as broker:

        def ask():
            time.sleep(0.5)
            moments.append((int(time.time() * 1000), client.state(broker, "metadata")))
            tools.append({about: "".join(print_of(*tool) for tool in each) for about, each in TOOLS.items()})
            time.sleep(0.5)

        def print_of(main, *arguments):
            return client.state(broker, "tool", main=main, arguments=arguments)[0]["said"]

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
    return SimpleNamespace(data=data, moments=moments, tools=tools, standalone=standalone)


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
    for at, rows in seen.moments:
        theirs = said(rows, subject)
        state = bl.cluster(seen.data, as_of=at, secrets=subject == "configs")
        found = ours(state, subject, theirs)
        if subject == "configs":
            # Kafka answers no value of a sensitive setting.
            found = [{**row, "value": None if row["is_sensitive"] else row["value"]} for row in found]
        if subject == "features" and not seen.standalone:
            # That of the Raft layer is no record of the metadata where voters are configured.
            theirs = [row for row in theirs if row["feature"] != "kraft.version"]
        columns = list(theirs[0]) if theirs else []
        assert in_order([{name: row[name] for name in columns} for row in found]) == in_order(theirs)


def printed(seen, about):
    """Yield the state of each moment, and what the tools printed of a subject then."""
    for (at, _), tools in zip(seen.moments, seen.tools, strict=True):
        yield bl.cluster(seen.data, as_of=at, secrets=True), tools[about]


def test_no_feature_differs_from_what_the_tool_prints(seen):
    for state, text in printed(seen, "features"):
        rows = re.findall(r"^Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", text, re.MULTILINE)
        assert len(rows) >= 5
        # It prints a release for metadata.version, which it does not know of a newer broker.
        expected = {name: int(level) for name, level in rows if name != "metadata.version" and level != "0"}
        found = dict(zip(*(state.features[name].to_pylist() for name in ("feature", "level")), strict=True))
        del found["metadata.version"]
        assert found == expected


def test_no_voter_differs_from_what_the_tool_prints(seen):
    for state, text in printed(seen, "voters"):
        (voter,) = state.voters.to_pylist()
        (leader,) = re.findall(r"^LeaderId: +(\d+)$", text, re.MULTILINE)
        ((node, directory),) = re.findall(r"^(\d+)\s+(\S{22})\s.*\sLeader\s*$", text, re.MULTILINE)
        assert (voter["voter_id"], voter["is_leader"]) == (int(node), leader == node)
        endpoints = re.findall(r'CurrentVoters: .*"endpoints": \["([A-Z]+)://(\S+):(\d+)"\]', text)
        assert len(endpoints) == 1
        # Those of voters that are configured are in no log.
        expected = (None, None)
        if seen.standalone:
            ((name, host, port),) = endpoints
            expected = (directory, [{"name": name, "host": host, "port": int(port), "security_protocol": None}])
        assert (voter["directory_id"], voter["endpoints"]) == expected


def test_no_acl_differs_from_what_the_tool_prints(seen):
    columns = ("resource_type", "resource", "pattern_type", "principal", "host", "operation", "permission")
    counts = []
    for state, text in printed(seen, "acls"):
        expected = []
        for kind, name, pattern, entries in re.findall(
            r"resourceType=(\w+), name=(\S+), patternType=(\w+)\)`:((?:\s*\(.*\))*)", text
        ):
            pattern_of_entry = r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)"
            expected += [(kind, name, pattern, *entry) for entry in re.findall(pattern_of_entry, entries)]
        assert sorted(tuple(row[name] for name in columns) for row in state.acls.to_pylist()) == sorted(expected)
        counts.append(len(expected))
    assert counts == [0, 6, 5]


def test_no_topic_or_partition_differs_from_what_the_tool_prints(seen):
    for state, text in printed(seen, "topics"):
        lines = [dict(re.findall(r"(\w+): ?([^\t\n]*)", line)) for line in text.splitlines() if line]
        assert sorted(
            (row["topic"], row["topic_id"], str(row["partitions"]), str(row["replication_factor"]))
            for row in state.topics.to_pylist()
        ) == sorted(
            (line["Topic"], line["TopicId"], line["PartitionCount"], line["ReplicationFactor"])
            for line in lines
            if "TopicId" in line
        )
        columns = {"Replicas": "replicas", "Isr": "isr", "Elr": "elr", "LastKnownElr": "last_known_elr"}
        assert sorted(
            (
                row["topic"],
                *(str(row[name]) for name in ("partition", "leader")),
                *(",".join(map(str, row[column])) for column in columns.values()),
            )
            for row in state.partitions.to_pylist()
        ) == sorted(
            tuple(line[name].strip() for name in ("Topic", "Partition", "Leader", *columns))
            for line in lines
            if "Leader" in line
        )


# The words with which the tool names a resource, and the source of what was set on it.
RESOURCES = {
    "topic": ("topic", "DYNAMIC_TOPIC_CONFIG"),
    "broker": ("broker", "DYNAMIC_BROKER_CONFIG"),
    "brokers in the cluster": ("broker", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
}


def printed_configs(text):
    """Return the settings of the resources themselves: type, name, setting, value, and whether it is sensitive."""
    found, resource = set(), None
    for line in text.splitlines():
        head = re.match(
            r"(?:Dynamic|All|Default) configs for (topic|brokers in the cluster|broker)(?: (\S+))? are:", line
        )
        if head:
            kind, source = RESOURCES[head[1]]
            resource = (kind, head[2] or "")
            continue
        name, value, is_sensitive, synonyms = re.match(
            r"  (\S+?)=(.*) sensitive=(\w+) synonyms=\{(.*)\}", line
        ).groups()
        if synonyms.startswith(source):
            found.add((*resource, name, None if is_sensitive == "true" else value, is_sensitive == "true"))
    return found


def test_no_config_differs_from_what_the_tool_prints(seen):
    for state, text in printed(seen, "configs"):
        found = {
            (*row[:3], None if row[4] else row[3], row[4])
            for row in map(tuple, (row.values() for row in state.configs.to_pylist()))
        }
        assert found == printed_configs(text)
    for state, text in printed(seen, "all configs"):
        of_topic = {tuple(row.values()) for row in state.configs.to_pylist() if row["resource"] == "orders"}
        assert of_topic == printed_configs(text)


def test_no_user_or_quota_differs_from_what_the_tool_prints(seen):
    parts = {"user-principal": "user", "client-id": "client-id", "ip": "ip"}
    for number, (state, text) in enumerate(printed(seen, "users")):
        users, quotas = set(), set()
        for kind, who, values in re.findall(
            r"^(Quota|SCRAM credential) configs for (.*) are (.*)$", text, re.MULTILINE
        ):
            entity = frozenset(
                (parts[part], name or None)
                for part, name in re.findall(r"(user-principal|client-id|ip)(?: '([^']*)')?", who)
            )
            for value in values.split(", "):
                name, _, number_of = value.partition("=")
                if kind == "Quota":
                    quotas.add((entity, name, float(number_of)))
                else:
                    ((_, user),) = entity
                    users.add((user, name, number_of))
        assert quotas == {
            (frozenset((part["type"], part["name"]) for part in row["entity"]), row["name"], row["value"])
            for row in state.quotas.to_pylist()
        }
        assert users == {
            (row["user"], row["mechanism"], f"iterations={row['iterations']}") for row in state.users.to_pylist()
        }
        assert (len(users), len(quotas)) == ((0, 0), (3, 4), (2, 3))[number]


def test_secrets_are_not_shown(seen):
    shown = bl.cluster(seen.data)
    assert "secret" not in str(shown.configs.to_pylist())
    assert set(shown.users["stored_key"].to_pylist()) == {None}
    assert None not in bl.cluster(seen.data, secrets=True).users["stored_key"].to_pylist()


def test_what_changed_between_the_moments(seen):
    before, after = (bl.cluster(seen.data, as_of=at) for at, _ in seen.moments[1:])
    changes = {(row["subject"], row["key"], row["change"]) for row in before.diff(after).to_pylist()}
    assert {
        ("topics", "gone", "removed"),
        ("partitions", "orders 2", "added"),
        ("users", "bob SCRAM-SHA-256", "removed"),
        ("configs", "topic orders cleanup.policy", "removed"),
    } <= changes
    assert len([key for subject, key, change in changes if (subject, change) == ("acls", "removed")]) == 1
