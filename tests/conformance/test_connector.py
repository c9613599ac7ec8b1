"""Spark's own Kafka source and ours, the same job over the same topics: the same rows, in the same types."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import Broker

import brokerless as bl
from support.polling import until

LATEST = -1
JOB = Path(__file__).parent / "connector_job.py"


def run(source, queries, *, jar=""):
    """Return what the job finds, a dict a query. With `jar`, ours reads in the JVM."""
    done = subprocess.run(
        [sys.executable, JOB, source, json.dumps(queries)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BROKERLESS_JAR": jar},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def by_partition(**topics):
    return json.dumps({topic: dict(enumerate(values)) for topic, values in topics.items()})


@pytest.fixture(scope="module")
def found(client, tmp_path_factory):
    """The queries, what Spark's source returns for them, and what ours does: beside the broker and without it."""
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
        moved = [{**query, "kafka.bootstrap.servers": broker.at, "path": str(directory / "data")} for query in queries]
        # A read beside the broker ends at the high watermark that the broker has checkpointed.
        written = (("orders", 0), ("orders", 1), ("payments", 0))
        ends = {place: client.offset(broker, *place, LATEST) for place in written}
        until(lambda: bl.LogDirFiles(str(directory / "data")).high_watermarks.items() >= ends.items())
        ours = {"in the JVM, beside the broker": run("brokerless", moved, jar="1")}
    ours |= {"in the JVM": run("brokerless", moved, jar="1"), "in Python": run("brokerless", moved)}
    return [
        (query, of_spark, {how: found[number] for how, found in ours.items()})
        for number, (query, of_spark) in enumerate(zip(queries, theirs, strict=True))
    ]


def test_the_rows_and_their_types_are_those_of_sparks_own_source(found):
    for query, theirs, ours in found:
        for how, of_ours in ours.items():
            assert of_ours["schema"] == theirs["schema"], (how, query)
            assert of_ours["rows"] == theirs["rows"], (how, query)


def test_the_queries_return_what_they_are_for(found):
    counts = [len(theirs["rows"]) for _, theirs, _ in found]
    assert counts[0] == 750 + 180 + 30 + 30
    assert counts[1] == counts[0] + 60
    assert counts[2] == counts[0] - 60 - 30
    assert all(counts)
