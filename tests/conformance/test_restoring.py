"""Logs of a real broker, exported and restored, in the hands of another one."""

import pytest
from filling import ISOLATION_LEVELS, check_with_dump_tool, seen
from kafka import Broker, complaints

from support.spark_stand_in import Here

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.spark import export, restore

TOPICS = {
    "kafka-4.1": [
        "headers",
        "leader-epochs",
        "log-append-time",
        "nulls",
        "retention-all",
        "trimmed-delete-records",
        "trimmed-to-end",
        "txn-interleaved",
        "txn-open",
    ],
    "kafka-2.8-mixed": ["txn", "upgraded-all-codecs", "upgraded-compact"],
}


@pytest.mark.parametrize(
    ("log_dir", "level"), [("kafka-4.1", "read_committed"), ("kafka-2.8-mixed", "read_uncommitted")]
)
def test_a_broker_serves_what_was_restored(client, golden, tmp_path, log_dir, level):
    """Gaps, markers that are not there any more, starts above 0, and ends behind the last record among it."""
    path, options = str(golden / "logs" / log_dir), {"kafka.isolation.level": level}
    export(Here(), path, str(tmp_path / "e"), topics=TOPICS[log_dir], options=options)
    data = tmp_path / "data"
    restore(Here(), str(tmp_path / "e"), str(data), compression="lz4")
    logs = bl.LogDirs(data).logs()
    topics = TOPICS[log_dir]
    before = {topic: seen(data, topic) for topic in topics}
    starts = {log.name: log.log_start_offset for log in logs}
    ends = {log.name: log.log_end_offset for log in logs}
    for log in logs:
        check_with_dump_tool(client, data / log.name)
    with Broker(data, log=tmp_path / "broker.log") as broker:
        for topic in topics:
            for each in ISOLATION_LEVELS:
                assert client.consume(broker, topic, each) == before[topic][each]
            client.produce(broker, topic, 0, 20)
        said = broker.log
    assert complaints(said) == []
    assert "Skipping recovery of" in said
    after = {log.name: log for log in bl.LogDirs(data).logs(topics)}
    assert {name: log.log_end_offset - ends[name] for name, log in after.items()} == dict.fromkeys(ends, 20)
    assert {name: log.log_start_offset for name, log in after.items()} == starts
