"""Retention with the results of Kafka's own classes, DeleteRecords, and logs as they were at some moment."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import brokerless as bl
from brokerless.io import storage
from brokerless.rewriting.compact.compact import Compaction
from brokerless.rewriting.retain import Retention
from brokerless.rewriting.truncate import Truncation
from support.kafka_answers import broker_cases
from support.log_files import batch, marker
from support.memory_log import from_kafka

T = 1_700_000_000_000


def opened(path, **settings):
    path.mkdir(exist_ok=True)
    return bl.LogWriter.open(str(path), config=bl.TopicConfig(**settings), is_clean=True, now=lambda: T)


@pytest.fixture
def make(tmp_path):
    """Return a function that writes three segments of one record, 70 bytes each, at 0, 1 and 2."""

    def make(**settings):
        log = opened(tmp_path / "t-0", segment_bytes=100, **settings)
        for i in range(3):
            log.append_as_follower(batch(i, [b"%02d" % i], timestamp=T + 1000 * i, leader_epoch=i))
        return log

    return make


def seen(log):
    found = bl.Log(log.directory)
    return [int(value) for rows in found.read(start_offset=log.log_start_offset) for value in rows["value"].to_pylist()]


def bases(log):
    return [segment.base_offset for segment in bl.Log(log.directory).segments]


def test_the_cases_are_all_there():
    assert len(broker_cases("retention")) == 11


@pytest.mark.parametrize("case", broker_cases("retention"))
def test_retention(case, make):
    config = from_kafka(case["config"])
    limits = {name: config.pop(name) for name in ("retention_ms", "retention_bytes") if name in config}
    log = make(**config)
    assert [segment.size for segment in log.state().segments] == [70, 70, 70]
    verb = Retention(**{name: value for name, value in limits.items() if value >= 0})
    state = replace(log.state(), now=case["now"], high_watermark=case["highWatermark"])
    outcome = verb.work(verb.plan(state), dry_run=False, progress=lambda _: None)
    assert outcome.report.deleted_segments == case["deleted"]
    log.enforce(outcome)
    expected = case["state"]
    assert (log.log_start_offset, log.log_end_offset) == (expected["logStartOffset"], expected["logEndOffset"])
    assert outcome.report.log_start_offset == expected["logStartOffset"]
    assert bases(log) == [segment["baseOffset"] for segment in expected["segments"]]
    assert [list(entry) for entry in bl.Log(log.directory).leader_epochs] == expected["epochs"]
    names = sorted(storage.list_directory(log.directory))
    assert names == sorted(name for name in case["files"] if not name.endswith(".deleted"))
    log.append_as_follower(batch(3, [b"03"], timestamp=T, leader_epoch=2))
    log.close()
    assert seen(log) == [*range(expected["logStartOffset"], 3), 3]


def test_without_a_limit_nothing_goes(make):
    log = make()
    report = log.run(bl.Retention())
    assert (report.deleted_segments, report.deleted_size, bases(log)) == (0, 0, [0, 1, 2])


def test_segments_without_timestamps_are_as_old_as_their_files(tmp_path):
    """And keep those behind them."""
    log = opened(tmp_path / "t-0", segment_bytes=100)
    for i, timestamp in enumerate((T - 5000, -1, T - 5000, T)):
        log.append_as_follower(batch(i, [b"%02d" % i], timestamp=timestamp))
    # the file is of today, the clock of the log years behind
    assert log.run(Retention(retention_ms=1000)).deleted_segments == 1
    assert bases(log) == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "start", "left"),
    [(0, 0, [0, 3, 6, 9]), (2, 2, [0, 3, 6, 9]), (3, 3, [3, 6, 9]), (8, 8, [6, 9]), (12, 12, [9]), (-1, 12, [9])],
)
def test_deleting_records(tmp_path, before, start, left):
    """Kafka leaves the active segment, whatever is in it."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=250)
        log = log_dir.log("t", 0)
        for i in range(12):
            log.append(batch(0, [b"%d" % i], timestamp=T + i))
        report = log.run(Retention(before_offset=before))
        assert (log.log_start_offset, report.log_start_offset) == (start, start)
    found = bl.LogDirs(tmp_path / "data")
    assert [segment.base_offset for segment in found.log("t", 0).segments] == left
    assert [int(v) for rows in found.log("t", 0).read() for v in rows["value"].to_pylist()] == list(range(start, 12))
    assert found.roots[0].log_start_offsets == ({} if start == left[0] else {("t", 0): start})
    with bl.open_log_dir(tmp_path / "data", sole_replica=True) as log_dir:
        assert log_dir.log("t", 0).log_start_offset == start
        # it does not move back
        assert log_dir.log("t", 0).run(Retention(before_offset=0)).log_start_offset == start


def test_records_are_deleted_up_to_the_high_watermark(make):
    """DeleteRecords takes -1 for that, and no other negative number."""
    log = make()
    with pytest.raises(ValueError, match="before_offset=-2: -1 or more needed"):
        log.run(bl.Retention(before_offset=-2))
    assert (log.run(bl.Retention(before_offset=-1)).log_start_offset, bases(log)) == (3, [2])


def test_without_a_policy_records_are_deleted_as_by_brokers_since_42(make):
    log = make(cleanup_policy="")
    with pytest.raises(ValueError, match=r"its cleanup.policy is empty, and brokers of 4\.1 refuse that"):
        log.run(bl.Retention(before_offset=1, release="4.1"))
    assert log.log_start_offset == 0
    assert log.run(bl.Retention(before_offset=1)).log_start_offset == 1
    with pytest.raises(ValueError, match="not a release of Kafka: '4'"):
        log.run(bl.Retention(before_offset=2, release="4"))


def test_what_is_refused(make):
    log = make(cleanup_policy="compact")
    with pytest.raises(ValueError, match=r"cannot be deleted: its cleanup.policy is compact"):
        log.run(Retention(before_offset=1))
    with pytest.raises(ValueError, match=r"cannot be deleted: its cleanup.policy is compact"):
        log.run(bl.Retention(before_offset=1))
    assert log.log_start_offset == 0
    log.close()
    with opened(Path(log.directory)) as log, pytest.raises(bl.errors.OffsetOutOfRangeError, match="before offset 4"):
        log.run(Retention(before_offset=4))
    for limits in ({"retention_ms": -1}, {"retention_bytes": -1}, {"before_offset": -2}):
        with pytest.raises(ValueError, match="or more needed"):
            Retention(**limits)
    for moment in ({}, {"timestamp": 1, "offset": 1}, {"timestamp": -1}, {"offset": -1}):
        with pytest.raises(ValueError, match=r"give either a timestamp or an offset|=-1: 0 or more needed"):
            Truncation(**moment)


@pytest.fixture
def four(tmp_path):
    """Four batches of three records in two segments, 0 and 6, a second from record to record."""
    log = opened(tmp_path / "t-0", segment_bytes=200, cleanup_policy="compact")
    for i in range(0, 12, 3):
        values = [b"%02d" % offset for offset in range(i, i + 3)]
        log.append(batch(0, values, keys=values, timestamp=T + 1000 * i, step=1000))
    assert bases(log) == [0, 6]
    log.first_dirty_offset = 9
    return log


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        ({"timestamp": T}, 0),
        ({"timestamp": T + 2000}, 0),
        ({"timestamp": T + 2001}, 3),
        ({"timestamp": T + 5001}, 6),
        ({"timestamp": T + 9000}, 9),
        ({"timestamp": T + 11_001}, 12),
        ({"offset": 0}, 0),
        ({"offset": 5}, 3),
        ({"offset": 6}, 6),
        ({"offset": 7}, 6),
        ({"offset": 12}, 12),
        ({"offset": 99}, 12),
    ],
)
def test_a_cut_keeps_whole_batches_below_the_moment_and_nothing_else(four, moment, end):
    """A batch came as a whole: with one record too late, none of it was there."""
    verb = Truncation(**moment)
    dry = verb.work(verb.plan(four.state()), dry_run=True, progress=lambda _: None).report
    assert four.run(verb) == dry
    assert (dry.end_before, dry.log_end_offset, dry.cut_size) == (12, end, (12 - end) // 3 * dry.size // 4)
    assert four.log_end_offset == end
    assert seen(four) == list(range(end))
    # the cleaner takes nothing that is to come for cleaned
    assert four.first_dirty_offset == (9 if end == 12 else bases(four)[-1])


def test_without_timestamps_a_moment_is_known_only_before_the_last_write(tmp_path):
    log = opened(tmp_path / "t-0")
    log.append_as_follower(batch(0, [b"00"], timestamp=-1))
    with pytest.raises(ValueError, match="give an offset instead"):
        log.run(Truncation(timestamp=T))
    assert log.run(Truncation(timestamp=1 << 50)).log_end_offset == 1
    # an empty segment was not written to
    assert opened(tmp_path / "t-1").run(Truncation(timestamp=T)).log_end_offset == 0


def test_a_cut_below_the_log_start_leaves_it_where_it_is(tmp_path):
    log = opened(tmp_path / "t-0")
    for _ in range(5):
        log.append(batch(0, [b"x"], timestamp=T))
    log.run(bl.Retention(before_offset=3))
    log.run(Truncation(offset=1))
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


@pytest.mark.parametrize(
    "verb",
    [
        lambda: Retention(retention_ms="1"),
        lambda: Truncation(offset="1"),
        lambda: Compaction(memory="512MiB"),
        lambda: Compaction(delete_retention_ms=1.5),
    ],
    ids=["retain", "until-offset", "compact", "compact-retention"],
)
def test_what_is_no_number_is_refused_before_a_log_is_opened(verb):
    with pytest.raises(TypeError, match="an integer is expected, not"):
        verb()


def test_the_time_of_a_truncation_takes_the_forms_of_every_time():
    for time in ("2023-11-26T12:01:40", datetime(2023, 11, 26, 12, 1, 40, tzinfo=UTC), "1701000100000"):
        assert Truncation(timestamp=time) == Truncation(timestamp=1_701_000_100_000)
    with pytest.raises(TypeError, match="ms since 1970, a datetime or ISO 8601 text is expected"):
        Truncation(timestamp=1.5)


@pytest.mark.parametrize(
    ("option", "value"), [("memory", 0), ("min_compaction_lag_ms", -1), ("delete_retention_ms", -1)]
)
def test_limits_of_a_compaction_are_not_negative(option, value):
    with pytest.raises(ValueError, match="or more needed"):
        Compaction(**{option: value})


@pytest.fixture
def undecided(tmp_path):
    """Offsets 0 and 3 are plain records, 1 is of a transaction that commits at 4, 2 of one that commits at 5."""
    log = opened(tmp_path / "t-0")
    log.append(batch(0, [b"plain"], timestamp=T))
    log.append(batch(0, [b"committed"], timestamp=T + 1, producer_id=1, base_sequence=0, transactional=True))
    log.append(batch(0, [b"open"], timestamp=T + 2, producer_id=2, base_sequence=0, transactional=True))
    log.append(batch(0, [b"between"], timestamp=T + 3))
    log.append(marker(0, 1, commit=True, timestamp=T + 4), origin="coordinator")
    log.append(marker(0, 2, commit=True, timestamp=T + 5), origin="coordinator")
    return log


def committed(log):
    log.flush()
    rows = bl.Log(log.directory).read(isolation_level="read_committed", columns=["value"])
    return [value for part in rows for value in part["value"].to_pylist()]


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["of today", "of a year ago"])
@pytest.mark.parametrize(
    ("offset", "how", "end", "values", "open_ones"),
    [
        (6, "abort", 6, [b"plain", b"committed", b"open", b"between"], 0),
        (5, "abort", 6, [b"plain", b"committed", b"between"], 1),
        (4, "abort", 6, [b"plain", b"between"], 2),
        (5, "cut", 1, [b"plain"], 1),
        (4, "cut", 1, [b"plain"], 2),
        (1, "abort", 1, [b"plain"], 0),
    ],
)
def test_no_transaction_of_then_stays_open_for_ever(undecided, is_forgotten, offset, how, end, values, open_ones):
    """Its coordinator knows nothing of it, and `read_committed` would never get behind it."""
    log = undecided
    if is_forgotten:
        log.close()
        for path in Path(log.directory).glob("*.snapshot"):
            path.unlink()
        log = opened(Path(log.directory))
        assert log._appender.producers.is_empty
    verb = Truncation(offset=offset, open_transactions=how)
    dry = verb.work(verb.plan(log.state()), dry_run=True, progress=lambda _: None).report
    assert log.run(verb) == dry
    assert (dry.open_transactions, dry.are_aborted) == (open_ones, how == "abort" and open_ones > 0)
    assert (log.log_end_offset, log.last_stable_offset) == (
        dry.log_end_offset + open_ones * dry.are_aborted,
        log.log_end_offset,
    )
    assert log.log_end_offset == end
    assert committed(log) == values
    log.close()
    assert committed(opened(Path(log.directory))) == values


@pytest.mark.parametrize("how", ["abort", "cut"])
@pytest.mark.parametrize("topic", ["txn-interleaved-0", "txn-abort-spanning-0", "txn-open-0"])
def test_wherever_a_log_of_expired_producers_is_cut_all_of_it_is_decided(golden, tmp_path, topic, how):
    """Older producer snapshots stay, and know transactions as open whose markers are in the log."""
    source = golden / "logs" / "kafka-4.1" / topic
    whole = bl.Log(source)
    stable = {row["offset"] for row in rows_of(whole, "read_committed")}
    # Behind an open transaction, which a copy ends.
    undecided = whole.read(start_offset=whole.last_stable_offset, columns=["offset", "isTransactional"])
    stable |= {row["offset"] for part in undecided for row in part.to_pylist() if not row["isTransactional"]}
    for offset in range(0, whole.log_end_offset + 1, 9):
        to = tmp_path / how / str(offset) / topic
        to.parent.mkdir(parents=True)
        (result,) = bl.rewrite(Truncation(offset=offset, open_transactions=how), source, output=to)
        cut = bl.Log(to)
        assert cut.last_stable_offset == cut.log_end_offset
        end = result.report.log_end_offset
        assert rows_of(cut, "read_uncommitted") == [row for row in rows_of(whole) if row["offset"] < end]
        found = {row["offset"] for row in rows_of(cut, "read_committed")}
        assert found <= stable
        if how == "cut":
            assert found == {offset for offset in stable if offset < end}


def rows_of(log, level="read_uncommitted"):
    rows = log.read(columns=["offset", "value"], isolation_level=level)
    return [row for part in rows for row in part.to_pylist()]
