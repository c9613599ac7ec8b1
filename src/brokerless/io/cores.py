"""The number of cores and threads that this process may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN_CGROUPS, _CGROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
_MAX_BYTES, _MAX_DIGITS = 1 << 16, 20
# The maximum: more threads would wait for the same file.
_MAX_LOG_THREADS = 4


def cores() -> int:
    """Return the number of cores that this process may use, by its affinity and the CPU quotas of its cgroups.

    A fraction of a core is rounded up.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([affinity, *_quotas()])


def log_threads() -> int:
    """Return the number of threads that may share the work on one log in this process.

    A worker process uses one thread. Any other process uses at most 4 threads: `OMP_NUM_THREADS` or, if that is not
    set, one per available core. Spark sets `OMP_NUM_THREADS` to the cores of a task.
    """
    import multiprocessing  # noqa: PLC0415 - slow to import, and most callers want cores

    if multiprocessing.parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(_MAX_LOG_THREADS, int(given) if given.isdecimal() and int(given) else cores())


def _quotas() -> Iterator[int]:
    """Yield the cores that each quota allows, in the process's cgroups (v1 and v2) and their parents.

    In a container, the path of a cgroup may be its path on the host. Then only the root of the mount exists here.
    """
    for line in _read(_OWN_CGROUPS).splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        names = [name for name in path.split("/") if name not in ("", ".", "..")]
        groups = ["/".join(["", *names[:count]]) for count in range(len(names) + 1)]
        if not controllers:
            found = [_read(f"{_CGROUPS}{group}/cpu.max").split() for group in groups]
        elif "cpu" in controllers.split(","):
            mounts = [f"{_CGROUPS}/{mount}{group}/cpu.cfs" for mount in {controllers, "cpu"} for group in groups]
            found = [_read(f"{mount}_quota_us").split() + _read(f"{mount}_period_us").split() for mount in mounts]
        else:
            continue
        for numbers in found:
            # "max" and -1 are no quota.
            if len(numbers) == 2 and all(text.isdecimal() and len(text) <= _MAX_DIGITS for text in numbers):
                quota, period = map(int, numbers)
                if quota and period:
                    yield -(-quota // period)


def _read(path: str) -> str:
    """Return the content of a small file; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES).decode("ascii", "replace")
    except (OSError, ValueError):
        return ""
