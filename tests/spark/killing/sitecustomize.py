"""Python imports this at its start where a test put it on the path: it kills a process at the n-th call of something.

Environment variable `KILL` has lines `<module>:<name> <n> <victim> <file>`. The file counts the calls, of all processes
together. Victims: "worker" is the Python process that makes the call, "executor" the Java process above it, "driver"
the process in `DRIVER`, with what it started.
"""

import functools
import importlib
import os
import signal


def _kill_at(place, number, victim, counter):
    module, _, name = place.partition(":")
    *way, last = name.split(".")
    owner = functools.reduce(getattr, way, importlib.import_module(module))
    real = getattr(owner, last)

    @functools.wraps(real)
    def call(*args, **kwargs):
        # Behind what this call appended: the length would count those of other processes meanwhile.
        with open(counter, "ab", buffering=0) as file:
            file.write(b".")
            count = file.tell()
        if count == int(number):
            for process in _processes(victim):
                os.kill(process, signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(owner, last, call)


def _processes(victim):
    """Yield the process ids that go, this one last."""
    if victim == "driver":
        yield int(os.environ["DRIVER"])
    if victim == "executor":
        # A worker is forked from PySpark's daemon, which the executor started.
        with open(f"/proc/{os.getppid()}/stat") as file:
            yield int(file.read().rpartition(")")[2].split()[1])
    yield os.getpid()


for line in os.environ.get("KILL", "").splitlines():
    _kill_at(*line.split())
