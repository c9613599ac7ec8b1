"""What a log is after a truncation, a deletion of records or a damaged index: as Kafka's own log classes leave it.

The expected values are those of Kafka 4.1's `UnifiedLog` and `Cleaner`, given the same operations.
"""

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.layout import file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.recovery.loader import load
from support.log_files import NOW, batch, marker


def open_log(directory, *, now=NOW, recovery_point=0, **config):
    directory.mkdir(exist_ok=True)
    return LogWriter.open(
        str(directory),
        config=TopicConfig(**config),
        is_clean=True,
        leader_epoch=0,
        recovery_point=recovery_point,
        now=lambda: now,
    )


def time_entries(directory, base_offset=0):
    content = (directory / file_names.segment_file(base_offset, file_names.TIMEINDEX)).read_bytes()
    return [(row["timestamp"], row["offset"]) for row in _native.TimeIndex(content, base_offset).entries().to_pylist()]


def transaction_in_an_older_segment(log):
    """Append a transaction's record, two plain ones, and in the next segment its marker and two more."""
    log.append(batch(0, [b"1"], timestamp=NOW, producer_id=1, base_sequence=0, transactional=True))
    for value in (b"2", b"3"):
        log.append(batch(0, [value], timestamp=NOW))
    log.roll()
    log.append(marker(0, 1, commit=True, timestamp=NOW), origin="coordinator")
    for value in (b"4", b"5"):
        log.append(batch(0, [value], timestamp=NOW))


def test_truncation_keeps_the_largest_timestamp_of_what_is_left(tmp_path):
    """Retention takes a segment without it for as new as its file."""
    with open_log(tmp_path / "t-0") as log:
        for later in (5, 3, 9):
            log.append(batch(0, [b"v"], timestamp=NOW + later))
        log.truncate_to(2)
    assert time_entries(tmp_path / "t-0") == [(NOW + 5, 0)]


def test_a_transaction_that_has_ended_holds_nothing_back_after_truncation(tmp_path):
    with open_log(tmp_path / "t-0") as log:
        transaction_in_an_older_segment(log)
        assert log.last_stable_offset == 6
        log.truncate_to(5)
        assert log.last_stable_offset == 5


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_transaction_that_has_ended_holds_nothing_back_without_the_last_snapshot(tmp_path, is_clean):
    with open_log(tmp_path / "t-0") as log:
        transaction_in_an_older_segment(log)
    (tmp_path / "t-0" / file_names.segment_file(6, file_names.SNAPSHOT)).unlink()
    with LogWriter.open(str(tmp_path / "t-0"), config=TopicConfig(), is_clean=is_clean) as log:
        assert log.last_stable_offset == 6


@pytest.mark.parametrize(("kind", "entry"), [(file_names.INDEX, 8), (file_names.TIMEINDEX, 12)])
@pytest.mark.parametrize("stray", [1, 5])
def test_an_index_goes_on_behind_its_last_whole_entry(tmp_path, kind, entry, stray):
    """What is appended behind a part of an entry is read shifted by that."""
    whole, cut = tmp_path / "whole-0", tmp_path / "cut-0"
    for directory in (whole, cut):
        with open_log(directory, index_interval_bytes=1) as log:
            for later in range(4):
                log.append(batch(0, [b"v"], timestamp=NOW + later))
    for directory, size in ((whole, entry), (cut, entry + stray)):
        with (directory / file_names.segment_file(0, kind)).open("r+b") as file:
            file.truncate(size)
        with open_log(directory, recovery_point=4, index_interval_bytes=1) as log:
            for later in range(4, 8):
                log.append(batch(0, [b"v"], timestamp=NOW + later))
    for name in (file_names.segment_file(0, kind) for kind in (file_names.INDEX, file_names.TIMEINDEX)):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


def test_what_records_are_deleted_up_to_the_end_of_needs_no_snapshot(tmp_path):
    with open_log(tmp_path / "t-0") as log:
        log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, base_sequence=0))
        log.run(bl.Retention(before_offset=1))
    assert not list((tmp_path / "t-0").glob("*.snapshot"))
    with open_log(tmp_path / "u-0") as log:
        log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, base_sequence=0))
        log.roll()
        log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, base_sequence=1))
        log.run(bl.Retention(before_offset=1))
    assert (tmp_path / "u-0" / file_names.segment_file(2, file_names.SNAPSHOT)).exists()


def test_producers_that_had_expired_do_not_come_back_with_truncation(tmp_path):
    config = {"producer_id_expiration_ms": 1000}
    with open_log(tmp_path / "t-0", **config) as log:
        log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, base_sequence=0))
        log.append(batch(0, [b"v"], timestamp=NOW))
    with open_log(tmp_path / "t-0", now=NOW + 5000, recovery_point=2, **config) as log:
        log.truncate_to(1)
        sent = batch(0, [b"v"], timestamp=NOW + 5000, producer_id=1, base_sequence=7)
        assert log.append(sent).first_offset == 1


def test_the_largest_timestamp_is_not_looked_for_in_messages_without_one(tmp_path):
    with bl.Producer(tmp_path / "d", "t", magic=0) as producer:
        producer.send([{"value": b"v"}])
    assert bl.LogDirs(tmp_path / "d").log("t", 0).offsets_for_times(-3).offset == -1


def test_the_cleaner_does_not_follow_transactions_that_were_aborted_below_the_log_start(tmp_path):
    """Their batches stay as they are, in the segment that holds the log start."""
    directory = tmp_path / "t-0"
    with open_log(directory, cleanup_policy="compact,delete") as log:
        aborted = {"producer_id": 1, "base_sequence": 0, "transactional": True}
        log.append(batch(0, [b"1"], keys=[b"a"], timestamp=NOW, **aborted))
        log.append(marker(0, 1, commit=False, timestamp=NOW), origin="coordinator")
        for value in (b"2", b"3"):
            log.append(batch(0, [value], keys=[b"b"], timestamp=NOW))
        log.roll()
        log.append(batch(0, [b"4"], keys=[b"c"], timestamp=NOW))
        log.run(bl.Retention(before_offset=2))
        log.run(bl.Compaction())
    found = _native.scan((directory / file_names.segment_file(0, file_names.LOG)).read_bytes())[0].to_pylist()
    assert [(row["base_offset"], row["records_count"], row["is_control"]) for row in found] == [
        (0, 1, False),
        (1, 1, True),
        (3, 1, False),
    ]
    assert not (directory / file_names.segment_file(0, file_names.TXNINDEX)).exists()


def test_recovery_takes_the_snapshot_where_the_producers_batches_end(tmp_path):
    """A message behind them says nothing of producers (`LogSegment.recover`)."""
    directory = tmp_path / "t-0"
    with open_log(directory) as log:
        log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, base_sequence=0))
    encoder = _native.Encoder(magic=1)
    rows = pa.record_batch({"value": pa.array([b"v"], pa.binary())})
    message = bytearray(encoder.encode(rows, timestamp=NOW))
    message[:8] = (1).to_bytes(8)
    with (directory / file_names.segment_file(0, file_names.LOG)).open("ab") as file:
        file.write(message)
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    with LogWriter.open(str(directory), config=TopicConfig(), is_clean=False) as log:
        assert log.log_end_offset == 2
    assert [path.name for path in sorted(directory.glob("*.snapshot"))] == [
        file_names.segment_file(offset, file_names.SNAPSHOT) for offset in (1, 2)
    ]


def test_a_crash_while_indexes_are_rebuilt_is_made_good(tmp_path):
    """Below the recovery point nothing but a missing offset index says that the others are to be rebuilt, too."""

    def prepared(directory):
        with open_log(directory) as log:
            log.append(batch(0, [b"1"], timestamp=NOW, producer_id=1, base_sequence=0, transactional=True))
            log.append(marker(0, 1, commit=False, timestamp=NOW), origin="coordinator")
            log.roll()
        for kind in (file_names.INDEX, file_names.TIMEINDEX, file_names.TXNINDEX):
            (directory / file_names.segment_file(0, kind)).unlink()

    def load_here(directory):
        return load(str(directory), TopicConfig(), is_clean=True, recovery_point=2, log_start_offset=0, now=NOW).changes

    prepared(tmp_path / "whole-0")
    changes = load_here(tmp_path / "whole-0")
    count = len(changes.steps)
    assert count >= 3
    changes.apply()
    found = {path.name: path.read_bytes() for path in (tmp_path / "whole-0").iterdir()}
    assert found[file_names.segment_file(0, file_names.TXNINDEX)]
    for steps in range(count):
        crashed = tmp_path / f"t-{steps}"
        prepared(crashed)
        changes = load_here(crashed)
        del changes.steps[steps:]
        changes.apply()
        load_here(crashed).apply()
        assert {path.name: path.read_bytes() for path in crashed.iterdir()} == found


def test_an_empty_active_segment_stays_where_all_are_deleted(tmp_path):
    with open_log(tmp_path / "t-0") as log:
        log.append(batch(0, [b"1"], timestamp=NOW))
        log.roll()
        log.delete_segments(2)
        log.append(batch(0, [b"2"], timestamp=NOW))
    log = bl.Log(tmp_path / "t-0")
    assert [value for rows in log.read() for value in rows["value"].to_pylist()] == [b"2"]
    assert [segment.base_offset for segment in log.segments] == [1]


def test_a_topic_of_an_old_format_forgets_producers_whatever_snapshots_say(tmp_path):
    """Log.rebuildProducerState of 2.8: it takes empty snapshots, and the next batch of the producer is its first."""
    with bl.create_log_dir(tmp_path / "d") as directory:
        directory.create_topic("t")
        directory.log("t", 0).append(batch(0, [b"a"], producer_id=7, base_sequence=0))
    with bl.open_log_dir(tmp_path / "d") as directory:
        directory.log("t", 0, message_format=1)
    with bl.open_log_dir(tmp_path / "d") as directory:
        directory.log("t", 0).append(batch(0, [b"b"], producer_id=7, base_sequence=5))
