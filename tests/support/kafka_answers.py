"""What Kafka said, and our rows in the same words."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
CONSUMED_COLUMNS = ["offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers"]
# Kafka's accessor -> our column
BATCH_COLUMNS = {
    "position": "position",
    "sizeInBytes": "size",
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "countOrNull": "records_count",
    "magic": "magic",
    "crc": "crc",
    "isValid": "is_valid",
    "compression": "compression",
    "timestampType": "timestamp_type",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control",
    "deleteHorizonMs": "delete_horizon_ms",
}
PRODUCER_COLUMNS = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "lastSequence": "last_sequence",
    "lastOffset": "last_offset",
    "offsetDelta": "offset_delta",
    "timestamp": "timestamp",
    "coordinatorEpoch": "coordinator_epoch",
    "currentTxnFirstOffset": "current_txn_first_offset",
}
LOG_DIRS = sorted({line.split("/")[0] for line in (DATA / "golden" / "mtimes.tsv").read_text().splitlines()})
"""All that brokers wrote."""


def read_json_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def broker_cases(*kinds):
    """Return the cases of these kinds, as pytest parameters."""
    cases = read_json_lines(DATA / "broker-cases.jsonl")
    return [pytest.param(case, id=f"{case['case']}/{case['name']}") for case in cases if case["case"] in kinds]


def producers(entries):
    """Return the producers that a case tells of, in our words."""
    return [{ours: entry[kafka] for kafka, ours in PRODUCER_COLUMNS.items()} for entry in entries]


def consumed(golden, log_dir, partition, isolation_level):
    """Return the rows of the Java consumer; None where no consumer ever read the partition."""
    directory = golden / "expected" / log_dir / partition
    path = directory / f"consumed.{isolation_level}.jsonl"
    if not path.exists():
        path = directory / "consumed.read_uncommitted.jsonl"
    return read_json_lines(path) if path.exists() else None


def partitions(golden, log_dir):
    """Return the names of the partitions that a Java consumer has read."""
    return sorted(p.name for p in (golden / "expected" / log_dir).iterdir() if consumed(golden, log_dir, p.name, ""))


def as_consumed(batches):
    """Turn rows with CONSUMED_COLUMNS into the form of `consumed.*.jsonl`."""
    return [_consumed(row) for batch in batches for row in _milliseconds(batch).to_pylist()]


def _milliseconds(batch):
    at = batch.schema.get_field_index("timestamp")
    return batch.set_column(at, "timestamp", batch["timestamp"].cast("int64"))


def _consumed(row):
    return {
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "timestampType": TIMESTAMP_TYPES[row["timestampType"]],
        "leaderEpoch": row["leaderEpoch"],
        "key": text(row["key"]),
        **value(row["value"]),
        "headers": [[text(header["key"].encode()), text(header["value"])] for header in row["headers"]],
    }


def value(content):
    if content is not None and len(content) > 1 << 16:
        return {"valueLength": len(content), "valueSha256": hashlib.sha256(content).hexdigest()}
    return {"value": text(content)}


def text(content):
    return None if content is None else base64.b64encode(content).decode()


def as_batches(batches):
    """Turn rows of `scan` into the form of `batches.jsonl`, without `file` and `nextOffset`."""
    return [{kafka: row[ours] for kafka, ours in BATCH_COLUMNS.items()} for b in batches for row in b.to_pylist()]
