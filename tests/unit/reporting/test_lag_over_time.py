"""Lags add up over partitions, keep their highest value in an interval, and take bounded memory."""

import pyarrow as pa

from brokerless.reporting import lag_over_time
from brokerless.reporting.lag_over_time import COLUMNS, LagOverTime
from support.log_files import NOW

MINUTE = 60_000


def rows(*commits):
    columns = zip(*commits, strict=True)
    types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], list(COLUMNS))


def points(over_time):
    return [(row["group"], row["time"].timestamp() * 1000, row["lag"]) for row in over_time.finish().to_pylist()]


def test_a_partition_keeps_its_lag_until_its_next_commit():
    over_time = LagOverTime()
    over_time.add(rows(("g", "t", 0, 0, 5), ("g", "t", 1, 10, 7), ("h", "t", 0, MINUTE, 1)))
    over_time.add(rows(("g", "t", 0, 3 * MINUTE, 2), ("g", "t", 0, 3 * MINUTE + 1, 4)))
    assert points(over_time) == [("g", 0, 12), ("g", 3 * MINUTE, 11), ("h", MINUTE, 1)]


def test_partial_sums_give_the_same():
    commits = [("g", "t", number % 3, number * 1000, number % 7) for number in range(1000)]
    whole, parts = LagOverTime(), LagOverTime()
    whole.add(rows(*commits))
    for start in range(0, 1000, 10):
        part = LagOverTime()
        part.add(rows(*commits[start : start + 10]))
        parts.add(part.rows())
    assert points(parts) == points(whole)


def test_intervals_become_longer_until_few_are_left():
    over_time = LagOverTime()
    over_time.add(rows(*(("g", "t", 0, number * MINUTE, number) for number in range(10_000))))
    found = points(over_time)
    assert 100 <= len(found) <= 202
    assert found[-1][2] == 9999


def test_two_minutes_have_points_of_a_second():
    """They had three points, a minute apart."""
    over_time = LagOverTime()
    over_time.add(rows(*(("g", "t", 0, NOW + number * 1000, number) for number in range(120))))
    assert len(points(over_time)) == 120


def test_intervals_of_a_long_time_are_not_kept_as_seconds():
    over_time = LagOverTime()
    over_time.add(rows(*(("g", "t", 0, NOW + number * 1000, 1) for number in range(20_000))))
    assert over_time.rows().num_rows <= 4097


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(lag_over_time, "_MOST_ROWS", 100)
    over_time = LagOverTime()
    for start in range(0, 100_000, 1000):
        over_time.add(rows(*(("g", "t", 0, number * MINUTE, 1) for number in range(start, start + 1000))))
    assert over_time.rows().num_rows <= 100
    assert points(over_time)[0] == ("g", 0, 1)


def test_no_commits_give_no_lag():
    assert LagOverTime().finish().num_rows == 0


def commits(*rows):
    """Rows of `brokerless.commits` as far as they matter here: group, partition, time, lag."""
    names = ("group", "partition", "commit_time", "lag_then")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.record_batch(
        {
            "group": pa.array(columns["group"]),
            "topic": pa.array(["t"] * len(rows)),
            "partition": pa.array(columns["partition"], pa.int32()),
            "commit_time": pa.array(columns["commit_time"], pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "lag_then": pa.array(columns["lag_then"], pa.int64()),
        }
    )


def test_a_time_that_no_broker_had_does_not_stretch_the_intervals():
    over_time = LagOverTime()
    over_time.push(commits(*((("g", 0, NOW + at * MINUTE, at)) for at in range(100))))
    over_time.push(commits(("g", 0, 0, 1), ("g", 0, (1 << 63) - 1, 1), ("g", 0, -5, 1)))
    assert len(points(over_time)) == 100


def test_lags_of_hostile_commits_add_up():
    over_time = LagOverTime()
    over_time.push(commits(*(("g", partition, NOW, (1 << 63) - 1) for partition in range(100))))
    ((_, _, lag),) = points(over_time)
    assert lag == 100 * (1 << 44)


def test_many_partitions_keep_their_times(monkeypatch):
    """Longer intervals make no fewer rows where each partition has one."""
    monkeypatch.setattr(lag_over_time, "_MOST_ROWS", 100)
    over_time = LagOverTime()
    over_time.push(
        commits(*(("g", partition, NOW + hour * 60 * MINUTE, 1) for partition in range(200) for hour in (0, 1)))
    )
    assert all(time > NOW - 240 * MINUTE for _, time, _ in points(over_time))
