"""Calls that run several at a time: order of results, errors, what is in flight, progress, workers that die."""

import os
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest

from brokerless.io.processes import Processes
from brokerless.io.runner import Threads

KINDS = [lambda _: Threads(2), partial(Processes, 1), pytest.param(partial(Processes, 2), marks=pytest.mark.slow)]


def counted(number, *, progress):
    for _ in range(number):
        progress(10)
    return number


def double(number):
    return 2 * number


def fail(number):
    raise ValueError(number)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_in_order_and_progress_is_complete(kind):
    sizes = {}

    def progress(name, size):
        assert threading.current_thread() is threading.main_thread()
        sizes[name] = sizes.get(name, 0) + size

    with kind(progress) as runner:
        assert list(runner.map(double, range(20))) == [2 * number for number in range(20)]
        assert list(runner.map(double, range(20), ahead=2)) == [2 * number for number in range(20)]
        assert list(runner.map(double, ())) == []
        waiting = {runner.submit(f"call {number}", partial(counted, number)): number for number in (3, 1, 2)}
        while waiting:
            future, result = runner.first_completed(waiting)
            assert waiting.pop(future) == result
    if isinstance(runner, Processes):
        assert {name: size for name, size in sizes.items() if size} == {f"call {n}": 10 * n for n in (1, 2, 3)}


@pytest.mark.parametrize("kind", [Threads, Processes])
def test_no_jobs_are_refused(kind):
    with pytest.raises(ValueError, match="0 jobs: at least 1 needed"):
        kind(0)


def test_results_before_an_error_come_first_and_no_other_call_is_started():
    """One thread: the calls behind the failed one wait, and are cancelled."""
    begun, held = [], threading.Event()

    def call(number):
        begun.append(number)
        if number == 2:
            raise ValueError(number)
        if number > 2:
            held.wait(10)
        return number

    with Threads(1) as threads:
        found = threads.map(call, range(100))
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(ValueError, match="2"):
            next(found)
        held.set()
    assert len(begun) < 10


def test_calls_that_wait_are_cancelled_at_the_end():
    held = threading.Event()
    with Threads(1) as threads:
        running = threads.start(held.wait, 10)
        waiting = [threads.start(double, 1) for _ in range(5)]
        held.set()
    assert running.result() is True
    assert all(future.done() for future in waiting)


def test_a_caller_that_stops_cancels_what_waits():
    begun = []
    with Threads(1) as threads:
        found = threads.map(lambda number: begun.append(number) or number, iter(range(1000)), ahead=3)
        assert next(found) == 0
        found.close()
    assert len(begun) <= 4


def test_no_more_arguments_are_taken_than_may_be_in_flight():
    taken = []

    def arguments():
        for number in range(100):
            taken.append(number)
            yield number

    with Threads(2) as threads:
        for number in threads.map(double, arguments(), ahead=5):
            assert len(taken) <= number // 2 + 6


def die(_number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_that_says_so():
    with Processes(2) as processes:
        with pytest.raises(ChildProcessError, match="a worker process ended: it was killed") as raised:
            list(processes.map(die, [1]))
        assert isinstance(raised.value, OSError)
        with pytest.raises(ChildProcessError, match="fewer jobs need less"):
            processes.start(double, 1)


UNGUARDED = """
from brokerless.io.processes import Processes
with Processes(2) as processes:
    print(list(processes.map(abs, [-1])))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert 'lacks `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def test_an_error_of_a_call_is_its_own():
    for runner in (Threads(2), Processes(1)):
        with runner, pytest.raises(ValueError, match="7"):
            list(runner.map(fail, [7]))
