"""The tables of groups, commits, transactions and producers, against what a broker said of them before it stopped."""

import json
import re
import shutil
from collections import Counter
from types import SimpleNamespace

import pytest
from kafka import DEFAULT, NEWEST, again
from state_workload import OLD, Cluster, Said, described, start

import brokerless as bl

# Of a consumer group without a member that asks for an assignor, the broker names its own default.
DEFAULT_ASSIGNOR = "uniform"
# Commits in transactions that were aborted, or are open.
NOT_COMMITTED = {("undone", 9), ("exact", 12), ("pending", 9)}
# Groups that no longer have an offset. A coordinator keeps such a group in memory until it cleans up, and releases
# differ in whether they list it after a start.
WITHOUT_OFFSETS = {"bare", "undone"}
# TransactionState, by the number that a record has.
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


@pytest.fixture(
    scope="module",
    params=[(NEWEST, "stopped"), (NEWEST, "killed"), again((DEFAULT, "stopped")), (OLD, "stopped")],
    ids="-".join,
)
def seen(request, client, tmp_path_factory):
    """A log directory whose broker was stopped or killed amid its clients.

    Attributes:
        data: the directory. Never to be written to.
        cluster: what was done.
        moments: what the broker said at moments of the work; the last is the end.
        restarted: what a broker said that was started on a copy of the directory.
    """
    release, how = request.param
    root = tmp_path_factory.mktemp("state")
    data, copy = root / "data", root / "copy"
    try:
        with start(copy, root / "broker.1", release) as broker:
            cluster = Cluster(client, broker, release)
            cluster.work()
            if how == "killed":
                broker.kill()
    finally:
        # Without a broker they would be busy for ever.
        client.state(None, "dropAll")
    shutil.copytree(copy, data)
    with start(copy, root / "broker.2", release) as broker:
        restarted = cluster.say_after_start(broker)
    return SimpleNamespace(
        data=data, cluster=cluster, moments=cluster.moments, restarted=restarted, is_killed=how == "killed"
    )


def differing(ours, said):
    """Return what differs, by key: ours, and what Kafka says."""
    return {key: (ours.get(key), said.get(key)) for key in ours | said if ours.get(key) != said.get(key)}


def ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def assigned(partitions):
    return sorted((one["topic"], partition) for one in partitions or () for partition in one["partitions"])


def our_groups(table):
    """Return our groups in the form of `said_groups`."""
    found = {}
    for row in table.to_pylist():
        is_classic = row["type"] == "classic"
        protocol = row["protocol"]
        if row["type"] == "consumer":
            protocol = protocol or DEFAULT_ASSIGNOR
        found[row["group"]] = {
            "type": row["type"],
            "state": row["state"],
            "protocol_type": row["protocol_type"],
            "protocol": protocol,
            "epochs": None if is_classic else (row["epoch"], row["assignment_epoch"]),
            "members": sorted(
                (
                    member["member_id"],
                    member["instance_id"],
                    member["client_id"],
                    member["client_host"],
                    None if is_classic else member["epoch"],
                    assigned(member["assignment"]),
                )
                for member in row["members"]
            ),
        }
    return found


def said_groups(said: Said):
    return {
        group: {
            "type": (row["type"] or "classic").lower(),
            "state": row["state"],
            "protocol_type": row["protocolType"] or None,
            "protocol": row.get("protocol") or None,
            "epochs": (row["epoch"], row["assignmentEpoch"]) if "epoch" in row else None,
            "members": sorted(
                (
                    member["id"],
                    member.get("instance"),
                    member["clientId"],
                    member["host"],
                    member["epoch"],
                    sorted(map(tuple, member["assignment"])),
                )
                for member in row["members"]
            ),
        }
        for group, row in said.groups.items()
    }


def differing_groups(table, said: Said):
    """Return the groups that differ: ours, and what Kafka says.

    Left out are groups without offsets.
    """
    found = differing(our_groups(table), said_groups(said))
    left_out = WITHOUT_OFFSETS - {row["group"] for row in said.offsets}
    return {group: rows for group, rows in found.items() if group not in left_out}


def our_offsets(reader):
    return offsets(reader.read_all().to_pylist(), ("leader_epoch", "metadata"))


def said_offsets(said: Said):
    return offsets(said.offsets, ("leaderEpoch", "metadata"))


def offsets(rows, names):
    return {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["lag"], *(row[name] for name in names))
        for row in rows
    }


def our_transactions(table):
    return {
        row["transactional_id"]: (
            row["producer_id"],
            row["producer_epoch"],
            row["state"],
            row["timeout_ms"],
            ms(row["started"]),
            sorted((one["topic"], one["partition"]) for one in row["partitions"]),
        )
        for row in table.to_pylist()
        if row["transactional_id"] is not None
    }


def said_transactions(said: Said):
    return {
        name: (
            row["producerId"],
            row["epoch"],
            row["state"],
            row["timeout"],
            row["started"],
            sorted(map(tuple, row["assignment"])),
        )
        for name, row in said.transactions.items()
    }


def our_producers(*paths):
    return Counter(
        (
            row["topic"],
            row["partition"],
            row["producer_id"],
            row["producer_epoch"],
            -1 if row["last_sequence"] is None else row["last_sequence"],
            ms(row["last_time"]),
            row["coordinator_epoch"],
            row["transaction_start_offset"],
        )
        for row in bl.producers(*paths).to_pylist()
    )


def said_producers(said: Said):
    return Counter(
        (
            row["topic"],
            row["partition"],
            row["producerId"],
            row["epoch"],
            row["sequence"],
            row["timestamp"],
            row["coordinatorEpoch"],
            row["start"],
        )
        for row in said.producers
    )


def dumped(client, data, topic, decoder):
    """Yield partition, offset, time, key and value of each record, as Kafka's dump tool decodes them."""
    for log in bl.LogDirs(data).logs([topic]):
        paths = sorted((data / log.name).glob("*.log"))
        said = client.dump_log(paths, "--print-data-log", decoder)
        pattern = r"^\| offset: (\d+) \w+: (\d+) .* key: (\{.*\}) payload: (\{.*\}|<DELETE>)$"
        for offset, time, key, text in re.findall(pattern, said, re.MULTILINE):
            value = None if text == "<DELETE>" else json.loads(text)["data"]
            yield log.partition, int(offset), int(time), json.loads(key), value


def committed_records(client, data):
    """Yield coordinator partition, offset, time, key and value of each commit that counts, from Kafka's dump tool."""
    for partition, offset, time, key, value in dumped(client, data, "__consumer_offsets", "--offsets-decoder"):
        if key["type"] not in ("0", "1"):
            continue
        if value is None or (key["data"]["group"], value["offset"]) not in NOT_COMMITTED:
            yield partition, offset, time, key["data"], value


def test_no_group_differs_from_what_its_coordinator_said(seen):
    assert differing_groups(bl.groups(seen.data), seen.moments[-1]) == {}


def test_no_group_differs_from_what_its_coordinator_says_after_a_start(seen):
    assert differing_groups(bl.groups(seen.data), seen.restarted) == {}


def test_no_group_differs_at_a_past_time(seen):
    for said in seen.moments:
        assert differing_groups(bl.groups(seen.data, as_of=said.at), said) == {}


def test_no_leader_or_generation_of_a_classic_group_is_lost(seen, client):
    """They are not in what an admin client gets, but in the record."""
    latest = {}
    for partition, _, time, key, value in dumped(client, seen.data, "__consumer_offsets", "--offsets-decoder"):
        if key["type"] == "2":
            latest[key["data"]["group"]] = (partition, time, value)
    expected = {
        group: (value["leader"], value["generation"], value["protocolType"], value["protocol"], partition, time)
        for group, (partition, time, value) in latest.items()
        if value is not None
    }
    found = {
        row["group"]: (
            row["leader"],
            row["epoch"],
            row["protocol_type"],
            row["protocol"],
            row["coordinator_partition"],
            ms(row["updated"]),
        )
        for row in bl.groups(seen.data).to_pylist()
        if row["type"] == "classic" and row["epoch"] is not None
    }
    assert len(found) >= 4
    assert found == expected


def test_no_member_lacks_a_topic_that_it_subscribed_to(seen):
    found = {
        member["client_id"]: member["topics"]
        for row in bl.groups(seen.data).to_pylist()
        for member in row["members"]
        if member["client_id"] != "raw"
    }
    assert found == {member: sorted(seen.cluster.topics[member]) for member in found}
    assert len(found) == (3 if seen.cluster.is_old else 14)


def test_no_current_offset_or_lag_differs_from_what_the_broker_said(seen):
    for said in (seen.moments[-1], seen.restarted):
        assert differing(our_offsets(bl.commits(seen.data, history=False)), said_offsets(said)) == {}


def test_no_offset_or_lag_differs_at_a_past_time(seen):
    """From Kafka's own tool, which prints no leader epoch, and from the admin client."""
    assert len(seen.moments) >= 4
    for said in seen.moments:
        expected = said_offsets(said)
        found = our_offsets(bl.commits(seen.data, as_of=said.at, history=False))
        assert differing(found, expected) == {}
        described = {key: (offset, offset + lag, lag) for key, (offset, lag, *_) in expected.items()}
        assert differing(described, said.described) == {}


def test_no_commit_is_missing_from_the_history_or_has_another_lag(seen):
    """In the order in which the groups made them, with the end of the log at that time."""

    def by_key(rows):
        return sorted(rows, key=lambda row: row[:3])

    rows = bl.commits(seen.data).read_all().to_pylist()
    found = [
        (row["group"], row["topic"], row["partition"], row["offset"], row["lag_then"])
        for row in rows
        if not row["is_removed"]
    ]
    made = seen.cluster.commits
    assert by_key(found) == by_key((*commit[:4], commit.end - commit.offset) for commit in made)
    removed = [(row["group"], row["topic"], row["partition"]) for row in rows if row["is_removed"]]
    assert sorted(removed) == sorted(seen.cluster.removed)


def test_only_commits_behind_the_one_before_go_back_also_if_that_was_removed(seen):
    before = {}
    expected = []
    for group, topic, partition, offset, _ in seen.cluster.commits:
        # Also where the commit before was removed meanwhile.
        previous = before.get((group, topic, partition))
        before[group, topic, partition] = offset
        if previous is not None and offset < previous:
            expected.append((group, topic, partition, previous, offset))
    columns = ("group", "topic", "partition", "previous_offset", "offset")
    rows = bl.commits(seen.data).read_all().to_pylist()
    assert sorted(tuple(row[name] for name in columns) for row in rows if row["is_back"]) == sorted(expected)


def test_no_commit_differs_from_its_record(seen, client):
    """Every field of every record, as Kafka's dump tool decodes it."""
    found = [
        (
            row["coordinator_partition"],
            row["coordinator_offset"],
            ms(row["coordinator_time"]),
            (row["group"], row["topic"], row["partition"]),
            None
            if row["is_removed"]
            else (
                row["offset"],
                -1 if row["leader_epoch"] is None else row["leader_epoch"],
                row["metadata"],
                ms(row["commit_time"]),
                -1 if row["expire_time"] is None else ms(row["expire_time"]),
            ),
        )
        for row in bl.commits(seen.data).read_all().to_pylist()
    ]
    expected = [
        (
            partition,
            offset,
            time,
            (key["group"], key["topic"], key["partition"]),
            value
            and (
                value["offset"],
                value.get("leaderEpoch", -1),
                value["metadata"],
                value["commitTimestamp"],
                value.get("expireTimestamp", -1),
            ),
        )
        for partition, offset, time, key, value in committed_records(client, seen.data)
    ]
    assert len(found) >= 10
    assert sorted(found) == sorted(expected)
    if seen.cluster.is_old:
        assert [row[4][4] for row in found if row[3][0] == "retained"] != [-1]


def test_no_transaction_differs_from_what_its_coordinator_said(seen):
    if seen.cluster.is_old:
        pytest.skip("this release does not say")
    ours = our_transactions(bl.transactions(seen.data))
    assert differing(ours, said_transactions(seen.moments[-1])) == {}
    assert differing(ours, said_transactions(seen.restarted)) == {}


def test_no_transaction_differs_at_a_past_time(seen):
    if seen.cluster.is_old:
        pytest.skip("this release does not say")
    for said in seen.moments:
        assert differing(our_transactions(bl.transactions(seen.data, as_of=said.at)), said_transactions(said)) == {}


def test_no_transaction_differs_from_its_record(seen, client):
    records = dumped(client, seen.data, "__transaction_state", "--transaction-log-decoder")
    expected = {key["data"]["transactionalId"]: (partition, value) for partition, _, _, key, value in records}
    rows = {row["transactional_id"]: row for row in bl.transactions(seen.data).to_pylist()}
    rows.pop(None)
    assert rows.keys() == expected.keys() == {"committed", "aborted", "fenced", "idle", "open", "late", "raced"}
    for name, (partition, value) in expected.items():
        row = rows[name]
        assert row["coordinator_partition"] == partition
        assert (row["producer_id"], row["producer_epoch"]) == (value["producerId"], value["producerEpoch"])
        assert row["timeout_ms"] == value["transactionTimeoutMs"]
        assert row["state"] == STATES[value["transactionStatus"]]
        assert ms(row["updated"]) == value["transactionLastUpdateTimestampMs"]
        started = value["transactionStartTimestampMs"]
        assert ms(row["started"]) == (None if started < 0 else started)
        partitions = [
            (one["topic"], number) for one in value["transactionPartitions"] or () for number in one["partitionIds"]
        ]
        assert sorted((one["topic"], one["partition"]) for one in row["partitions"]) == sorted(partitions)


def test_no_open_transaction_is_missing_or_taken_to_hang(seen):
    """Open: those of which the leaders know; hanging: those that Kafka's own tool finds."""
    rows = bl.transactions(seen.data).to_pylist()
    opened = [(row, one) for row in rows for one in row["open"]]
    said = [row for row in seen.moments[-1].producers if row["start"] is not None]
    assert sorted(
        (
            one["topic"],
            one["partition"],
            row["producer_id"],
            one["producer_epoch"],
            one["first_offset"],
            ms(one["last_time"]),
        )
        for row, one in opened
    ) == sorted(
        (row["topic"], row["partition"], row["producerId"], row["epoch"], row["start"], row["timestamp"])
        for row in said
    )
    hanging = {(one["topic"], one["partition"], row["producer_id"]) for row, one in opened if one["is_hanging"]}
    assert [partition for _, partition, _ in sorted(hanging)] == [1, 2, 2]
    assert {row["transactional_id"] for row in rows if row["is_hanging"]} == {"committed", "open", None}
    for answer in (seen.moments[-1], seen.restarted):
        assert answer.hanging in (hanging, None)


def test_no_producer_differs_from_what_the_leader_said(seen):
    ours = our_producers(seen.data)
    assert differing(ours, said_producers(seen.moments[-1])) == {}
    assert differing(ours, said_producers(seen.restarted)) == {}


def test_no_last_offset_of_a_producer_differs_from_the_brokers_snapshot(seen, client):
    """The snapshots that a clean shutdown leaves, as Kafka's dump tool prints them."""
    if seen.is_killed:
        pytest.skip("a killed broker writes no snapshots")
    pattern = r"^producerId: (\d+) (?:.*lastSequence: (-?\d+) lastOffset: (-?\d+) )?"
    checked = 0
    for log in bl.LogDirs(seen.data).logs(["orders", "payments", "__consumer_offsets"]):
        snapshots = sorted((seen.data / log.name).glob("*.snapshot"))
        said = client.dump_log(snapshots[-1:]) if snapshots else ""
        expected = {tuple(int(number or -1) for number in row) for row in re.findall(pattern, said, re.MULTILINE)}
        rows = bl.producers(seen.data, topics=[log.topic], partitions=[log.partition]).to_pylist()
        columns = ("producer_id", "last_sequence", "last_offset")
        found = {tuple(-1 if row[name] is None else row[name] for name in columns) for row in rows}
        assert found == expected
        checked += len(found)
    assert checked >= 15


@pytest.mark.parametrize("release", [NEWEST, again(OLD)])
def test_no_lag_of_a_commit_outside_of_its_log_differs_from_what_kafkas_tool_says(client, tmp_path, release):
    """Beyond the end it is negative; below the start it counts records that were deleted. A consumer resets at both."""
    data = tmp_path / "data"
    with start(data, tmp_path / "broker.log", release) as broker:
        client.create(broker, "orders", 2)
        for partition in (0, 1):
            client.produce(broker, "orders", partition, 30)
        places = {
            "first": (0, 4),
            "start": (0, 10),
            "end": (0, 30),
            "beyond": (1, 400),
            "next": (1, 31),
            "last": (1, 30),
        }
        for group, (partition, offset) in places.items():
            offsets = [{"topic": "orders", "partition": partition, "offset": offset}]
            client.state(broker, "alterOffsets", group=group, offsets=offsets)
        client.delete_records(broker, "orders", 0, 10)
        (tool,) = client.state(broker, "consumerGroupTool", arguments=["--describe", "--all-groups", "--offsets"])
    said = described(tool["said"])
    rows = bl.commits(data, history=False).read_all().to_pylist()
    found = {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["offset"] + row["lag"], row["lag"])
        for row in rows
    }
    assert found == said
    assert {group: lag for (group, _, _), (_, _, lag) in said.items()} == {
        "first": 26,
        "start": 20,
        "end": 0,
        "beyond": -370,
        "next": -1,
        "last": 0,
    }
    assert {row["group"] for row in rows if row["is_out_of_range"]} == {"first", "beyond", "next"}
    assert {row["log_start_offset"] for row in rows if row["partition"] == 0} == {10}
