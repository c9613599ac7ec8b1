"""The logs of real brokers give the rows, batches and times that Kafka's own clients and classes gave."""

import os
import warnings
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from support.kafka_answers import (
    BATCH_COLUMNS,
    CONSUMED_COLUMNS,
    LOG_DIRS,
    as_batches,
    as_consumed,
    consumed,
    read_json_lines,
)

ISOLATION_LEVELS = ["read_uncommitted", "read_committed"]
# A tiered log has a note, as a test here shows.
pytestmark = pytest.mark.filterwarnings("ignore:.* in remote storage, or were deleted")


def partitions(golden, log_dir):
    return sorted(path.name for path in (golden / "expected" / log_dir).iterdir() if path.is_dir())


def tiered(golden, log_dir, partition):
    """Return the first local offset of a partition whose older part is in remote storage, else 0."""
    is_tiered = log_dir.endswith("-tiered") and partition.startswith("tiered-")
    return bl.Log(golden / "logs" / log_dir / partition).local_log_start_offset if is_tiered else 0


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_rows_equal_what_the_consumer_returned(golden, log_dir, isolation_level):
    compared = 0
    for partition in partitions(golden, log_dir):
        expected = consumed(golden, log_dir, partition, isolation_level)
        if expected is None:
            continue
        log = bl.Log(golden / "logs" / log_dir / partition)
        local = tiered(golden, log_dir, partition)
        rows = as_consumed(log.read(isolation_level=isolation_level, columns=CONSUMED_COLUMNS))
        assert rows == [row for row in expected if row["offset"] >= local], partition
        assert log.missing_offsets == ((0, local) if local else None), partition
        compared += 1
    is_consumed = not log_dir.endswith(("-compaction", "-compacted", "-crashed"))
    assert (compared > 0) == is_consumed


@pytest.mark.parametrize("target_bytes", [1, 2000, 20000])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_splits_hold_each_row_once_wherever_they_are_cut(golden, log_dir, target_bytes):
    for partition in partitions(golden, log_dir):
        for isolation_level in ISOLATION_LEVELS:
            expected = consumed(golden, log_dir, partition, isolation_level)
            if expected is None:
                continue
            log = bl.Log(golden / "logs" / log_dir / partition)
            splits = log.plan(isolation_level=isolation_level, target_bytes=target_bytes)
            rows = [row for split in splits for row in as_consumed(bl.read_split(split, CONSUMED_COLUMNS))]
            local = tiered(golden, log_dir, partition)
            assert rows == [row for row in expected if row["offset"] >= local], partition


@pytest.mark.parametrize("log_dir", [name for name in LOG_DIRS if not name.endswith("-crashed")])
def test_aborted_transactions_are_the_same_from_markers_and_from_indexes(golden, log_dir):
    for partition in partitions(golden, log_dir):
        log = bl.Log(golden / "logs" / log_dir / partition)
        read = {
            verify: as_consumed(
                log.read(isolation_level="read_committed", verify_transactions=verify, columns=CONSUMED_COLUMNS)
            )
            for verify in (False, True)
        }
        assert read[True] == read[False], partition


@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_scan_equals_what_file_records_iterates(golden, log_dir):
    for partition in partitions(golden, log_dir):
        expected = {}
        for line in read_json_lines(golden / "expected" / log_dir / partition / "batches.jsonl"):
            expected.setdefault(line["file"], []).append(line)
        for segment in bl.Log(golden / "logs" / log_dir / partition).segments:
            lines = expected.pop(Path(segment.path).name, [])
            whole = [{name: line[name] for name in BATCH_COLUMNS} for line in lines if "sizeInBytes" in line]
            assert as_batches(segment.scan(check_crcs=True)) == whole, segment
        assert not expected


@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_times_equal_the_brokers_answers(golden, log_dir):
    for partition in partitions(golden, log_dir):
        path = golden / "expected" / log_dir / partition / "offsets_for_times.jsonl"
        if not path.exists():
            continue
        log = bl.Log(golden / "logs" / log_dir / partition)
        local = tiered(golden, log_dir, partition)
        for line in read_json_lines(path):
            is_remote = local and line["query"] >= 0 and line["offset"] < local
            if "error" in line or is_remote:
                continue
            answer = log.offsets_for_times(line["query"], line["isolation"])
            expected = bl.OffsetAndTimestamp(line["offset"], line["timestamp"], line["leaderEpoch"])
            assert answer == expected, (partition, line)


def test_an_emptied_first_segment_answers_for_its_file_time(copied):
    """Kafka's own surprise: only the first segment that is late enough is searched, and an empty one is as its file."""
    directory = copied("kafka-2.8-v1", "compact-0")
    assert (directory / "00000000000000000000.log").stat().st_size == 0
    assert bl.Log(directory).offsets_for_times(1_400_000_000_000).offset == -1
    os.utime(directory / "00000000000000000000.log", (1, 1))
    assert bl.Log(directory).offsets_for_times(1_400_000_000_000).offset > 0


def test_recovery_changes_only_what_a_reader_does_not_see(golden):
    """What is read of a crashed directory is what the broker kept of it: damage aside, which recovery cuts off."""
    for partition in partitions(golden, "kafka-4.1-crashed"):
        if partition.startswith("__cluster") or partition == "crash-zstd-0":  # written on; a bit flipped
            continue
        for isolation_level in ISOLATION_LEVELS:
            crashed = bl.Log(golden / "logs" / "kafka-4.1-crashed" / partition)
            with warnings.catch_warnings():
                # One was cut by hand, below its high watermark.
                warnings.filterwarnings("ignore", "crash-cut-0 ends at 207, but .*-checkpoint says 210")
                rows = as_consumed(crashed.read(isolation_level=isolation_level, columns=CONSUMED_COLUMNS))
            expected = consumed(golden, "kafka-4.1-recovered", partition, isolation_level)
            assert [row["offset"] for row in rows] == [row["offset"] for row in expected][: len(rows)], partition


def test_the_flipped_bit_is_reported_after_the_rows_before_it(golden):
    log = bl.Log(golden / "logs" / "kafka-4.1-crashed" / "crash-zstd-0")
    rows = []
    with pytest.raises(bl.errors.CorruptRecordError) as caught:
        rows.extend(log.read(columns=CONSUMED_COLUMNS))
    assert caught.value.path.endswith("00000000000000000282.log")
    assert "crc" in str(caught.value)
    assert as_consumed(rows) == consumed(golden, "kafka-4.1-recovered", "crash-zstd-0", "read_uncommitted")


def test_batches_made_by_the_records_builder(golden):
    decoded = 0
    for line in read_json_lines(golden / "batches" / "batches.jsonl"):
        data = (golden / "batches" / line["file"]).read_bytes()
        headers, consumed_bytes = _native.scan(data, check_crcs=True)
        assert consumed_bytes == line["length"]
        found = headers.to_pylist()
        assert as_batches([headers]) == [{name: batch[name] for name in BATCH_COLUMNS} for batch in line["batches"]]
        for batch, ours in zip(line["batches"], found, strict=True):
            for kafka, column in (
                ("attributes", "attributes"),
                ("lastOffsetDelta", "last_offset_delta"),
                ("baseTimestamp", "base_timestamp"),
                ("recordsCount", "records_count"),
            ):
                assert batch.get(kafka, ours[column]) == ours[column], line["file"]
            assert_records(golden, line["file"], data, batch)
            decoded += 1
    assert decoded == 214


def assert_records(golden, name, data, batch):
    entry = data[batch["position"] : batch["position"] + batch["sizeInBytes"]]
    columns = ["offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers", "sequence"]
    decoder = _native.Decoder(columns, check_crcs=batch["isValid"], start_offset=-(1 << 63))
    if "recordsError" in batch:
        with pytest.raises((bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError)):
            decoder.decode(entry)
        return
    expected = batch.get("records")
    if expected is None:
        expected = read_json_lines(golden / "batches" / batch["recordsFile"])
    rows = []
    position = 0
    while position < len(entry):
        chunk, consumed_bytes = decoder.decode(entry[position:], position)
        assert consumed_bytes
        position += consumed_bytes
        if chunk is not None:
            rows += zip(as_consumed([chunk]), chunk["sequence"].to_pylist(), strict=True)
    if batch["isControlBatch"]:
        assert rows == []
        return
    assert [row for row, _ in rows] == [
        {
            "offset": record["offset"],
            "timestamp": record["timestamp"],
            "timestampType": batch["timestampType"],
            "leaderEpoch": None if batch["partitionLeaderEpoch"] < 0 else batch["partitionLeaderEpoch"],
            "key": record["key"],
            **{field: record[field] for field in ("value", "valueLength", "valueSha256") if field in record},
            "headers": record["headers"],
        }
        for record in expected
    ], name
    assert [sequence for _, sequence in rows] == [
        None if record["sequence"] < 0 else record["sequence"] for record in expected
    ], name


def test_batches_made_by_the_records_builder_as_a_lone_file(golden, tmp_path):
    """Offsets up to the greatest there is, and wrappers whose own offset says less than what is in them."""
    for line in read_json_lines(golden / "batches" / "batches.jsonl"):
        if any("recordsError" in batch or not batch["isValid"] for batch in line["batches"]):
            continue
        path = tmp_path / line["file"].replace(".bin", ".log")
        path.write_bytes((golden / "batches" / line["file"]).read_bytes())
        expected = []
        for batch in line["batches"]:
            records = batch.get("records")
            if records is None:
                records = read_json_lines(golden / "batches" / batch["recordsFile"])
            expected += [] if batch["isControlBatch"] else records
        rows = as_consumed(bl.Log(path).read(columns=CONSUMED_COLUMNS))
        assert [row["offset"] for row in rows] == [record["offset"] for record in expected], line["file"]


def test_a_read_of_a_tiered_log_notes_the_offsets_that_are_not_here(golden):
    """Otherwise a table seems to be all of the log. A read that begins at an offset asks for nothing more."""
    directories = bl.LogDirs(golden / "logs/kafka-4.1-tiered")
    log = next(log for log in directories.logs() if log.missing_offsets)
    first, end = log.missing_offsets
    note = f"{log.name} has no offsets {first} to {end - 1} here: they are in remote storage, or were deleted"
    with pytest.warns(UserWarning, match=f"^{note}$"):
        reader = log.read()
    assert reader.notes == [note]
    with pytest.warns(UserWarning, match=f"^{note}$"):
        assert log.to_table().num_rows == reader.read_all().num_rows
    # The remote part may have records of that time, too.
    with pytest.warns(UserWarning, match=f"^{note}$"):
        assert log.read(start_timestamp=0).notes == [note]
    several = directories.read([log.topic], [log.partition])
    with pytest.warns(UserWarning, match=f"^{note}$"):
        several.read_all()
    assert several.notes == [note]
    assert log.read(end).notes == log.read("latest").notes == log.read(start_timestamp=1 << 50).notes == []
