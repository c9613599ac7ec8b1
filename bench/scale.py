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
ROUNDS = 9

_READ = """
import resource, sys
import brokerless
rows = sum(rows.num_rows for rows in brokerless.Log(sys.argv[1]).read())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
"""


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
    """Plan a read of 100,000 segments, each a file of its own."""
    import brokerless  # noqa: PLC0415 - its import is not part of the time

    folder = DATA / "many-0"
    batch = log_file(SHAPES[0], "none").read_bytes()[:16384]
    batch = batch[: 12 + int.from_bytes(batch[8:12], "big")]
    count = int.from_bytes(batch[57:61], "big")
    if not folder.exists():
        folder.mkdir(parents=True)
        for i in range(100_000):
            offset = i * count
            (folder / f"{offset:020}.log").write_bytes(offset.to_bytes(8, "big") + batch[8:])
    start = time.perf_counter()
    splits = brokerless.Log(str(folder)).plan()
    seconds = time.perf_counter() - start
    good = seconds < PLAN_BAR
    print(f"planning: 100000 segments, {len(splits)} splits, {seconds:.1f} s (bar {PLAN_BAR:.0f}){_below(good)}")
    return good


def _below(good: bool) -> str:
    return "" if good else "   BELOW"


def main() -> bool:
    """Measure all three."""
    return all([memory(), threads(), planning()])
