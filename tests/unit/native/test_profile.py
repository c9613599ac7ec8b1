"""Each record counts once, at its own time, in groups and in short intervals whose number is bounded."""

from collections import Counter

import pytest

from brokerless._native import Profile
from support.log_files import NOW, Memory, batch

WIDTHS = (10, 100, 1000, 10_000, 60_000, 600_000)
MOST = 200
HOUR = 3_600_000


def profile(times, **options):
    """Count a batch of 100 bytes or so for each of the times."""
    content = b"".join(batch(at, [b"v"], timestamp=time) for at, time in enumerate(times))
    found = Profile(**options)
    found.feed(Memory(content), 0, len(content))
    return found


def counts(found):
    sums = found.intervals()
    return dict(zip(sums["time"].to_pylist(), sums["records"].to_pylist(), strict=True))


def records(found):
    groups = found.groups()
    return dict(zip(groups["time"].to_pylist(), groups["records"].to_pylist(), strict=True))


@pytest.mark.parametrize("step", [1, 7, 1000, 59_999])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_records_count_in_the_intervals_of_their_times(step, is_sorted):
    times = [NOW + at * step for at in range(5000)]
    if not is_sorted:
        times = [times[at * 1777 % 5000] for at in range(5000)]
    found = profile(times, is_bounded=True)
    width = found.interval_width
    assert width in WIDTHS or (width is None and 5000 * step > MOST * WIDTHS[-1])
    expected = Counter(time // width * width for time in times) if width else {}
    assert counts(found) == expected
    assert len(expected) <= MOST
    assert records(found) == Counter(time // HOUR * HOUR for time in times)


def test_an_interval_has_its_first_time_and_not_its_end():
    edge = NOW // HOUR * HOUR
    found = profile([edge - 1, edge], is_bounded=True)
    assert counts(found) == {edge - 10: 1, edge: 1}
    assert records(found) == {edge - HOUR: 1, edge: 1}


def test_times_that_no_chart_shows_are_in_no_interval():
    times = [-1, NOW, 1 << 61, -(1 << 61)]
    found = profile(times, is_bounded=True)
    assert counts(found) == {NOW // 10 * 10: 1}
    assert records(found) == {None: 3, NOW // HOUR * HOUR: 1}
    assert records(profile(times)) == {None: 2, NOW // HOUR * HOUR: 1, (1 << 61) // HOUR * HOUR: 1}


def test_merged_sums_are_those_of_all_records_in_any_order():
    times = [NOW + at * 977 for at in range(3000)]
    whole = profile(times, is_bounded=True)
    parts = [profile(some, is_bounded=True) for some in (times[:100], times[100:2000], times[2000:])]
    for order in (parts, parts[::-1]):
        found = Profile(is_bounded=True)
        for part in order:
            found.merge(Profile(part.to_bytes()))
        assert records(found) == records(whole)
        assert counts(found) == counts(whole)
        assert found.batch_sizes() == whole.batch_sizes()


def test_a_part_without_intervals_leaves_none():
    """Half of the records would look like all of them."""
    found = profile([NOW], is_bounded=True)
    found.merge(profile([NOW + at * HOUR for at in range(5000)], is_bounded=True))
    found.merge(profile([NOW], is_bounded=True))
    assert (found.interval_width, found.intervals().num_rows) == (None, 0)
    assert found.records == 5002


def test_a_wrapper_inside_the_batches_before_it_counts_no_records(golden):
    """Its header has only its last offset. A read finds its first offset, and leaves it out too."""
    content = (golden / "logs/kafka-2.8-v1/codec-gzip-0" / f"{0:020}.log").read_bytes()
    size = 12 + int.from_bytes(content[8:12], "big")
    following = 12 + int.from_bytes(content[size + 8 : size + 12], "big")
    first, second = content[:size], content[size : size + following]
    counted = []
    for runs in ([first], [second], [first, second], [second, first]):
        found, position = Profile(), 0
        for run in runs:
            # A survey takes the last offset of a wrapper at the start of a run as the run's first one.
            found.feed(
                Memory(b"".join(runs)), position, position + len(run), first_offset=int.from_bytes(run[:8], "big")
            )
            position += len(run)
        assert sum(found.groups()["batches"].to_pylist()) == len(runs)
        counted.append(found.records)
    of_first, of_second, in_order, out_of_order = counted
    assert of_first > 1
    assert in_order == of_first + of_second
    assert out_of_order == of_second
