"""Clients that nobody here wrote read directories that real brokers wrote, and get what a broker served."""

from base64 import b64decode
from contextlib import ExitStack
from functools import cache

import pytest
from clients import EACH_CLIENT, HAS_GO, Clients
from filling import ISOLATION_LEVELS

import brokerless as bl
from support.kafka_answers import CONSUMED_COLUMNS, TIMESTAMP_TYPES, as_consumed, consumed, read_json_lines, text, value

DIRECTORIES = [
    *("kafka-4.1", "kafka-4.1-before-compaction", "kafka-4.1-compacted", "kafka-4.1-recovered", "kafka-4.1-tiered"),
    *("kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed"),
]
# No broker answered times on copies that were made between two cleanings, nor on format 0, which has none.
WITH_TIMES = [name for name in DIRECTORIES if "compact" not in name and name != "kafka-2.8-v0"]
CASES = [
    *((name, start) for name in DIRECTORIES for start in ("beginning", "group")),
    *((name, "time") for name in WITH_TIMES),
]
LATEST, LATEST_TIERED = -1, -5

# What a client does not understand, from whatever server.
OLD_LZ4 = {(0, "lz4")}
FORMATS_IN_TURN = {(0, "none"), (2, "none")}, {(0, "gzip"), (2, "gzip")}
UNKNOWN_FORMATS = {
    "aiokafka": (OLD_LZ4, *FORMATS_IN_TURN),
    "kafka-python": (OLD_LZ4,),
    "franz-go": (OLD_LZ4,),
}
# librdkafka ends a header's name at a zero byte; franz-go reads the create times of messages of format 1.
UNKNOWN_TOPICS = {
    "confluent-kafka": {"kafka-4.1": {"headers-0"}},
    "franz-go": {"kafka-2.8-v1": {"log-append-time-0"}},
}


@pytest.fixture(scope="module")
def clients():
    clients = Clients()
    yield clients
    clients.close()


@pytest.fixture(scope="module")
def addresses(golden):
    """Where each directory is served."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(bl.serve(golden / "logs" / name)) for name in DIRECTORIES}


@pytest.fixture(scope="module")
def truth(golden):
    """Return a function that returns the `Truth` of a directory."""
    return cache(lambda name: Truth(golden, name))


class Truth:
    """What a broker said of a directory's partitions."""

    def __init__(self, golden, name):
        self._logs, self._expected, self._golden, self._name = golden / "logs", golden / "expected", golden, name
        directories = [path for path in (self._logs / name).iterdir() if path.is_dir()]
        self.partitions = {
            # Of a tiered log, what is in the remote storage alone is not in the directory.
            path.name: min(int(segment.stem) for segment in path.glob("*.log"))
            for path in directories
            if not path.name.startswith("__cluster_metadata")
        }

    def rows(self, partition, level):
        """Return the rows as the Java consumer got them; where it never read, as we read them."""
        found = consumed(self._golden, self._name, partition, level)
        if found is None:
            log = bl.Log(self._logs / self._name / partition)
            return as_consumed(log.read(isolation_level=level, columns=CONSUMED_COLUMNS))
        return [row for row in found if row["offset"] >= self.partitions[partition]]

    def formats(self, partition):
        """Return the formats and codecs of a partition's batches."""
        batches = read_json_lines(self._expected / self._name / partition / "batches.jsonl")
        return {(batch["magic"], batch["compression"]) for batch in batches if "magic" in batch}

    def offsets(self, partition, level):
        """Return the answers to questions for offsets, by what was asked."""
        path = self._expected / self._name / partition / "offsets_for_times.jsonl"
        answers = read_json_lines(path) if path.exists() else []
        local = self.partitions[partition] if self._name == "kafka-4.1-tiered" else -1
        return {
            line["query"]: line
            for line in answers
            if line["isolation"] == level
            and "error" not in line
            # What a broker knows of the remote storage.
            and (line["offset"] >= local or line["query"] == LATEST)
            and not (local >= 0 and line["query"] == LATEST_TIERED)
        }

    def starts(self, start, level):
        """Return where to start in each partition, as a client is told, and the rows from there."""
        found = {}
        for partition in self.partitions:
            rows = self.rows(partition, level)
            if start == "beginning":
                found[partition] = None, rows
            elif start == "group" and rows:
                offset = rows[len(rows) // 2]["offset"]
                found[partition] = offset, [row for row in rows if row["offset"] >= offset]
            elif start == "time":
                times = [(line["offset"], time) for time, line in self.offsets(partition, level).items() if time >= 0]
                times = sorted(pair for pair in times if pair[0] >= 0)
                if times:
                    offset, time = times[len(times) // 2]
                    found[partition] = time, [row for row in rows if row["offset"] >= offset]
        return found


def by_partition(rows):
    """Return rows as a client says them in the words of `consumed.*.jsonl`, by partition, in their order."""
    found = {}
    for said in rows:
        row = dict(said)
        partition = f"{row.pop('topic')}-{row.pop('partition')}"
        if "timestampType" in row:
            row["timestampType"] = TIMESTAMP_TYPES[row["timestampType"]]
        row["headers"] = [[text(key.encode()), content] for key, content in row["headers"]]
        content = row.pop("value")
        found.setdefault(partition, []).append(row | value(None if content is None else b64decode(content)))
    return found


def known(row, told):
    """Return the row with the fields that a client tells."""
    return {name: row[name] for name in told}


@pytest.mark.parametrize(("name", "start"), CASES)
@pytest.mark.parametrize("level", ISOLATION_LEVELS)
@pytest.mark.parametrize("client", EACH_CLIENT)
def test_a_client_gets_what_a_broker_served(client, name, level, start, clients, addresses, truth):
    expected = truth(name).starts(start, level)
    for partition in list(expected):
        formats = truth(name).formats(partition)
        unknown = any(one <= formats for one in UNKNOWN_FORMATS.get(client, ()))
        if unknown or partition in UNKNOWN_TOPICS.get(client, {}).get(name, ()):
            del expected[partition]
    assert expected
    rows = clients[client].call(
        "read",
        at=addresses[name],
        isolation=level,
        start=start,
        group=f"{client}-{level}" if start == "group" else None,
        partitions={partition: given for partition, (given, _) in expected.items()},
    )
    found = by_partition(rows)
    for partition, (_, rows) in expected.items():
        got = found.get(partition, [])
        assert [row["offset"] for row in got] == [row["offset"] for row in rows], partition
        assert got == [known(row, told) for row, told in zip(rows, got, strict=True)], partition


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
@pytest.mark.parametrize("name", [name for name in DIRECTORIES if "compact" not in name])
@pytest.mark.parametrize("client", EACH_CLIENT)
def test_a_client_finds_the_offsets_that_a_broker_had(client, name, level, clients, addresses, truth):
    expected = {partition: truth(name).offsets(partition, level) for partition in truth(name).partitions}
    # Two clients ask for all of them.
    step = 1 if client in ("java-4.4.0", "java-4.1.0") else 4
    asked = {partition: list(answers)[::step] for partition, answers in expected.items() if answers}
    found = clients[client].call("offsets", at=addresses[name], isolation=level, partitions=asked)
    assert found or name == "kafka-2.8-v0"
    for row in found:
        answer = expected[f"{row['topic']}-{row['partition']}"][row["query"]]
        assert row["offset"] == answer["offset"], (row, answer)


def test_franz_go_is_tested():
    if not HAS_GO:
        pytest.skip("NOT TESTED: franz-go, as Go is missing; install it, and run `make conformance`")
