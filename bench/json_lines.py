"""`brokerless read` against `kafka-dump-log` printing the same records."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from rivals import SHAPES, classpath, log_file, median_ratio

ROUNDS = 7
BAR = 4.0


def _seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> bool:
    """Alternate the two programs, both from their start."""
    shape = SHAPES[0]
    file = str(log_file(shape, "none"))
    read = (str(Path(sys.executable).parent / "brokerless"), "read", file)
    tool = ("java", "-cp", classpath(), "kafka.tools.DumpLogSegments")
    dump = (*tool, "--files", file, "--deep-iteration", "--print-data-log")
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(_seconds(*dump))
        ours.append(_seconds(*read))
    ratio = median_ratio(theirs, ours)
    print(
        f"json: {shape.records} records, {statistics.median(ours):.2f} s, "
        f"kafka-dump-log {statistics.median(theirs):.2f} s: "
        f"{ratio:.1f}x (bar {BAR:.0f}){'' if ratio >= BAR else '   BELOW'}"
    )
    return ratio >= BAR
