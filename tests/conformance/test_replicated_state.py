"""The tables of a cluster of two brokers that stopped one after the other, against what they said at both moments."""

import re
import time
from types import SimpleNamespace

import pytest
from kafka import AFTER_A_KILL, DEFAULT, Broker
from state_workload import NEW_SETTINGS, SETTINGS, Cluster
from test_cluster import AUTHORIZER, in_order, ours, said
from test_state import (
    DEFAULT_ASSIGNOR,
    differing,
    differing_groups,
    ms,
    our_offsets,
    our_producers,
    our_transactions,
    said_offsets,
    said_producers,
    said_transactions,
)

import brokerless as bl
from support.polling import until

REPLICATED = {
    **SETTINGS,
    **NEW_SETTINGS,
    **AUTHORIZER,
    "offsets_topic_replication_factor": 2,
    "transaction_state_log_replication_factor": 2,
}
# Longer than any test: neither broker is taken out of sync before it ends.
PATIENT = {"broker_session_timeout_ms": 3_600_000, "replica_lag_time_max_ms": 3_600_000}


class Pair(Cluster):
    """A cluster of two brokers: at first both run, then the first one alone."""

    def work(self):
        """Give both something to know."""
        # A leader each.
        for topic, replicas in (("orders", [1, 2]), ("payments", [2, 1])):
            self._client.create(self._broker, topic, 3, replicas)
            for partition in range(3):
                self._client.produce(self._broker, topic, partition, 30 + partition)
        self._join("pair-1", "pair")
        self._join("new-1", "new", "consumer")
        self._wait_for({"pair": ["pair-1"], "new": ["new-1"]})
        self._commit("pair", 0, 10, "pair-1", metadata="first")
        for group in ("scripted", "deleted", "partial"):
            self._commit(group, 0, 7)
            self._commit(group, 1, 31)
        self._transact("committed", "commit", 0, 1, group="exact", offset=9)
        self._transact("aborted", "abort", 0, 1)
        self._transact("open", "open", 0, 2, group="pending", offset=9)
        self._take_moment(still_open=3)

    def go_on(self):
        """Change all that, as the replicas of one broker do not learn."""
        self._client.produce(self._broker, "orders", 0, 20)
        self._client.produce(self._broker, "payments", 1, 20)
        self._join("pair-2", "pair")
        self._join("new-2", "new", "consumer")
        self._wait_for({"pair": ["pair-1", "pair-2"], "new": ["new-1", "new-2"]})
        self._commit("pair", 0, 45, "pair-1")
        self._commit("scripted", 0, 2)
        self._commit("later", 2, 20)
        self._do("deleteGroup", group="deleted")
        self._do("deleteOffsets", group="partial", topic="orders", partition=1)
        self._transact("open", "commit")
        self._transact("committed", "abort", 0, 1)
        self._transact("later", "open", 1)
        self._client.create(self._broker, "new", 1, [1])
        self._take_moment(still_open=1)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def seen(request, client, tmp_path_factory):
    """The directories of both brokers.

    Attributes:
        first: that of the broker that stopped last, and led all then.
        second: that of the one that stopped, or was killed, at the first moment.
        moments: what the brokers said while both served, and then the first.
        metadata: times of these moments, and what the controller said.
        tools: what Kafka's tools printed last.
    """
    root = tmp_path_factory.mktemp("pair")
    metadata = []
    times = AFTER_A_KILL if request.param == "killed" else PATIENT
    first = Broker(root / "first", log=root / "first.log", **REPLICATED, **times)
    second = None
    cluster = Pair(client, first, DEFAULT)

    def ask_controller():
        time.sleep(0.5)
        metadata.append((int(time.time() * 1000), client.state(first, "metadata")))
        time.sleep(0.5)

    def print_of(do, *arguments):
        return client.state(first, do, arguments=arguments)[0]["said"]

    def where(topic, partition):
        return "--topic", topic, "--partition", str(partition)

    try:
        second = Broker(root / "second", log=root / "second.log", node_id=2, joins=first, **REPLICATED, **times)
        cluster.work()
        ask_controller()
        if request.param == "killed":
            second.kill()
        else:
            second.stop()
        until(lambda: {leader for topic in client.topics(first).values() for leader in topic["leaders"]} == {1})
        cluster.go_on()
        ask_controller()
        tools = {
            "groups": print_of("consumerGroupTool", "--describe", "--all-groups", "--state"),
            "members": print_of("consumerGroupTool", "--describe", "--all-groups", "--members", "--verbose"),
            "transactions": print_of("transactionsTool", "list"),
            "described": [
                print_of("transactionsTool", "describe", "--transactional-id", name)
                for name in ("committed", "aborted", "open", "later")
            ],
            "producers": {
                (topic, partition): print_of("transactionsTool", "describe-producers", *where(topic, partition))
                for topic in ("orders", "payments")
                for partition in range(3)
            },
        }
        first.stop()
    finally:
        first.kill()
        if second:
            second.kill()
        client.state(None, "dropAll")
    return SimpleNamespace(
        first=root / "first", second=root / "second", moments=cluster.moments, metadata=metadata, tools=tools
    )


def check(said, *paths):
    """Compare all tables of directories with what brokers said."""
    assert differing_groups(bl.groups(*paths), said) == {}
    assert differing(our_offsets(bl.commits(*paths, history=False)), said_offsets(said)) == {}
    assert differing(our_transactions(bl.transactions(*paths)), said_transactions(said)) == {}
    assert differing(our_producers(*paths), said_producers(said)) == {}


def test_nothing_of_both_directories_differs_from_what_was_said_last(seen):
    last = seen.moments[-1]
    for paths in ((seen.first, seen.second), (seen.second, seen.first), (seen.first,)):
        check(last, *paths)


def test_nothing_of_the_directory_that_stopped_earlier_differs_from_what_was_said_then(seen):
    before, after = seen.moments
    check(before, seen.second)
    # The test would see it if it were the other moment.
    assert differing_groups(bl.groups(seen.second), after) != {}
    assert differing(said_transactions(before), said_transactions(after)) != {}


def test_no_metadata_differ(seen):
    """Both have them: of the earlier moment also the directory that stopped then."""
    before, after = seen.metadata
    both = (seen.first, seen.second), (seen.second, seen.first)
    for (at, rows), paths in [(after, each) for each in both] + [(before, each) for each in (*both, (seen.second,))]:
        state = bl.cluster(*paths, as_of=at)
        for subject in ("topics", "partitions", "configs", "features", "voters"):
            theirs = [row for row in said(rows, subject) if row.get("feature") != "kraft.version"]
            assert in_order(ours(state, subject, theirs)) == in_order(theirs)
    assert "new" not in bl.cluster(seen.second).topics["topic"].to_pylist()


def table(text, columns):
    """Return the rows that a tool printed, without the heads of the tables: those of this many columns or one less."""
    rows = [tuple(cell.strip() for cell in re.split(r"\s*\t\s*|\s+(?=\S)", line.strip())) for line in text.splitlines()]
    return sorted(row for row in rows if len(row) in (columns - 1, columns) and row[0] not in HEADS)


HEADS = {"GROUP", "TransactionalId", "CoordinatorId", "ProducerId"}


def test_no_group_or_member_differs_from_what_the_tool_prints(seen):
    groups, members = [], []
    for row in bl.groups(seen.first, seen.second).to_pylist():
        protocol = row["protocol"] or ("-" if row["type"] == "classic" else DEFAULT_ASSIGNOR)
        groups.append((row["group"], protocol, row["state"], str(len(row["members"]))))
        for member in row["members"]:
            (owned,) = member["assignment"]
            epoch = "-" if row["type"] == "classic" else str(member["epoch"])
            shown = f"{owned['topic']}:{','.join(map(str, owned['partitions']))}"
            named = (row["group"], member["member_id"], member["client_host"], member["client_id"])
            # Nothing is revoked: the target is what each has.
            target = ("-", "-") if row["type"] == "classic" else (epoch, shown)
            members.append((*named, str(len(owned["partitions"])), epoch, shown, *target))
    pattern = r"^(\S+)\s+\S+:\d+\s+\(1\)\s+(\S+)\s+(\w+)\s+(\d+)\s*$"
    assert sorted(groups) == sorted(re.findall(pattern, seen.tools["groups"], re.MULTILINE))
    assert sorted(members) == table(seen.tools["members"], 9)
    assert len(members) == 4


def test_no_transaction_differs_from_what_the_tool_prints(seen):
    rows = bl.transactions(seen.first, seen.second).to_pylist()
    listed = [(row["transactional_id"], "1", str(row["producer_id"]), row["state"]) for row in rows]
    assert sorted(listed) == table(seen.tools["transactions"], 4)
    described = {row[1]: row for row in table("".join(seen.tools["described"]), 9)}
    assert described.keys() == {row["transactional_id"] for row in rows}
    for row in rows:
        # All but how long it took
        numbers = ("producer_id", "producer_epoch", "timeout_ms")
        producer, epoch, timeout = (str(row[name]) for name in numbers)
        expected = (producer, epoch, row["state"], timeout, str(ms(row["started"])))
        partitions = ",".join(f"{one['topic']}-{one['partition']}" for one in row["partitions"])
        found = described[row["transactional_id"]]
        assert found[2:7] == expected
        assert found[8:] == ((partitions,) if partitions else ())


def test_no_producer_differs_from_what_the_tool_prints(seen):
    checked = 0
    for (topic, partition), text in seen.tools["producers"].items():
        rows = bl.producers(seen.first, seen.second, topics=[topic], partitions=[partition]).to_pylist()
        found = [
            (
                str(row["producer_id"]),
                str(row["producer_epoch"]),
                *(str(-1 if row[name] is None else row[name]) for name in ("coordinator_epoch", "last_sequence")),
                str(ms(row["last_time"])),
                "None" if row["transaction_start_offset"] is None else str(row["transaction_start_offset"]),
            )
            for row in rows
        ]
        assert sorted(found) == table(text, 6)
        checked += len(found)
    assert checked >= 8
