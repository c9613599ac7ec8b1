"""What a segment is said to hold is what a reader finds in it."""

import pytest

import brokerless as bl
from brokerless.errors import CorruptRecordError
from brokerless.inspection.profile import profile
from support import damage
from support.log_files import NOW, batch, marker

HOUR = 3_600_000


def totals(rows):
    """Return what the rows of a read add up to, by hour and codec."""
    found = {}
    for row in rows:
        stamp = row["timestamp"]
        stamp = None if stamp < 0 else stamp
        hour = None if stamp is None else stamp // HOUR
        known = found.setdefault((hour, row["compression"]), [0, 0, 0, 0, 0, 0, stamp, stamp])
        key, value = row["key"], row["value"]
        for i, count in enumerate((1, len(key or b""), len(value or b""), key is None, value is None)):
            known[i] += count
        known[5] += len(row["headers"])
        if stamp is not None:
            known[6:] = [min(known[6], stamp), max(known[7], stamp)]
    return found


FACTS = (
    "records",
    "key_bytes",
    "value_bytes",
    "null_keys",
    "tombstones",
    "headers",
    "first_timestamp",
    "last_timestamp",
)


@pytest.mark.parametrize("log_dir", ["kafka-4.1", "kafka-2.8-mixed", "kafka-4.1-compacted"])
def test_golden_logs(golden, log_dir):
    columns = ["key", "value", "headers", "timestamp", "compression"]
    checked = 0
    for log in bl.LogDirs(golden / "logs" / log_dir).logs():
        if log.log_start_offset > 0:
            continue
        sums = profile(*log.segments).to_pylist()
        rows = []
        for part in log.read(columns=columns):
            stamps = part["timestamp"].cast("int64")
            rows += part.set_column(3, "timestamp", stamps).to_pylist()
        with_records = [row for row in sums if row["records"]]
        found = {(row["hour"], row["compression"]): [row[name] for name in FACTS] for row in with_records}
        if len({row["magic"] for row in with_records}) == 1:
            assert found == totals(rows), log
            checked += 1
        headers = [header for part in log.scan() for header in part.to_pylist()]
        sizes = [header["size"] for header in headers]
        assert sum(row["batches"] for row in sums) == len(headers)
        assert sum(row["bytes"] for row in sums) == sum(sizes)
        if headers:
            assert min(row["min_batch_bytes"] for row in sums if row["batches"]) == min(sizes)
            assert max(row["max_batch_bytes"] for row in sums if row["batches"]) == max(sizes)
            assert max(row["last_offset"] for row in sums if row["batches"]) == log.log_end_offset - 1
        assert sum(row["control_records"] for row in sums) == sum(header["is_control"] for header in headers)
    assert checked > 3


@pytest.fixture
def log(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        yield log_dir.log("t", 0)


def test_a_batch_counts_in_the_hour_of_its_largest_timestamp(log):
    """Its records in those of their own; a marker is no record."""
    start = NOW // HOUR * HOUR
    fields = {"producer_id": 7, "base_sequence": 0, "transactional": True}
    log.append(batch(0, [b"1", None, b"333"], keys=[b"k", b"k", None], timestamp=start, step=HOUR, **fields))
    log.append(marker(0, 7, commit=True, timestamp=start), origin="coordinator")
    log.flush()
    (segment,) = bl.Log(log.directory).segments
    names = ("hour", "batches", "records", "control_records", "key_bytes", "value_bytes", "null_keys", "tombstones")
    rows = sorted(tuple(row[name] for name in names) for row in profile(segment).to_pylist())
    first = start // HOUR
    assert rows == [
        (first, 1, 1, 1, 1, 1, 0, 0),
        (first + 1, 0, 1, 0, 1, 0, 0, 1),
        (first + 2, 1, 1, 0, 0, 3, 1, 0),
    ]


def test_damage_is_no_number(log):
    log.append(batch(0, [b"1"], timestamp=NOW))
    log.append(batch(0, [b"2"], timestamp=NOW))
    log.flush()
    (segment,) = bl.Log(log.directory).segments
    damage.flip_bit(segment.path, 65)
    with pytest.raises(CorruptRecordError, match=r"crc mismatch at .*\.log:0"):
        profile(segment)
