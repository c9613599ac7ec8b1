"""Missing, stale and corrupt indexes and snapshots cost speed, never rows or answers."""

import functools

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import brokerless as bl
from support import damage
from support.kafka_answers import CONSUMED_COLUMNS, as_consumed, consumed, read_json_lines

MORE_PARTITIONS = [
    ("kafka-4.1", "codec-mixed-0"),
    ("kafka-4.1", "log-append-time-0"),
    ("kafka-4.1", "txn-open-0"),
    ("kafka-4.1", "compact-txn-0"),
    ("kafka-4.1", "trimmed-delete-records-0"),
    ("kafka-2.8-mixed", "upgraded-all-codecs-0"),
    ("kafka-2.8-v1", "timestamps-out-of-order-0"),
]
PARTITIONS = [
    ("kafka-4.1", "timestamps-out-of-order-0"),
    ("kafka-4.1", "txn-interleaved-0"),
    ("kafka-2.8-v0", "trimmed-0"),
    *(pytest.param(*partition, marks=pytest.mark.slow) for partition in MORE_PARTITIONS),
]


ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@functools.cache
def undamaged(golden, log_dir, partition):
    """Return rows and answers of the golden log itself, which other tests compare with Kafka's."""
    log = bl.Log(golden / "logs" / log_dir / partition)
    queries = read_json_lines(golden / "expected" / log_dir / partition / "offsets_for_times.jsonl")
    queries = queries[:: 1 + len(queries) // 40]
    answers = {(q["query"], q["isolation"]): log.offsets_for_times(q["query"], q["isolation"]) for q in queries}
    return {level: pa.table(log.read(isolation_level=level)) for level in ISOLATION_LEVELS}, answers


def assert_rows_and_answers(golden, directory):
    log_dir, partition = directory.parts[-2:]
    expected, answers = undamaged(golden, log_dir, partition)
    log = bl.Log(directory)
    for level in ISOLATION_LEVELS:
        assert pa.table(log.read(isolation_level=level)) == expected[level]
        for target_bytes in (1, 3000):
            splits = log.plan(isolation_level=level, target_bytes=target_bytes)
            chunks = [rows for split in splits for rows in bl.read_split(split)]
            assert pa.Table.from_batches(chunks, expected[level].schema) == expected[level]
    for part in (0.3, 0.5, 0.9):
        start = int(log.log_start_offset + part * (log.log_end_offset - log.log_start_offset))
        rows = expected["read_uncommitted"]
        assert pa.table(log.read(start_offset=start)) == rows.filter(pc.field("offset") >= start)
    for (query, level), answer in answers.items():
        assert log.offsets_for_times(query, level) == answer, (query, level)


@pytest.mark.parametrize(("log_dir", "partition"), PARTITIONS)
@pytest.mark.parametrize("what", damage.OFFSET_INDEX_DAMAGE)
def test_offset_indexes(golden, copied, log_dir, partition, what):
    directory = copied(log_dir, partition)
    for path in directory.glob("*.index"):
        damage.OFFSET_INDEX_DAMAGE[what](path)
    assert_rows_and_answers(golden, directory)


@pytest.mark.parametrize(("log_dir", "partition"), PARTITIONS)
@pytest.mark.parametrize("what", damage.TIME_INDEX_DAMAGE)
def test_time_indexes(golden, copied, log_dir, partition, what):
    directory = copied(log_dir, partition)
    for path in directory.glob("*.timeindex"):
        damage.TIME_INDEX_DAMAGE[what](path)
    assert_rows_and_answers(golden, directory)


@pytest.mark.parametrize(("log_dir", "partition"), PARTITIONS)
def test_indexes_of_another_segment(golden, copied, log_dir, partition):
    directory = copied(log_dir, partition)
    for kind in ("index", "timeindex"):
        paths = sorted(directory.glob(f"*.{kind}"))
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
            path.write_bytes(content)
    assert_rows_and_answers(golden, directory)


@pytest.mark.parametrize("seed", range(20))
def test_both_indexes_of_random_bytes(golden, copied, seed):
    directory = copied("kafka-4.1", "txn-interleaved-0")
    for path in sorted(directory.glob("*index")):
        if path.suffix != ".txnindex":
            damage.randomize(path, seed)
    assert_rows_and_answers(golden, directory)


TRANSACTIONAL = [("kafka-4.1", name) for name in ("txn-abort-spanning-0", "txn-commit-abort-0", "compact-txn-0")]


@pytest.mark.parametrize(("log_dir", "partition"), [*TRANSACTIONAL, ("kafka-2.8-mixed", "txn-0")])
@pytest.mark.parametrize("what", ["zeros", "random", "garbage at the end", "out of step"])
def test_a_transaction_index_that_does_not_fit_is_not_believed(golden, copied, log_dir, partition, what):
    directory = copied(log_dir, partition)
    for path in directory.glob("*.txnindex"):
        damage.INDEX_DAMAGE[what](path)
    assert_rows_and_answers(golden, directory)


@pytest.mark.parametrize(("log_dir", "partition"), TRANSACTIONAL)
@pytest.mark.parametrize("what", ["missing", "empty"])
def test_an_absent_transaction_index_hides_no_abort(golden, copied, log_dir, partition, what):
    """A broker makes the file at the first abort, so it cannot be told from a lost one: except from the markers."""
    directory = copied(log_dir, partition)
    for path in directory.glob("*.txnindex"):
        damage.INDEX_DAMAGE[what](path)
    expected = consumed(golden, log_dir, partition, "read_committed")
    for verify in (False, True):
        log = bl.Log(directory)
        read = log.read(isolation_level="read_committed", verify_transactions=verify, columns=CONSUMED_COLUMNS)
        assert as_consumed(read) == expected
    damage.remove(directory.parent / ".kafka_cleanshutdown")
    read = bl.Log(directory).read(isolation_level="read_committed", columns=CONSUMED_COLUMNS)
    assert as_consumed(read) == expected


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("what", ["zeros", "random", "cut to half", "empty"])
@pytest.mark.parametrize(("log_dir", "partition"), [*TRANSACTIONAL, ("kafka-4.1", "txn-open-0")])
def test_unreadable_snapshots_are_replaced_by_a_walk(golden, copied, log_dir, partition, what, is_clean):
    directory = copied(log_dir, partition)
    for path in directory.glob("*.snapshot"):
        damage.INDEX_DAMAGE[what](path)
    if not is_clean:
        damage.remove(directory.parent / ".kafka_cleanshutdown")
    assert_rows_and_answers(golden, directory)


def test_a_clean_directory_without_snapshots_has_no_open_transactions(copied):
    """Kafka's own short cut: it would load the log so, and its consumers would read to the end."""
    directory = copied("kafka-4.1", "txn-open-0")
    for path in directory.glob("*.snapshot"):
        damage.remove(path)
    assert bl.Log(directory).last_stable_offset == 45
    damage.remove(directory.parent / ".kafka_cleanshutdown")
    assert bl.Log(directory).last_stable_offset == 22
