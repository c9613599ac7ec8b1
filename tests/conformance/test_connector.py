"""Spark's own Kafka source and ours, the same job over the same topics: the same rows, in the same types."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import Broker

JOB = Path(__file__).parent / "connector_job.py"


def run(source, queries):
    """Return what the job finds, a dict a query."""
    done = subprocess.run(
        [sys.executable, JOB, source, json.dumps(queries)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def by_partition(**topics):
    return json.dumps({topic: dict(enumerate(values)) for topic, values in topics.items()})


@pytest.fixture(scope="module")
def found(client, tmp_path_factory):
    """The queries, and what each source returns for them."""
    directory = tmp_path_factory.mktemp("connector")
    with Broker(directory / "data", log=directory / "broker.log") as broker:
        client.create(broker, "orders", 2, internal_segment_bytes=4096)
        client.create(broker, "payments", 1)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            client.produce(broker, "orders", 0, 150, compression_type=codec, batch_size=2000)
        for mode in ("commit", "abort", "commit"):
            client.produce(broker, "orders", 1, 60, mode)
        client.produce(broker, "payments", 0, 40, "plain")
        time.sleep(1.1)
        later = client.produce(broker, "payments", 0, 20)[0]["timestamp"]
        client.produce(broker, "orders", 0, 30)
        client.produce(broker, "orders", 1, 30, "abort")
        queries = [
            {"subscribe": "orders"},
            {"subscribe": "orders,payments", "includeHeaders": "true"},
            {"subscribe": "orders", "includeHeaders": "true", "kafka.isolation.level": "read_committed"},
            {"subscribePattern": "pay.*", "minPartitions": "3"},
            {"subscribePattern": "order"},
            {"assign": json.dumps({"orders": [1], "payments": [0]})},
            {
                "subscribe": "orders",
                "startingOffsets": by_partition(orders=[100, -2]),
                "endingOffsets": by_partition(orders=[501, -1]),
                "kafka.group.id": "moved",
                "failOnDataLoss": "false",
            },
            {"subscribe": "payments,orders", "startingTimestamp": str(later)},
            {"subscribe": "payments", "endingTimestamp": str(later)},
            {
                "subscribe": "orders",
                "startingOffsetsByTimestamp": by_partition(orders=[later, later + 3_600_000]),
                "startingOffsetsByTimestampStrategy": "latest",
                "endingOffsetsByTimestamp": by_partition(orders=[later + 3_600_000, later + 3_600_000]),
            },
            {"subscribe": "orders", "maxRecordsPerPartition": "100"},
        ]
        theirs = run("kafka", [{**query, "kafka.bootstrap.servers": broker.at} for query in queries])
    # What a job changes to move over: the format, and a path.
    ours = run(
        "brokerless",
        [{**query, "kafka.bootstrap.servers": broker.at, "path": str(directory / "data")} for query in queries],
    )
    return list(zip(queries, theirs, ours, strict=True))


def test_the_rows_and_their_types_are_those_of_sparks_own_source(found):
    for query, theirs, ours in found:
        assert ours["schema"] == theirs["schema"], query
        assert ours["rows"] == theirs["rows"], query


def test_the_queries_return_what_they_are_for(found):
    counts = [len(theirs["rows"]) for _, theirs, _ in found]
    assert counts[0] == 750 + 180 + 30 + 30
    assert counts[1] == counts[0] + 60
    assert counts[2] == counts[0] - 60 - 30
    assert all(counts)
