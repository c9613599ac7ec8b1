"""Short intervals count each record once, have a bounded number of rows, and never count a record at a wrong time."""

from collections import Counter

import pyarrow as pa
import pytest

from brokerless.reporting.intervals import WIDTHS, Intervals
from support.log_files import NOW

MOST = 200


def added(times, chunk=1000):
    found = Intervals()
    for at in range(0, len(times), chunk):
        found.add_records(pa.array(times[at : at + chunk], pa.timestamp("ms", "UTC")))
    return found


def counts(found):
    sums = found.sums()
    return dict(zip(sums["time"].to_pylist(), sums["records"].to_pylist(), strict=True))


@pytest.mark.parametrize("step", [1, 7, 1000, 59_999])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_records_are_counted_in_the_intervals_of_their_times(step, is_sorted):
    times = [NOW + at * step for at in range(5000)]
    if not is_sorted:
        times = [times[at * 1777 % 5000] for at in range(5000)]
    found = added(times)
    width = found.width
    assert width in WIDTHS or (width is None and 5000 * step > MOST * WIDTHS[-1])
    expected = Counter(time // width * width for time in times) if width else {}
    assert counts(found) == expected
    assert len(expected) <= MOST


def test_an_interval_has_its_first_time_and_not_its_end():
    assert counts(added([NOW // 10 * 10 - 1, NOW // 10 * 10])) == {NOW // 10 * 10 - 10: 1, NOW // 10 * 10: 1}


def test_no_time_and_times_beyond_2200_are_not_counted():
    assert counts(added([-1, None, NOW, 1 << 61, -(1 << 61)])) == {NOW // 10 * 10: 1}


def test_merged_sums_are_those_of_all_records_in_any_order():
    times = [NOW + at * 977 for at in range(3000)]
    whole = counts(added(times))
    parts = [added(times[:100]), added(times[100:2000]), added(times[2000:])]
    for several in (parts, parts[::-1]):
        assert counts(Intervals().merge(several)) == whole


def test_a_part_without_intervals_leaves_none():
    """Half of the records would look like all of them."""
    long = added([NOW + at * 3_600_000 for at in range(5000)])
    found = Intervals().merge([added([NOW]), long, added([NOW])])
    assert (found.width, found.sums().num_rows) == (None, 0)


def test_batches_count_bytes_at_their_largest_time():
    found = Intervals()
    found.add_batches(pa.array([NOW, NOW, -1]), pa.array([100, 50, 9], pa.int32()))
    assert found.sums()["bytes"].to_pylist() == [150]
