"""Clients that nobody here wrote read directories that real brokers wrote, and get what a broker served."""

from types import SimpleNamespace

import pytest
from filling import ISOLATION_LEVELS
from kafka import as_consumed

import brokerless as bl
from brokerless.serving.serve import serve

DIRECTORIES = [
    *("kafka-4.1", "kafka-4.1-before-compaction", "kafka-4.1-compacted", "kafka-4.1-recovered", "kafka-4.1-tiered"),
    *("kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed"),
]


def served(path):
    return serve(path)


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_consumer_gets_what_a_broker_served(client, golden, name):
    directory = bl.LogDirs(golden / "logs" / name)
    with serve(golden / "logs" / name) as address:
        broker = SimpleNamespace(at=address)
        for topic in directory.topics():
            if topic == "__cluster_metadata":
                continue
            for level in ISOLATION_LEVELS:
                rows, error = client.consume_to_damage(broker, topic, level)
                rows = sorted(rows, key=lambda row: (row["partition"], row["offset"]))
                assert (topic, level, error) == (topic, level, None)
                expected = as_consumed(directory, topic, level)
                assert [(row["partition"], row["offset"]) for row in rows] == [
                    (row["partition"], row["offset"]) for row in expected
                ], (topic, level)
                assert rows == expected, (topic, level)
