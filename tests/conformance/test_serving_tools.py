"""Kafka's tools and Spark's own connector read a directory as they read a broker."""

import subprocess
from datetime import datetime
from uuid import uuid4

import pytest
from kafka import SAY_LITTLE, again, java
from test_connector import run

import brokerless as bl
from support.kafka_answers import consumed, read_json_lines

# Where the tools are, by release.
TOOLS = "org.apache.kafka.tools"
MAINS = {
    "topics": (f"{TOOLS}.TopicCommand", "kafka.admin.TopicCommand"),
    "groups": (f"{TOOLS}.consumer.group.ConsumerGroupCommand", "kafka.admin.ConsumerGroupCommand"),
    "offsets": (f"{TOOLS}.GetOffsetShell", "kafka.tools.GetOffsetShell"),
    "consumer": (f"{TOOLS}.consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
}
NAME = "kafka-4.1"


@pytest.fixture(scope="module")
def address(golden):
    with bl.serve(golden / "logs" / NAME) as address:
        yield address


@pytest.fixture(scope="module", params=["4.4.0", again("4.1.0"), "2.8.2"])
def tool(request, address):
    """Return a function that runs a tool of a release, and returns the lines that it prints."""
    is_old = request.param.startswith("2.")

    def run_tool(name, *arguments):
        server = "--broker-list" if is_old and name == "offsets" else "--bootstrap-server"
        command = [*java(request.param), SAY_LITTLE, MAINS[name][is_old]]
        done = subprocess.run(
            [*command, server, address, *arguments], capture_output=True, text=True, errors="replace", check=False
        )
        # A console consumer that has waited long enough says so as an error.
        assert done.returncode == 0 or "Processed a total of" in done.stderr, done.stderr
        return done.stdout.splitlines()

    return run_tool


def partitions(golden):
    names = (path.name for path in (golden / "logs" / NAME).iterdir() if path.is_dir())
    return sorted(name for name in names if name != "__cluster_metadata-0")


def test_topics_are_described(tool, golden):
    said = tool("topics", "--describe")
    found = [line.split("\t") for line in said if line.startswith("\tTopic: ")]
    named = sorted(f"{row[1].split()[1]}-{row[2].split()[1]}" for row in found)
    assert named == partitions(golden)
    (headline,) = [line for line in said if line.startswith("Topic: compact-delete")]
    assert "cleanup.policy=compact,delete" in headline


def test_offsets_are_those_of_the_broker(tool, golden):
    expected = []
    for number in range(4):
        path = golden / "expected" / NAME / f"multi-partition-{number}" / "offsets_for_times.jsonl"
        questions = {(line["query"], line["isolation"]): line["offset"] for line in read_json_lines(path)}
        expected.append(f"multi-partition:{number}:{questions[-1, 'read_uncommitted']}")
    assert sorted(tool("offsets", "--topic", "multi-partition", "--time", "-1")) == expected


def test_groups_are_where_the_directory_has_them(tool, golden):
    commits = bl.commits(golden / "logs" / NAME, history=False).read_all().to_pylist()
    groups = {row["group"] for row in commits}
    assert groups <= set(tool("groups", "--list"))
    found = [line.split() for line in tool("groups", "--describe", "--all-groups")]
    shown = {(row[0], row[1], row[2], row[3]) for row in found if len(row) > 3 and row[0] in groups}
    assert shown == {(row["group"], row["topic"], str(row["partition"]), str(row["offset"])) for row in commits}


def offsets(said):
    """Return partition and offset of each record that a console consumer prints with them."""
    rows = [line.split("\t") for line in said if line.startswith("Partition:")]
    return sorted((int(row[0].split(":")[1]), int(row[1].split(":")[1])) for row in rows)


# A console consumer ends once nothing has come for a while. On a busy machine nothing may have come yet.
PATIENCE = ("2500", "10000", "60000")
PRINTED = [f"--property=print.{what}" for what in ("partition=true", "offset=true", "value=false")]


def test_the_console_consumer_reads_from_the_beginning(tool, golden):
    expected = [
        (int(name.rpartition("-")[2]), row["offset"])
        for name in partitions(golden)
        if name.startswith("multi-partition-")
        for row in consumed(golden, NAME, name, "read_uncommitted")
    ]
    named = ["--topic", "multi-partition", "--from-beginning", *PRINTED]
    for milliseconds in PATIENCE:
        found = offsets(tool("consumer", *named, "--timeout-ms", milliseconds))
        if len(found) >= len(expected):
            break
    assert found == sorted(expected)


def test_the_console_consumer_of_a_group_goes_on(tool, golden):
    group = ["--topic", "txn-interleaved", "--group", f"console-{uuid4()}", "--from-beginning", *PRINTED]
    group += ["--isolation-level", "read_committed"]
    first = offsets(tool("consumer", *group, "--max-messages", "5"))
    expected = [(0, row["offset"]) for row in consumed(golden, NAME, "txn-interleaved-0", "read_committed")]
    rest = []
    for milliseconds in PATIENCE:
        rest += offsets(tool("consumer", *group, "--timeout-ms", milliseconds))
        if len(rest) >= len(expected) - 5:
            break
    assert (first, rest) == (expected[:5], expected[5:])


def test_sparks_connector_reads_a_directory(golden, address):
    """Also transactions, batches without records and logs that compaction left gaps in; as a batch and as a stream."""
    topics = ["codec-mixed", "headers", "leader-epochs", "txn-abort-spanning", "compact-txn", "multi-partition"]
    levels = ("read_uncommitted", "read_committed")
    common = {"kafka.bootstrap.servers": address, "subscribe": ",".join(topics), "startingOffsets": "earliest"}
    queries = [
        {**common, "kafka.isolation.level": level, "includeHeaders": "true", **stream}
        for level in levels
        for stream in ({}, {"stream": "true"})
    ]
    results = run("kafka", queries)
    for query, result in zip(queries, results, strict=True):
        expected = [
            [row["key"], row["value"], topic, int(name.rpartition("-")[2]), row["offset"], row["timestamp"]]
            for topic in sorted(topics)
            for name in partitions(golden)
            if name.rpartition("-")[0] == topic
            for row in consumed(golden, NAME, name, query["kafka.isolation.level"])
        ]
        found = [
            [*row[:5], round(datetime.fromisoformat(row[5] + "+00:00").timestamp() * 1000)] for row in result["rows"]
        ]
        assert found == expected, query
