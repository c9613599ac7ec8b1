"""Distinct keys are counted about right, in any order and in parts, and bytes that are no sketch are refused."""

import pytest

from brokerless._native import KeySketch, Profile
from support.log_files import Memory, batch


def of_keys(keys):
    found = KeySketch()
    content = batch(0, [b""] * len(keys), keys=keys)
    Profile().feed(Memory(content), 0, len(content), keys=found)
    return found


def sketch(numbers):
    return of_keys([b"key %d" % number for number in numbers])


@pytest.mark.parametrize(("count", "within"), [(0, 0), (1, 0.001), (100, 0.01), (5_000, 0.05), (200_000, 0.05)])
def test_the_estimate_is_near(count, within):
    assert abs(sketch(range(count)).estimate() - count) <= count * within


def test_nulls_and_repetitions_do_not_count():
    assert round(of_keys([b"a", None, b"b", b"a", b""]).estimate()) == 3


def test_parts_merge_to_the_whole_in_any_order():
    whole = sketch(range(50_000)).estimate()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        parts = [sketch(range(10_000 * number, 10_000 * number + 20_000)) for number in range(4)]
        merged = KeySketch(sketch([]).to_bytes())
        for number in order:
            merged.merge(KeySketch(parts[number].to_bytes()))
        assert merged.estimate() == pytest.approx(whole, rel=1e-9)


def test_bytes_that_are_no_sketch_are_refused():
    whole = sketch(range(50_000)).to_bytes()
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="no sketch of keys"):
            KeySketch(whole[:length])
    for place in range(8):
        wrong = bytes([*whole[:place], whole[place] ^ 0x5F, *whole[place + 1 :]])
        try:
            estimate = KeySketch(wrong).estimate()
        except ValueError as error:
            assert "no sketch of keys" in str(error)  # noqa: PT017
        else:
            # Flags and the number of a list's entries: another sketch, but one.
            assert place in (4, 5, 6), place
            assert estimate >= 0
