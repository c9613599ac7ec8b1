"""A broker and our server on its directory answer the same requests. docs/serving.md names each field that differs."""

import base64
import json
import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from kafka import NEWEST, RELEASES, Broker, java
from serving_requests import COMMITTED, EARLIEST, LATEST, MAX_TIMESTAMP, NIL, UNCOMMITTED, UNKNOWN_ID, Facts, chains

import brokerless as bl
from support.polling import until

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
LONG = {"transaction.timeout.ms": 900_000}
# What a broker knows in memory is in its files soon.
SETTINGS = {
    "replica_high_watermark_checkpoint_interval_ms": 100,
    "log_flush_start_offset_checkpoint_interval_ms": 100,
    "log_cleaner_backoff_ms": 100,
    "auto_create_topics_enable": "false",
    "group_initial_rebalance_delay_ms": 0,
}
TOPICS = {
    "plain": (3, {"internal_segment_bytes": 2000}),
    "transactions": (1, {"internal_segment_bytes": 1500}),
    "compacted": (
        1,
        {"cleanup_policy": "compact", "internal_segment_bytes": 1000, "min_cleanable_dirty_ratio": "0.01"},
    ),
    "configured": (2, {"retention_ms": 123456789, "message_timestamp_type": "LogAppendTime", "flush_ms": 5000}),
    "deleted": (1, {}),
    "empty": (1, {}),
}


POLICY_VIOLATION, TRANSACTIONAL_ID, CLUSTER = 44, 53, 31


def producing(version):
    """Return the body of a Produce. Nobody reads the records."""
    topic = {"name": "plain"} if version < 13 else {"topicId": UNKNOWN_ID}
    data = [{**topic, "partitionData": [{"index": 0, "records": {"base64": base64.b64encode(bytes(70)).decode()}}]}]
    return {"acks": 1, "timeoutMs": 1000, "topicData": data}


def adding(version):
    """Return the body of an AddPartitionsToTxn."""
    topics = [{"name": "plain", "partitions": [0, 1]}]
    if version < 4:
        return {
            "v3AndBelowTransactionalId": "t",
            "v3AndBelowProducerId": 1,
            "v3AndBelowProducerEpoch": 0,
            "v3AndBelowTopics": topics,
        }
    one = {"transactionalId": "t", "producerId": 1, "producerEpoch": 0, "verifyOnly": False, "topics": topics}
    return {"transactions": [one]}


def deleting(version):
    """Return the body of a DeleteTopics."""
    if version < 6:
        return {"topicNames": ["plain"], "timeoutMs": 1000}
    return {"topics": [{"name": "plain", "topicId": NIL}], "timeoutMs": 1000}


def committing_in_a_transaction(version):
    """Return the body of a TxnOffsetCommit."""
    one = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": None}
    one |= {"committedLeaderEpoch": -1} if version >= 2 else {}
    topic = {"name": "plain"} if version < 6 else {"topicId": UNKNOWN_ID}
    topics = [{**topic, "partitions": [one]}]
    return {"transactionalId": "t", "groupId": "g", "producerId": 1, "producerEpoch": 0, "topics": topics}


def altering(version):
    """Return the body of an AlterConfigs."""
    setting = {"name": "retention.ms", "value": "1"}
    return {"resources": [{"resourceType": 2, "resourceName": "plain", "configs": [setting]}], "validateOnly": False}


def altering_some(version):
    """Return the body of an IncrementalAlterConfigs."""
    body = altering(version)
    body["resources"][0]["configs"][0]["configOperation"] = 0
    return body


def creating(version):
    """Return the body of a CreateTopics."""
    topic = {"name": "new", "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    return {"topics": [topic], "timeoutMs": 1000}


ACL = {"resourceName": "plain", "principal": "User:a", "host": "*"}
FILTER = {"resourceNameFilter": "plain", "principalFilter": None, "hostFilter": None}
KINDS = {"operation": 3, "permissionType": 3}
# An API, its versions, the error, and what makes the body for a version.
CHANGES = [
    ("Produce", range(3, 14), POLICY_VIOLATION, producing),
    ("CreateTopics", range(2, 8), POLICY_VIOLATION, creating),
    ("DeleteTopics", range(1, 7), POLICY_VIOLATION, deleting),
    ("InitProducerId", range(6), CLUSTER, lambda version: {"transactionTimeoutMs": 1}),
    ("AlterConfigs", range(3), POLICY_VIOLATION, altering),
    ("IncrementalAlterConfigs", range(2), POLICY_VIOLATION, altering_some),
    (
        "CreatePartitions",
        range(4),
        POLICY_VIOLATION,
        lambda version: {"topics": [{"name": "plain", "count": 3, "assignments": None}], "timeoutMs": 1},
    ),
    (
        "DeleteRecords",
        range(3),
        POLICY_VIOLATION,
        lambda version: {"topics": [{"name": "plain", "partitions": [{"partitionIndex": 0, "offset": 1}]}]},
    ),
    ("DeleteGroups", range(4), POLICY_VIOLATION, lambda version: {"groupsNames": ["g", "h"]}),
    (
        "OffsetDelete",
        range(1),
        POLICY_VIOLATION,
        lambda version: {"groupId": "g", "topics": [{"name": "plain", "partitions": [{"partitionIndex": 0}]}]},
    ),
    (
        "CreateAcls",
        range(1, 4),
        POLICY_VIOLATION,
        lambda version: {"creations": [{**ACL, **KINDS, "resourceType": 2, "resourcePatternType": 3}]},
    ),
    (
        "DeleteAcls",
        range(1, 4),
        POLICY_VIOLATION,
        lambda version: {"filters": [{**FILTER, **KINDS, "resourceTypeFilter": 2, "patternTypeFilter": 3}]},
    ),
    ("AddPartitionsToTxn", range(6), TRANSACTIONAL_ID, adding),
    ("AddOffsetsToTxn", range(5), TRANSACTIONAL_ID, lambda version: {"transactionalId": "t", "groupId": "g"}),
    ("EndTxn", range(6), TRANSACTIONAL_ID, lambda version: {"transactionalId": "t"}),
    ("TxnOffsetCommit", range(7), TRANSACTIONAL_ID, committing_in_a_transaction),
]


class Wire:
    """Requests as Kafka's own classes write them, and answers as they read them, in the release's versions."""

    def __init__(self, version):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([*java(version), "Wire"], text=True, **pipes)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def ask(self, at, api, version, body, connection="", **more):
        """Return the answer: {"body": ...}, or {"closed": True}."""
        asked = {"at": at, "api": api, "version": version, "body": body, "connection": connection, **more}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, (asked, answer["error"])
        assert answer.pop("left", 0) == 0, (asked, answer)
        return answer


def work(client, broker):
    """Fill the topics of a broker that has just started on an empty directory."""
    for topic, (partitions, settings) in TOPICS.items():
        client.create(broker, topic, partitions, **settings)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for number in range(3):
            client.produce(broker, "plain", number, 12 + number, compression_type=codec)
    for number in range(2):
        client.produce(broker, "configured", number, 5, "plain")
    client.produce(broker, "deleted", 0, 20, "plain")
    client.delete_records(broker, "deleted", 0, 7)
    for _ in range(5):
        client.produce(broker, "compacted", 0, 20, "keyed")
    for end in ("commit", "abort", "commit", "abort", "abort"):
        client.produce(broker, "transactions", 0, 6, end, transactional_id=f"t-{end}")
    client.commit(broker, "g", "plain", 0, 5)
    offsets = [
        {"topic": "plain", "partition": 1, "offset": 7, "metadata": "seven", "leaderEpoch": 0},
        {"topic": "transactions", "partition": 0, "offset": 2},
    ]
    client.state(broker, "alterOffsets", group="g", offsets=offsets)
    joined = {"kind": "classic", "group": "left", "topics": ["plain"], "pattern": None, "properties": {}}
    client.state(broker, "join", member="left-1", **joined)
    at = {"topic": "plain", "partition": 0, "offset": 3}
    while not any(row["group"] == "left" and row["state"] == "Stable" for row in client.state(broker, "groups")):
        time.sleep(0.1)
    client.state(broker, "commitAs", member="left-1", offsets=[at])
    client.state(broker, "leave", member="left-1")
    transact(client, broker, "exact", "commit", "exact")


def transact(client, broker, name, end, group):
    """Write in a transaction, and send offsets of a group with it."""
    records = [{"topic": "transactions", "partition": 0, "count": 4}]
    offsets = [{"topic": "plain", "partition": 2, "offset": 9}]
    more = {"records": records, "group": group, "offsets": offsets, "anew": False, "properties": LONG}
    client.state(broker, "transaction", id=name, end=end, **more)


def work_again(client, broker):
    """Add to them in a later leader epoch, and leave a transaction open."""
    client.produce(broker, "plain", 0, 8)
    client.produce(broker, "transactions", 0, 6, "abort", transactional_id="t-late")
    transact(client, broker, "open", "open", "pending")
    client.produce(broker, "transactions", 0, 5, "commit", transactional_id="t-later")
    client.produce(broker, "transactions", 0, 5, "abort", transactional_id="t-latest")


@contextmanager
def serving(client, root, version):
    """Yield Kafka's messages, the addresses of a broker and of our server on its directory, and facts of the topics."""
    data, wire = root / "data", Wire(version)
    with Broker(data, log=root / "first.log", version=version, **SETTINGS) as broker:
        work(client, broker)
    with Broker(data, log=root / "second.log", version=version, **SETTINGS) as broker:
        try:
            work_again(client, broker)
        finally:
            client.state(broker, "dropAll")
    try:
        with Broker(data, log=root / "third.log", version=version, **SETTINGS) as broker:
            wait_until_loaded(broker)
            # Checkpoints are written, and the cleaner has nothing left to do.
            time.sleep(2)
            with bl.serve(data) as address:
                yield wire, broker.at, address, known(wire, broker.at, address)
    finally:
        wire.close()


def wait_until_loaded(broker):
    loaded = re.compile(r"Finished loading .* from (__\w+-\d)")
    until(lambda: len(set(loaded.findall(broker.log))) == 4, what="the coordinators do not load")


def known(wire, broker, ours):
    """Ask a broker for the facts of its topics."""
    ranges, named = [], {"clientSoftwareName": "x", "clientSoftwareVersion": "1"}
    for at in (broker, ours):
        rows = wire.ask(at, "ApiVersions", 3, named)["body"]["apiKeys"]
        ranges.append({row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in rows})
    both = ranges[0].keys() & ranges[1].keys()
    versions = {
        name: (max(one[key][0] for one in ranges), min(one[key][1] for one in ranges))
        for name, key in api_keys().items()
        if key in both
    }
    found = wire.ask(broker, "Metadata", 12, {"topics": None})["body"]["topics"]
    facts = Facts({}, {}, {}, {}, {}, versions, {})
    for topic in found:
        facts.ids[topic["name"]] = topic["topicId"]
        for partition in topic["partitions"]:
            place = topic["name"], partition["partitionIndex"]
            facts.epochs[place] = partition["leaderEpoch"]
            for of, timestamp, level in (
                (facts.starts, EARLIEST, UNCOMMITTED),
                (facts.ends, LATEST, UNCOMMITTED),
                (facts.stable_ends, LATEST, COMMITTED),
            ):
                of[place] = offset(wire, broker, place, timestamp, level)["offset"]
            first = offset(wire, broker, place, 0)["timestamp"]
            facts.times[place] = first, offset(wire, broker, place, MAX_TIMESTAMP)["timestamp"]
    assert facts.stable_ends["transactions", 0] < facts.ends["transactions", 0]
    assert facts.starts["deleted", 0] == 7
    return facts


def offset(wire, at, place, timestamp, level=UNCOMMITTED):
    one = {"partitionIndex": place[1], "currentLeaderEpoch": -1, "timestamp": timestamp}
    topics = [{"name": place[0], "partitions": [one]}]
    body = {"replicaId": -1, "isolationLevel": level, "topics": topics}
    return wire.ask(at, "ListOffsets", 9, body)["body"]["topics"][0]["partitions"][0]


def api_keys():
    """Return the number of each API, by name."""
    names = {
        0: "Produce Fetch ListOffsets Metadata",
        8: "OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup",
        15: "DescribeGroups ListGroups SaslHandshake ApiVersions",
        23: "OffsetForLeaderEpoch",
        32: "DescribeConfigs",
        60: "DescribeCluster",
        75: "DescribeTopicPartitions",
    }
    return {name: first + number for first, several in names.items() for number, name in enumerate(several.split())}


class Page:
    """The tables of docs/serving.md: fields that differ, and lists whose order differs.

    A row has the answers, the fields, and why. If the reason begins with "the order", the lists are sorted, or taken by
    the field that it names.
    """

    def __init__(self, text):
        self._allowed, self._orders = [], {}
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|") or len(cells) != 3 or "`" not in cells[1]:
                continue
            answers, fields = cells[0].split(", "), re.findall(r"`([^`]+)`", cells[1])
            if cells[2].startswith("the order"):
                by = re.search(r"by `(\w+)`", cells[2])
                self._orders |= {(answer, field): by and by[1] for answer in answers for field in fields}
            else:
                self._allowed += [(answer, field) for answer in answers for field in fields]
        self.unused = set(self._allowed)

    def allows(self, answer, path):
        """Return whether a field of these answers may differ."""
        forms = re.sub(r"\[\d+\]", "[]", path), re.sub(r"\[[^\]]*\]", "[]", path)
        found = [
            (known, field)
            for known, field in self._allowed
            if known == answer and any(one == field or re.match(rf"{re.escape(field)}[. \[]", one) for one in forms)
        ]
        self.unused -= set(found)
        return bool(found)

    def ordered(self, answer, body, path=""):
        """Return an answer's body, with the lists of these paths sorted, or dicts in their place."""
        if isinstance(body, dict):
            return {
                name: self.ordered(answer, value, f"{path}.{name}" if path else name) for name, value in body.items()
            }
        if isinstance(body, list):
            found = [self.ordered(answer, value, f"{path}[]") for value in body]
            if (answer, path) not in self._orders:
                return found
            by = self._orders[answer, path]
            if by is not None:
                return {f"[{value[by]}]": value for value in found}
            return sorted(found, key=lambda value: json.dumps(value, sort_keys=True))
        return body


def flat(body, path=""):
    """Yield the path and the value of each field."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from flat(value, f"{path}{name}" if not path or name.startswith("[") else f"{path}.{name}")
    elif isinstance(body, list):
        yield f"{path} length", len(body)
        for number, value in enumerate(body):
            yield from flat(value, f"{path}[{number}]")
    else:
        yield path, body


def differences(answer, theirs, ours, page):
    """Return the fields that differ and that the page does not have, each with both values."""
    theirs, ours = (dict(flat(page.ordered(answer, one.get("body", one)))) for one in (theirs, ours))
    found = []
    for path in dict.fromkeys([*theirs, *ours]):
        values = theirs.get(path, "(nothing)"), ours.get(path, "(nothing)")
        if values[0] != values[1] and not page.allows(answer, path):
            found.append((path, *values))
    return found


def test_each_answer_is_that_of_a_broker_but_for_the_fields_that_the_page_names(client, tmp_path):
    page = Page(PAGE.read_text())
    spoken = set()
    for version in RELEASES:
        (root := tmp_path / version).mkdir()
        found, count = [], 0
        with serving(client, root, version) as (wire, broker, ours, facts):
            spoken |= facts.versions.keys()
            for name, steps in chains(facts):
                answers = [], []
                for number, step in enumerate(steps):
                    theirs, own = (
                        wire.ask(at, step.api, step.version, step.made_of(earlier), step.connection, **step.more)
                        for at, earlier in zip((broker, ours), answers, strict=True)
                    )
                    answers[0].append(theirs.get("body", {}))
                    answers[1].append(own.get("body", {}))
                    more = differences(step.answer, theirs, own, page)
                    found += [f"{name}, request {number}: {path}: {one!r}, ours {two!r}" for path, one, two in more]
                    count += 1
        assert not found, "\n".join([f"Kafka {version}: {len(found)} fields of {count} answers", *found[:100]])
        assert count > 2000
    # A row of the page that is not needed says what is not so. Whether the server has passwords is its own choice.
    assert not {row for row in page.unused if row[0].split()[0] in spoken and "[Sasl" not in row[1]}


def test_what_would_change_something_is_refused_in_each_version(tmp_path):
    data, wire = tmp_path / "data", Wire(NEWEST)
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("plain")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    with bl.serve(data) as address:
        for api, versions, error, make in CHANGES:
            for version in versions:
                answer = wire.ask(address, api, version, make(version))["body"]
                fields = [(path.rsplit(".")[-1].lower(), value) for path, value in flat(answer)]
                errors = {value for name, value in fields if name.endswith("errorcode")} - {0}
                assert errors == {error}, (api, version, answer)
                messages = [value for name, value in fields if name.endswith("errormessage") and value is not None]
                assert all("read-only" in message for message in messages), (api, version, answer)
                assert messages or "errorMessage" not in json.dumps(answer), (api, version, answer)
    wire.close()
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
