"""The log directory of the guide "After an incident": a real broker, and what went wrong on it within minutes.

`python tests/conformance/incident.py` writes `examples/incident` again. Its times and ids are then new, and the guide
has to show them.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

from kafka import AFTER_A_KILL, NEWEST, Broker, Client
from state_workload import LONG, NEW_SETTINGS, SETTINGS

from support.polling import until

INCIDENT = Path(__file__).parents[2] / "examples" / "incident"
# Bytes of an entry. A broker allocates these files before it fills them.
INDEXES = {".index": 8, ".timeindex": 12}
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
SMALL = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    # No record each half a second that says nothing
    "metadata_max_idle_interval_ms": 0,
}
WEEK, HOUR = "604800000", "3600000"
CONTRACTOR = {
    "resource_type": "TOPIC",
    "resource": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:contractor",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}


class Incident:
    """A broker's clients, from a sound cluster to the incident.

    Args:
        client: Kafka's clients.
        broker: a new one.
        pause: seconds between the parts of the story.
    """

    def __init__(self, client, broker, pause):
        self._client, self._broker, self._pause = client, broker, pause

    def run(self):
        """Do all of it."""
        self._set_up()
        self._produce(40, 50, 60)
        self._commit("billing", 40, 50, 60)
        self._commit("shipping", 40, 50, 60)
        self._commit("search", 40, 50, 60)
        self._transact("payment-service-1", "commit", (0, 3), (1, 3))
        self._commit("ledger", 4, 4, topic="payments")
        self._wait()

        self._produce(40, 30, 20)
        self._commit("billing", 80, 60, 80)
        self._commit("shipping", 80, 80, 80)
        self._commit("search", 80, 80, 80)
        self._hang()
        self._wait()

        self._reset("shipping", "orders")
        self._wait()

        self._commit("shipping", 15, 10, 5)
        self._change()
        self._wait()

        self._produce(120, 90, 60)
        self._commit("search", 200, 170, 140)
        self._commit("billing", 200, 60, 140)
        self._transact("payment-service-1", "commit", (0, 5), (1, 5))
        self._commit("ledger", 10, 7, topic="payments")
        self._transact("payment-service-3", "open", (0, 2))
        self._wait()

    def _do(self, do, **arguments):
        return self._client.state(self._broker, do, **arguments)

    def _wait(self):
        time.sleep(self._pause)

    def _set_up(self):
        self._client.create(self._broker, "orders", 3, retention_ms=WEEK)
        self._client.create(self._broker, "orders-v1", 1)
        self._client.create(self._broker, "payments", 2)
        self._client.produce(self._broker, "orders-v1", 0, 10)
        for group in ("billing", "shipping", "search"):
            self._join(group, "orders")
        self._join("ledger", "payments")

    def _join(self, group, topic):
        properties = {"isolation.level": "read_committed"}
        joining = {"member": f"{group}-1", "kind": "consumer", "group": group, "topics": [topic], "pattern": None}
        self._do("join", **joining, properties=properties)

        def is_stable():
            rows = [row for row in self._do("groups") if row["group"] == group]
            return bool(rows and rows[0]["members"] and rows[0]["members"][0]["assignment"])

        until(is_stable)

    def _produce(self, *counts):
        for partition, count in enumerate(counts):
            self._client.produce(self._broker, "orders", partition, count)

    def _commit(self, group, *offsets, topic="orders"):
        """Commit as the group's member, with the leader epochs that a consumer knows."""
        rows = [
            {"topic": topic, "partition": partition, "offset": offset, "leaderEpoch": 0}
            for partition, offset in enumerate(offsets)
        ]
        self._do("commitAs", member=f"{group}-1", offsets=rows)

    def _transact(self, name, end, *counts):
        records = [{"topic": "payments", "partition": partition, "count": count} for partition, count in counts]
        named = {"id": name, "end": end, "records": records, "group": None, "offsets": [], "anew": False}
        self._do("transaction", **named, properties=LONG)

    def _hang(self):
        """Abort a transaction of which a batch arrives after its marker: no coordinator will end that one."""
        before = {row["producerId"] for row in self._do("producers")}
        self._transact("payment-service-2", "abort", (1, 2))

        def ended():
            rows = [row for row in self._do("producers") if (row["topic"], row["partition"]) == ("payments", 1)]
            return [row for row in rows if row["producerId"] not in before and row["coordinatorEpoch"] is not None]

        (one,) = until(ended)
        named = {"id": "payment-service-2", "topic": "payments", "partition": 1}
        late = {"producerId": one["producerId"], "epoch": one["epoch"], "sequence": one["sequence"] + 1, "count": 1}
        self._do("produceRaw", **named, **late)

    def _reset(self, group, topic):
        """Stop the group's member, reset the group with Kafka's tool as an operator does, and start the member."""
        self._do("leave", member=f"{group}-1")
        until(lambda: [row for row in self._do("groups") if row["group"] == group and row["state"] == "Empty"])
        self._wait()
        reset = ["--reset-offsets", "--to-earliest", "--execute"]
        self._do("consumerGroupTool", arguments=["--group", group, "--topic", topic, *reset])
        self._wait()
        self._join(group, topic)

    def _change(self):
        lowered = {"type": "TOPIC", "resource": "orders", "name": "retention.ms", "value": HOUR}
        self._do("changeMetadata", configs=[lowered])
        self._wait()
        user = {"user": "contractor", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
        self._do("changeMetadata", users=[user])
        self._do("changeMetadata", acls=[CONTRACTOR])
        self._wait()
        self._do("changeMetadata", deletedTopics=["orders-v1"])


def start(data, log):
    """Start a broker for the incident."""
    return Broker(data, log=log, version=NEWEST, **{**SETTINGS, **NEW_SETTINGS, **AFTER_A_KILL, **AUTHORIZER, **SMALL})


def make(data, client, log, pause):
    """Write the log directory of a broker that was stopped after the incident.

    Args:
        data: the directory, which does not exist.
        client: Kafka's clients.
        log: where the broker's output goes.
        pause: seconds between the parts of the story.
    """
    try:
        with start(data, log) as broker:
            Incident(client, broker, pause).run()
    finally:
        client.state(None, "dropAll")
    for suffix, entry in INDEXES.items():
        for path in data.rglob(f"*{suffix}"):
            size = len(path.read_bytes().rstrip(b"\0"))
            os.truncate(path, -(-size // entry) * entry)


def main():
    """Write `examples/incident`."""
    with tempfile.TemporaryDirectory() as directory:
        data, client = Path(directory) / "data", Client()
        try:
            make(data, client, Path(directory) / "log", pause=12)
        finally:
            client.close()
        shutil.rmtree(INCIDENT, ignore_errors=True)
        shutil.copytree(data, INCIDENT, copy_function=shutil.copyfile)


if __name__ == "__main__":
    main()
