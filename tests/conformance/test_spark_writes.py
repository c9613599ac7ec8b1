"""A broker serves what tasks of Spark have written in the JVM."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filling import ISOLATION_LEVELS, check_with_dump_tool, seen
from kafka import Broker, complaints
from writing_job import BATCHES, ROWS

import brokerless as bl
import brokerless.spark

JOB = Path(__file__).parent / "writing_job.py"

try:
    brokerless.spark.jar()
except FileNotFoundError:
    pytest.skip("built without a JDK", allow_module_level=True)


def test_a_broker_serves_what_the_jvm_wrote(client, tmp_path):
    data = tmp_path / "data"
    command = [sys.executable, JOB, str(data), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "BROKERLESS_JAR": "1"}
    )
    assert done.returncode == 0, done.stderr
    topics = {*BATCHES, "streamed"}
    assert {log.topic for log in bl.LogDirs(data).logs()} == topics
    before = {topic: seen(data, topic) for topic in topics}
    for log in bl.LogDirs(data).logs():
        check_with_dump_tool(client, data / log.name)
    with Broker(data, log=tmp_path / "broker.log") as broker:
        for topic, rows in before.items():
            for level in ISOLATION_LEVELS:
                assert len(rows[level]) == 2 * ROWS, topic
                assert client.consume(broker, topic, level) == rows[level], topic
        # It goes on where the writes ended.
        assert client.produce(broker, "transactional", 0, 5, "commit")
        said = broker.log
    assert complaints(said) == []
    assert "Skipping recovery of" in said
