"""Iterators that threads run ahead keep their order, their errors and their end."""

import threading
import time

import pytest

from brokerless.io.streams import in_order


def counting(start, stop, log=None):
    def items():
        try:
            yield from range(start, stop)
        finally:
            if log is not None:
                log.append(start)

    return items


def test_the_items_keep_the_order_of_their_iterators():
    sources = [counting(i * 100, i * 100 + i % 7) for i in range(200)]
    expected = [item for source in sources for item in source()]
    assert list(in_order(sources, 3)) == expected


def test_an_error_follows_all_items_before_it():
    def failing():
        yield 1
        raise KeyError("here")

    items = in_order([counting(0, 1), failing, counting(5, 9)], 2)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(KeyError, match="here"):
        next(items)


def test_an_error_of_the_sources_follows_all_items_before_it():
    def sources():
        yield counting(0, 2)
        raise KeyError("planning")

    items = in_order(sources(), 2)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(KeyError, match="planning"):
        next(items)


def test_a_reader_that_stops_ends_the_iterators_and_the_threads():
    ended, stopped, before = [], [], threading.active_count()
    items = in_order([counting(i, 10**9, ended) for i in range(50)], 2, lambda: stopped.append(True))
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before
    assert stopped == [True]
    # Those that had begun have ended, and no other was begun.
    assert 1 <= len(ended) <= 2


def test_an_iterator_waits_for_its_reader():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    reader = in_order([items], 1)
    assert next(reader) == 0
    time.sleep(0.1)
    assert len(taken) < 10
    assert len(list(reader)) == 999
