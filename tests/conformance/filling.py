"""Records of every kind for real brokers to read, and what Kafka's tools and we see of a topic."""

import time

import pyarrow as pa
from kafka import as_consumed

import brokerless as bl
from brokerless import _native
from support.polling import PATIENCE, until

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Far from the ids that brokers hand out.
PRODUCER = 1 << 62
# ListOffsetsRequest.EARLIEST_LOCAL_TIMESTAMP: where the log starts on this broker's disk
EARLIEST_LOCAL = -4
NOW = time.time_ns() // 1_000_000


def rows(count, start=0, with_headers=True, keyed=False):
    """Rows with nulls (of keys too, unless they are keyed), empty values, and headers whose names repeat."""
    numbers = range(start, start + count)
    headers = [[("h", b"%d" % i), ("h", None)] if i % 3 == 0 else [] for i in numbers]
    columns = {
        "key": pa.array([None if i % 5 == 0 and not keyed else b"key-%d" % (i % 7) for i in numbers], pa.binary()),
        "value": pa.array([None if i % 11 == 10 else b"value-%d" % i * (i % 13) for i in numbers], pa.binary()),
        "timestamp": pa.array([NOW - 1000 + i for i in numbers], pa.timestamp("ms", "UTC")),
        "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    return pa.record_batch({name: column for name, column in columns.items() if with_headers or name != "headers"})


def write(log, count, codec="none", *, keyed=False, **options):
    """Append rows as a producer would, some batches of them."""
    encoder = _native.Encoder(compression=codec, batch_size=2000, **options)
    is_legacy = options.get("magic", 2) < 2
    return log.append_each(encoder.encode(rows(count, log.log_end_offset, not is_legacy, keyed), timestamp=NOW))


def transaction(log, producer_id, count, *, commit, keyed=False):
    write(log, count, keyed=keyed, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = _native.end_transaction_marker(
        producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, timestamp=NOW
    )
    log.append(marker, origin="coordinator")


def check_with_dump_tool(client, directory):
    """Let Kafka's own tool compare the indexes with the logs."""
    files = sorted(path for path in directory.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    for option in ("--index-sanity-check", "--verify-index-only"):
        said = client.dump_log(files, option)
        assert not [word for word in ("Mismatches", "Found", "Exception", "invalid: ", "mismatch") if word in said], (
            said
        )
    assert said.count(".index") >= 1
    logs = client.dump_log([path for path in files if path.suffix == ".log"], "--deep-iteration")
    assert "isvalid: false" not in logs
    assert "not fully" not in logs
    assert "Found" not in logs


def seen(data, topic):
    """Return our rows of a topic in each isolation level, as they are now."""
    return {level: as_consumed(bl.LogDirs(data), topic, level) for level in ISOLATION_LEVELS}


def tier(client, broker, topic):
    """Create a tiered topic, and write until some of its segments are in the remote storage alone."""
    kept = {"remote_storage_enable": "true", "local_retention_bytes": 1, "internal_segment_bytes": 2000}
    client.create(broker, topic, **kept)
    client.produce(broker, topic, 0, 20)
    deadline = time.monotonic() + PATIENCE
    while client.offset(broker, topic, 0, EARLIEST_LOCAL) < 40:
        client.produce(broker, topic, 0, 20)
        assert time.monotonic() < deadline, "no segment was moved to the remote storage"


def wait_until_moved(client, broker, directory):
    """Wait until nothing but the active segment of a tiered partition is on the broker's disk: no more will go."""
    topic, _, partition = directory.name.rpartition("-")

    def active():
        return max(int(path.stem) for path in directory.glob("*.log"))

    until(lambda: client.offset(broker, topic, int(partition), EARLIEST_LOCAL) == active())


def data_batches(directory, number):
    """Return the path of a partition's segment, by its number, and its batches but for those of markers."""
    found = bl.Log(directory).segments[number]
    return found.path, [row for part in found.scan() for row in part.to_pylist() if not row["is_control"]]
