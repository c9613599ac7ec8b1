"""A cluster with groups of all types and with transactions in all states, and what its broker says of them.

`test_state.py` compares our tables of the log directory with that.
"""

import re
import time
from typing import Any, NamedTuple

from kafka import AFTER_A_KILL, NEWEST, Broker, OldBroker

from support.polling import until

OLD = "2.8.2"
# Nobody is thrown out, and no transaction times out, however slow the machine is. Nothing is compacted.
SETTINGS: dict[str, Any] = {
    "log_cleaner_enable": "false",
    "group_initial_rebalance_delay_ms": 0,
    "group_max_session_timeout_ms": 1_800_000,
    "transaction_partition_verification_enable": "false",
}
NEW_SETTINGS = {
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_coordinator_rebalance_protocols": "classic,consumer,share,streams",
    "share_coordinator_state_topic_num_partitions": 1,
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
    **{
        f"group_{kind}_{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in {
            "session_timeout_ms": 600_000,
            "max_session_timeout_ms": 600_000,
            "heartbeat_interval_ms": 300,
            "min_heartbeat_interval_ms": 200,
        }.items()
    },
}
LONG = {"transaction.timeout.ms": 900_000}
RANGE = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"}
PATTERN = "(ord|pay).*"
# The producer id of a transaction that no coordinator knows.
UNKNOWN = 4711


class Commit(NamedTuple):
    """A commit, as a coordinator took it, and the end of the log at that time."""

    group: str
    topic: str
    partition: int
    offset: int
    end: int


class Said(NamedTuple):
    """What a broker and Kafka's tools say.

    Attributes:
        at: when, in ms.
        groups: by name.
        offsets: the current ones, with their lag.
        described: current offset, log end offset and lag by group, topic and partition, as
            `kafka-consumer-groups.sh --describe --offsets` prints them.
        transactions: by transactional id; None: the release cannot say.
        producers: of each partition.
        hanging: topic, partition and producer id, as `kafka-transactions.sh find-hanging` prints them; None as above.
    """

    at: int
    groups: dict[str, dict[str, Any]]
    offsets: list[dict[str, Any]]
    described: dict[tuple[str, str, int], tuple[int, int, int]]
    transactions: dict[str, dict[str, Any]] | None
    producers: list[dict[str, Any]]
    hanging: set[tuple[str, int, int]] | None


def start(data, log, release):
    """Start a broker on a directory."""
    if release == OLD:
        return OldBroker(data, log=log, **SETTINGS)
    return Broker(data, log=log, version=release, **SETTINGS, **NEW_SETTINGS, **AFTER_A_KILL)


class Cluster:
    """A broker with its live members and producers.

    Attributes:
        commits: all that counted in the end, in their order.
        removed: group, topic and partition of the offsets that were deleted, in their order.
        topics: what each live member subscribed to, by its client id.
        moments: what the broker said during the work.
    """

    def __init__(self, client, broker, release):
        self._client, self._broker, self.release = client, broker, release
        self.commits: list[Commit] = []
        self.removed: list[tuple[str, str, int]] = []
        self.topics: dict[str, list[str]] = {}
        self.moments: list[Said] = []

    @property
    def is_old(self):
        """Whether it knows classic groups only."""
        return self.release == OLD

    def work(self):
        """Do all of it; `moments` are taken on the way."""
        for topic, configs in (("orders", {"message_timestamp_type": "LogAppendTime"}), ("payments", {})):
            self._client.create(self._broker, topic, 3, **configs)
            for partition in range(3):
                self._client.produce(self._broker, topic, partition, 30 + partition)
        self._client.produce(self._broker, "orders", 0, 10, "plain")
        if self.release == "4.1.0":
            self._do("feature", feature="share.version", level=1)
        self._classic_members()
        self._commit("pair", 0, 10, "pair-1", leaderEpoch=0, metadata="first")
        self._commit("pair", 2, 20, "pair-1")
        if not self.is_old:
            self._new_members()
        if self.release == NEWEST:
            self._do("joinStreams", group="streaming", topic="orders", isReady=True)
            self._do("joinStreams", group="streaming-nothing", topic="missing", isReady=False)
        self._take_moment()
        self._client.produce(self._broker, "orders", 0, 20)
        self._commit("pair", 0, 45, "pair-1", metadata="forward")
        self._commit("bare", 0, 1)
        for group in ("scripted", "deleted", "partial"):
            self._commit(group, 0, 7)
            self._commit(group, 1, 31, metadata="to its end")
        if self.is_old:
            self._do("commitRaw", group="retained", topic="orders", partition=1, offset=3, retention=100_000_000)
            self.commits.append(Commit("retained", "orders", 1, 3, 31))
        self._take_moment()
        self._commit("pair", 0, 3, "pair-1", metadata="back")
        self._commit("scripted", 0, 2)
        self._do("deleteGroup", group="deleted")
        self._do("deleteOffsets", group="partial", topic="orders", partition=1)
        self._do("deleteOffsets", group="bare", topic="orders", partition=0)
        self.removed += [
            ("bare", "orders", 0),
            ("deleted", "orders", 0),
            ("deleted", "orders", 1),
            ("partial", "orders", 1),
        ]
        self._transactions()
        self._take_moment(still_open=6)
        self._end_transactions()
        self._commit("partial", 1, 12)
        self._take_moment(still_open=5)

    def _do(self, do, **arguments):
        return self._client.state(self._broker, do, **arguments)

    def _take_moment(self, still_open=0):
        """Record what the broker says, as soon as all transactions have ended but those of `still_open` partitions."""
        until(lambda: sum(row["start"] is not None for row in self._do("producers")) == still_open)
        if not self.is_old:
            until(lambda: not any(row["state"].startswith("Prepare") for row in self._do("transactions")))
        time.sleep(0.05)
        self.moments.append(self.say())
        time.sleep(0.05)

    def _join(self, member, group, kind="classic", topics=("orders",), *, pattern=None, **properties):
        self.topics[member] = [pattern] if pattern else list(topics)
        properties = {name.replace("_", "."): value for name, value in properties.items()}
        if kind == "classic":
            properties = RANGE | properties
        self._do(
            "join", member=member, kind=kind, group=group, topics=list(topics), pattern=pattern, properties=properties
        )

    def _leave(self, *members):
        for member in members:
            self._do("leave", member=member)

    def _wait_for(self, members, kind=None, epoch=None):
        """Wait until groups have these members and no others, and are stable or empty.

        Args:
            members: client ids by group.
            kind: the groups' type.
            epoch: of all members, which then need not be stable.
        """

        def are_settled():
            found = {row["group"]: row for row in self._do("groups")}
            return all(
                group in found and self._is_settled(found[group], wanted, kind, epoch)
                for group, wanted in members.items()
            )

        until(are_settled)

    def _is_settled(self, row, wanted, kind, epoch):
        members = row["members"]
        if sorted(member["clientId"] for member in members) != wanted or kind not in (None, row["type"]):
            return False
        if epoch is not None:
            return all(member["epoch"] == epoch for member in members)
        topics = {topic for member in wanted for topic in self.topics[member]}
        topics = {"orders", "payments"} if PATTERN in topics else topics
        owned = {(topic, partition) for member in members for topic, partition in member["assignment"]}
        if owned != {(topic, partition) for topic in topics for partition in range(3)}:
            return False
        if row["type"] in ("Consumer", "Share"):
            epochs = {row["epoch"], *(member["epoch"] for member in members)}
            # The epoch of an empty group is not assigned.
            if len(epochs) > 1 or (members and row["assignmentEpoch"] not in epochs):
                return False
        return row["state"] == ("Stable" if wanted else "Empty")

    def _commit(self, group, partition, offset, member=None, **more):
        end = self._client.offset(self._broker, "orders", partition, -1)
        offsets = [{"topic": "orders", "partition": partition, "offset": offset, **more}]
        if member:
            self._do("commitAs", member=member, offsets=offsets)
        else:
            self._do("alterOffsets", group=group, offsets=offsets)
        self.commits.append(Commit(group, "orders", partition, offset, end))

    def _classic_members(self):
        for number in (1, 2, 3):
            self._join(f"pair-{number}", "pair")
        self._join("fixed-1", "fixed", topics=["orders", "payments"], group_instance_id="instance-1")
        self._join("left-1", "left")
        if not self.is_old:
            self._join("upgraded-0", "upgraded")
            self._wait_for({"upgraded": ["upgraded-0"]})
        self._do("joinRaw", group="workers", protocolType="connect", protocol="sessioned", bytes="no consumer's")
        self._wait_for({"pair": ["pair-1", "pair-2", "pair-3"], "fixed": ["fixed-1"], "left": ["left-1"]})
        self._commit("left", 1, 4, "left-1")
        self._leave("pair-3", "left-1", *["upgraded-0"] * (not self.is_old))
        self._wait_for({"pair": ["pair-1", "pair-2"], "left": []})

    def _new_members(self):
        """Members of the protocols that are new in 4.0 and later."""
        self._join("new-1", "new", "consumer")
        self._join("new-2", "new", "consumer", ["orders", "payments"], group_instance_id="instance-2")
        self._join("ranged-1", "ranged", "consumer", group_remote_assignor="range")
        self._join("matching-1", "matching", "consumer", pattern=PATTERN)
        self._join("emptied-1", "emptied", "consumer")
        self._join("away-1", "away", "consumer", group_instance_id="instance-3")
        self._join("upgraded-1", "upgraded", "consumer")
        self._join("mixed-1", "mixed", "consumer")
        self._join("downgraded-1", "downgraded", "consumer")
        self._join("shared-1", "shared", "share")
        self._join("shared-2", "shared", "share", ["payments"])
        self._join("unshared-1", "unshared", "share")
        self._wait_for({group: [f"{group}-1"] for group in ("emptied", "away", "mixed", "downgraded", "unshared")})
        self._leave("emptied-1", "away-1", "unshared-1")
        self._join("mixed-2", "mixed")
        self._join("downgraded-2", "downgraded")
        self._wait_for({group: [f"{group}-1", f"{group}-2"] for group in ("mixed", "downgraded", "new", "shared")})
        self._leave("downgraded-1")
        self._wait_for({"downgraded": ["downgraded-2"]}, "Classic")
        self._wait_for({group: [f"{group}-1"] for group in ("ranged", "matching", "upgraded")})
        self._wait_for({"emptied": [], "unshared": []})
        # A static member that is expected back
        self._wait_for({"away": ["away-1"]}, epoch=-2)

    def _transact(self, name, end, *partitions, group=None, offset=0, **more):
        offsets = [] if group is None else [{"topic": "orders", "partition": 2, "offset": offset}]
        records = [{"topic": "payments", "partition": partition, "count": 5} for partition in partitions]
        arguments = {"id": name, "end": end, "records": records, "group": group, "offsets": offsets, "anew": False}
        rows = self._do("transaction", **arguments | more, properties=LONG)
        if end == "commit" and group is not None:
            self.commits.append(Commit(group, "orders", 2, offset, 32))
        return rows

    def _transactions(self):
        self._transact("committed", "commit", 0, 1, group="exact", offset=9)
        self._committed = self._producer(1, coordinatorEpoch=0)
        self._transact("aborted", "abort", 0, group="undone", offset=9)
        self._transact("aborted", "commit", 1, group="exact", offset=11)
        self._transact("aborted", "abort", 0, 1, group="exact", offset=12)
        self._transact("fenced", "open", 0)
        self._transact("fenced", "init", anew=True)
        self._transact("idle", "init")
        (last,) = self._transact("open", "open", 0, group="pending", offset=9)
        self._open = self._producer(0, start=last["payments-0"] - 4)
        self._transact("late", "open", 1, group="late", offset=9)
        # The commit outside of the transaction is the later one, and stays in force when the transaction commits.
        self._transact("raced", "open", 0, group="raced", offset=9)
        self.commits += [Commit(group, "orders", 2, 9, 32) for group in ("late", "raced")]
        self._commit("raced", 2, 15)

    def _end_transactions(self):
        """End some; leave others open that no coordinator will end."""
        self._transact("late", "commit")
        self._transact("raced", "commit")
        self._hang("unknown", 2, UNKNOWN, 0, 0)
        # Of a partition that its coordinator does not know to be in the transaction
        self._hang("open", 2, self._open["producerId"], self._open["epoch"], 0)
        # After the end of the transaction, and in the epoch that it left
        late = self._committed
        self._hang("committed", 1, late["producerId"], late["epoch"], late["sequence"] + 1)

    def _producer(self, partition, **columns):
        """Return the producer of a partition that has these columns, as soon as there is one."""

        def found():
            rows = [row for row in self._do("producers") if (row["topic"], row["partition"]) == ("payments", partition)]
            return [row for row in rows if columns.items() <= row.items()]

        (one,) = until(found)
        return one

    def _hang(self, transactional_id, partition, producer_id, epoch, sequence):
        named = {"id": transactional_id, "topic": "payments", "partition": partition}
        self._do("produceRaw", **named, producerId=producer_id, epoch=epoch, sequence=sequence, count=4)

    def say(self):
        """Return what the broker says now."""
        now = time.time_ns() // 1_000_000
        time.sleep(0.05)
        groups = {row["group"]: row for row in self._do("groups")}
        (tool,) = self._do("consumerGroupTool", arguments=["--describe", "--all-groups", "--offsets"])
        consumers = [group for group, row in groups.items() if row["type"] != "Share"]
        transactions = hanging = None
        if not self.is_old:
            transactions = {row["id"]: row for row in self._do("transactions")}
            hunt = ["find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0"]
            (found,) = self._do("transactionsTool", arguments=hunt)
            hanging = {(topic, int(partition), int(producer)) for topic, partition, producer in _table(found["said"])}
        return Said(
            at=now,
            groups=groups,
            offsets=self._do("groupOffsets", groups=consumers),
            described=described(tool["said"]),
            transactions=transactions,
            producers=self._do("producers"),
            hanging=hanging,
        )

    def say_after_start(self, broker):
        """Return what a broker that has just started says, as soon as it has loaded all, and clients see all."""
        self._broker = broker
        topics = {"orders", "payments", "__consumer_offsets", "__transaction_state"}

        def is_ready():
            loaded = re.findall(r"Finished loading .* from (__consumer_offsets|__transaction_state)-(\d)", broker.log)
            seen = self._client.topics(broker)
            return (
                len(set(loaded)) == 4
                and topics <= seen.keys()
                and all(min(seen[topic]["leaders"]) >= 0 for topic in topics)
            )

        until(is_ready)
        return self.say()


def described(said):
    """Return current offset, log end offset and lag by group, topic and partition; a lag may be negative."""
    rows = re.findall(r"^(\S+) +(\S+) +(\d+) +(\d+) +(\d+) +(-?\d+) ", said, re.MULTILINE)
    return {(group, topic, int(partition)): tuple(map(int, numbers)) for group, topic, partition, *numbers in rows}


def _table(said):
    return [re.split(r"\s*\t\s*", line)[:3] for line in said.splitlines()[1:] if line.strip()]
