"""What must not grow with the log: memory of a read, time of two threads, time to plan many segments."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from decode import ours
from rivals import DATA, SHAPES, log_file

MEMORY_BAR = 300 << 20
THREADS_BAR = 1.8
PLAN_BAR = 10.0
FLAT_BAR = 1.5
ROUNDS = 9

# Not `ru_maxrss`: a process inherits it from the one that starts it.
_PEAK = """
import re, sys
from pathlib import Path
peak = lambda: int(re.search("VmHWM:.*?([0-9]+)", Path("/proc/self/status").read_text())[1]) << 10
"""
_READ = (
    _PEAK
    + """
import brokerless
rows = sum(rows.num_rows for rows in brokerless.Log(sys.argv[1]).read())
print(rows, peak())
"""
)
_PLAN = (
    _PEAK
    + """
import pickle, time
from brokerless.spark.source import records
from brokerless.spark.source.options import Options
before, start = peak(), time.process_time()
tasks = records.plan(Options.parse({"path": sys.argv[1]}))
seconds, memory = time.process_time() - start, peak() - before
splits = sum(len(task.work) for task in tasks)
print(splits, len(tasks), seconds, memory, sum(len(pickle.dumps(task)) for task in tasks))
"""
)


def memory() -> bool:
    """Read 2 GB in a process of its own, and ask for its greatest size."""
    data = log_file(SHAPES[0], "none").read_bytes()
    folder = DATA / "large-0"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The same batches again and again, with offsets that go on: those lie outside the checksum.
    written = offset = 0
    while written < 2 << 30:
        position = 0
        with (folder / f"{offset:020}.log").open("wb") as file:
            while position < len(data):
                size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
                count = int.from_bytes(data[position + 57 : position + 61], "big")
                file.write(offset.to_bytes(8, "big"))
                file.write(data[position + 8 : position + size])
                offset += count
                position += size
        written += len(data)
    command = [sys.executable, "-c", _READ, str(folder)]
    rows, size = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    shutil.rmtree(folder)
    good = size < MEMORY_BAR and rows == offset
    print(
        f"memory: {written >> 20} MB read, {rows} rows, {size >> 20} MB of memory "
        f"(bar {MEMORY_BAR >> 20}){_below(good)}"
    )
    return good


def threads() -> bool:
    """Decode two files in one thread after the other, and in two."""
    data = [pa.py_buffer(log_file(SHAPES[0], codec).read_bytes()) for codec in ("zstd", "zstd")]
    columns = ("key", "value", "offset", "timestamp")
    one, two = [], []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for buffer in data:
                ours(buffer, columns)
            one.append(time.perf_counter() - start)
            start = time.perf_counter()
            list(pool.map(lambda buffer: ours(buffer, columns), data))
            two.append(time.perf_counter() - start)
    ratio = statistics.median(one) / statistics.median(two)
    good = ratio >= THREADS_BAR
    print(f"threads: two on two files {ratio:.2f}x one (bar {THREADS_BAR}){_below(good)}")
    return good


def planning() -> bool:
    """Plan Spark's tasks for 100,000 segments, each a file of its own: of one partition, and of 10,000."""
    batch = log_file(SHAPES[0], "none").read_bytes()[:16384]
    batch = batch[: 12 + int.from_bytes(batch[8:12], "big")]
    count = int.from_bytes(batch[57:61], "big")
    good, cost = True, {}
    for partitions, segments in ((1, 10_000), (1, 100_000), (10_000, 10)):
        root = DATA / f"many-{partitions}-{segments}"
        if not root.exists():
            partial = DATA / "many.part"
            shutil.rmtree(partial, ignore_errors=True)
            for partition in range(partitions):
                folder = partial / f"t-{partition}"
                folder.mkdir(parents=True)
                for i in range(segments):
                    offset = i * count
                    (folder / f"{offset:020}.log").write_bytes(offset.to_bytes(8, "big") + batch[8:])
            partial.rename(root)
        total = partitions * segments
        told = subprocess.run([sys.executable, "-c", _PLAN, str(root)], check=True, capture_output=True, text=True)
        splits, tasks, seconds, memory, pickled = map(float, told.stdout.split())
        cost[partitions, segments] = seconds / total
        is_good = seconds < PLAN_BAR and splits == total
        good &= is_good
        print(
            f"planning: {total} segments of {partitions} partitions, {splits:.0f} splits in {tasks:.0f} tasks: "
            f"{seconds:.1f} s of CPU (bar {PLAN_BAR:.0f}); a segment takes {1e6 * seconds / total:.0f} us, "
            f"{memory / total:.0f} bytes of memory and {pickled / total:.0f} bytes to send{_below(is_good)}"
        )
    growth = cost[1, 100_000] / cost[1, 10_000]
    is_flat = growth < FLAT_BAR
    print(f"planning: a segment of 100000 costs {growth:.2f} times one of 10000 (bar {FLAT_BAR}){_below(is_flat)}")
    return good and is_flat


def _below(good: bool) -> str:
    return "" if good else "   BELOW"


def main() -> bool:
    """Measure all three."""
    return all([memory(), threads(), planning()])
