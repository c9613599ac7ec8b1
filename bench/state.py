"""`brokerless groups` on a large cluster's directory, against `kafka-dump-log` printing the same offset commits."""

from __future__ import annotations

import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
from rivals import DATA, HERE, classpath, median_ratio

import brokerless as bl

PARTITIONS, COMMITS, COORDINATORS = 10_000, 5_000_000, 50
TOPICS = 100
ROUNDS = 3
SECONDS, MEGABYTES, RATIO = 10.0, 400.0, 20.0


def main() -> bool:
    """Measure whole processes."""
    directory = DATA / f"cluster-{PARTITIONS}-{COMMITS}"
    if not directory.exists():
        # In a process of its own: what it takes would count as memory of those that this one starts.
        subprocess.run([sys.executable, "-c", "import state; state.write_cluster()"], cwd=HERE, check=True)
    groups = (str(Path(sys.executable).parent / "brokerless"), "groups", str(directory))
    files = ",".join(str(file) for file in sorted(directory.glob("__consumer_offsets-*/*.log")))
    dump = ("java", "-cp", classpath(), "kafka.tools.DumpLogSegments", "--files", files, "--offsets-decoder")
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(_measured(*dump)[0])
        ours.append(_measured(*groups))
    seconds, megabytes = (statistics.median(one) for one in zip(*ours, strict=True))
    ratio = median_ratio(theirs, [one for one, _ in ours])
    is_good = seconds <= SECONDS and megabytes <= MEGABYTES and ratio >= RATIO
    print(
        f"state: groups of {PARTITIONS} partitions and {COMMITS} commits: {seconds:.2f} s (bar {SECONDS:.0f}), "
        f"{megabytes:.0f} MB (bar {MEGABYTES:.0f}), "
        f"kafka-dump-log --offsets-decoder {statistics.median(theirs):.2f} s: "
        f"{ratio:.1f}x (bar {RATIO:.0f}){'' if is_good else '   BELOW'}"
    )
    return is_good


def _measured(*command: str) -> tuple[float, float]:
    """Run a process, and return its seconds and its greatest memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def write_cluster() -> None:
    """Write a directory in which each coordinator has one group, which commits all partitions again and again."""
    made = DATA / "cluster.part"
    DATA.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(made, ignore_errors=True)
    numbers = range(PARTITIONS // TOPICS)
    with bl.Producer(made, "offsets", partitions=COORDINATORS) as producer:
        rounds = COMMITS // COORDINATORS // PARTITIONS
        for group in range(COORDINATORS):
            keys = [_key(f"group-{group}", f"topic-{topic}", number) for topic in range(TOPICS) for number in numbers]
            for turn in range(rounds):
                value = struct.pack(">hqihq", 3, turn * 100, -1, 0, 1_700_000_000_000 + turn * 5000)
                rows = {
                    "key": keys,
                    "value": [value] * PARTITIONS,
                    "partition": pa.array([group] * PARTITIONS, pa.int32()),
                }
                producer.send(pa.table(rows))
    for topic in range(TOPICS):
        with bl.Producer(made, f"topic-{topic}", partitions=len(numbers)) as producer:
            producer.send([{"value": b"x", "partition": number} for number in numbers])
    for number in range(COORDINATORS):
        (made / f"offsets-{number}").rename(made / f"__consumer_offsets-{number}")
    made.rename(DATA / f"cluster-{PARTITIONS}-{COMMITS}")


def _key(group: str, topic: str, partition: int) -> bytes:
    texts = (struct.pack(">h", len(text)) + text.encode() for text in (group, topic))
    return struct.pack(">h", 1) + b"".join(texts) + struct.pack(">i", partition)
