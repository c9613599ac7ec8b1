"""Spark gives the rows that the real consumers got. Also run on the oldest Spark and Arrow that are supported."""

import pytest

from support.kafka_answers import LOG_DIRS, TIMESTAMP_TYPES, consumed, text, value

CONSUMED = [name for name in LOG_DIRS if not name.endswith(("-compaction", "-compacted", "-crashed"))]
COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType,headers,leaderEpoch"


def rows_of(frame):
    """Return the rows in the form of consumed.*.jsonl, by topic-partition."""
    from pyspark.sql import functions as f

    found = {}
    exact = frame.withColumn("timestamp", f.unix_micros("timestamp"))
    for row in sorted(exact.collect(), key=lambda row: (row.topic, row.partition, row.offset)):
        found.setdefault(f"{row.topic}-{row.partition}", []).append(
            {
                "offset": row.offset,
                "timestamp": row.timestamp // 1000,
                "timestampType": TIMESTAMP_TYPES[row.timestampType],
                "leaderEpoch": row.leaderEpoch,
                "key": text(row.key),
                **value(None if row.value is None else bytes(row.value)),
                "headers": [[text(header.key.encode()), text(header.value)] for header in row.headers or []],
            }
        )
    return found


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("log_dir", CONSUMED)
def test_rows_equal_what_the_consumer_returned(log_dir, isolation_level, golden, load):
    expected = {}
    for directory in (golden / "expected" / log_dir).iterdir():
        rows = consumed(golden, log_dir, directory.name, isolation_level) if directory.is_dir() else None
        if rows is not None:
            expected[directory.name] = rows
    topics = {name.rpartition("-")[0] for name in expected}
    frame = load(
        golden / "logs" / log_dir,
        columns=COLUMNS,
        subscribe=",".join(topics),
        kafka__isolation__level=isolation_level,
    )
    found = rows_of(frame)
    for name, rows in expected.items():
        first = found.get(name, rows)[0]["offset"] if log_dir.endswith("-tiered") and name.startswith("tiered-") else 0
        assert found.get(name, []) == [row for row in rows if row["offset"] >= first], name
    assert expected


def test_batches_equal_what_file_records_iterates(golden, load):
    import json

    expected = [
        (path.parent.name, line["position"], line["crc"], line["baseOffset"], line["isValid"])
        for path in sorted((golden / "expected/kafka-4.1").glob("*/batches.jsonl"))
        for line in map(json.loads, path.read_text().splitlines())
        if "sizeInBytes" in line and not path.parent.name.startswith("__")
    ]
    schema = "topic string, partition int, position long, crc long, base_offset long, is_valid boolean"
    rows = load(golden / "logs/kafka-4.1", schema, view="batches").collect()
    found = [(f"{row.topic}-{row.partition}", row.position, row.crc, row.base_offset, row.is_valid) for row in rows]
    assert sorted(found) == sorted(expected)
