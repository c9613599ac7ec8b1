"""Interrupts that wait for the end of a change."""

import threading

import pytest

from brokerless.cli.exit_codes import Ended
from brokerless.io.interrupts import deferred, interrupt


def test_an_interrupt_comes_at_once_where_nothing_is_changed():
    with pytest.raises(Ended):
        interrupt(Ended(1))


def test_an_interrupt_waits_for_the_end_of_the_outermost_block():
    done = []

    @deferred()
    def change(inner):
        inner()
        done.append("outer")

    @deferred()
    def inner_change():
        interrupt(Ended(1))
        done.append("inner")

    with pytest.raises(Ended):
        change(inner_change)
    assert done == ["inner", "outer"]
    change(lambda: None)


def test_an_interrupt_is_not_lost_where_the_change_fails():
    @deferred()
    def change():
        interrupt(Ended(1))
        raise OSError("no space")

    with pytest.raises(Ended) as raised:
        change()
    assert isinstance(raised.value.__context__, OSError)


def test_a_change_in_another_thread_defers_nothing():
    began, ends = threading.Event(), threading.Event()

    def change():
        with deferred():
            began.set()
            ends.wait()

    thread = threading.Thread(target=change)
    thread.start()
    began.wait()
    with pytest.raises(Ended):
        interrupt(Ended(1))
    ends.set()
    thread.join()
