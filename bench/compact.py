"""Compacting 5 million records of 100 bytes with 10 % unique keys: against Kafka's own Cleaner, unthrottled.

Whole process against whole process, fsync included, each on a fresh copy of the same directory, in alternation; both
may use all cores. Also: the most memory that each takes, and two partitions on two cores against one. With "keys": 50
million keys in 512 MiB, which takes some minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rivals import DATA, classpath

from brokerless import LogWriter, TopicConfig

RECORDS, KEYS, VALUE_BYTES = 5_000_000, 500_000, 100
SEGMENT_BYTES = 64 << 20
ROUNDS = 7
BARS = {"none": 6.0, "lz4": 4.0, "zstd": 3.0}
MEMORY_BAR, PARTITIONS_BAR = 0.25, 1.8
SETTINGS = TopicConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy="compact")
MANY_KEYS = 50_000_000


class Run(NamedTuple):
    """What a process took."""

    seconds: float
    bytes: int
    cpu_seconds: float


def source(codec: str, records: int = RECORDS, keys: int = KEYS, value_bytes: int = VALUE_BYTES) -> Path:
    """Return a partition directory, left clean, all but its empty active segment to be compacted."""
    directory = DATA / f"compact-{codec}-{records}-{keys}-{value_bytes}" / "t-0"
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    batches, partial = directory.parent / "batches", directory.parent / "part-0"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    sizes = (records, value_bytes, 0, 16384, 0, keys)
    subprocess.run(["java", "-cp", classpath(), "Bench", "write", str(batches), codec, *map(str, sizes)], check=True)
    block, left = memoryview(bytearray(8 << 20)), 0
    with (
        open(batches, "rb", buffering=0) as file,
        LogWriter.open(str(partial), config=SETTINGS, is_clean=True) as log,
    ):
        while length := file.readinto(block[left:]):
            end = left + length
            taken = log.append_each(block[:end], origin="replication").consumed
            left = end - taken
            block[:left] = block[taken:end]
        log.roll()
    batches.unlink()
    partial.rename(directory)
    return directory


# A process inherits the peak of the one that starts it, so a small one does. It writes seconds, KiB and CPU seconds to
# a file.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ), 0)
seconds = time.perf_counter() - start
with open(sys.argv[1], "w") as told:
    told.write(f"{seconds} {usage.ru_maxrss} {usage.ru_utime + usage.ru_stime}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(*command: str, cores: int | None = None, stdout: Path = Path(os.devnull)) -> Run:
    """Run a process to its end, on so many cores."""
    bound = () if cores is None else ("taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores])))
    with stdout.open("wb") as out, tempfile.NamedTemporaryFile("r") as told:
        launch = (sys.executable, "-I", "-S", "-c", LAUNCHER, told.name)
        if subprocess.run([*launch, *bound, *command], check=False, stdout=out, stderr=subprocess.DEVNULL).returncode:
            sys.exit(f"failed: {' '.join(command)}")
        seconds, kibibytes, cpu_seconds = told.read().split()
    return Run(float(seconds), int(kibibytes) << 10, float(cpu_seconds))


def ours(path: Path, *options: str, cores: int | None = None, stdout: Path = Path(os.devnull)) -> Run:
    """Compact with the command, in place."""
    brokerless = str(Path(sys.executable).with_name("brokerless"))
    # No metadata log says what the topic has.
    settings = ("--min-compaction-lag-ms", "0", "--delete-retention-ms", "86400000")
    return run(brokerless, "compact", str(path), "--in-place", *settings, *options, cores=cores, stdout=stdout)


def kafkas(directory: Path) -> Run:
    """Compact a partition with Kafka's classes, into segments of the same size."""
    log4j = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return run("java", log4j, "-cp", classpath(), "Compaction", str(directory), str(TopicConfig().segment_bytes))


def copied(directory: Path, scratch: str, name: str = "t-0") -> Path:
    """Return a fresh copy, on the disk."""
    copy = Path(scratch) / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    os.sync()
    return copy


def against_kafka(codec: str, bar: float) -> bool:
    """Compare with Kafka's cleaner."""
    directory = source(codec)
    mine, theirs = [], []
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        for _ in range(ROUNDS):
            theirs.append(kafkas(copied(directory, scratch)))
            mine.append(ours(copied(directory, scratch)))
    ratio = statistics.median(k.seconds / b.seconds for k, b in zip(theirs, mine, strict=True))
    memory = statistics.median(b.bytes / k.bytes for k, b in zip(theirs, mine, strict=True))
    seconds = [statistics.median(taken.seconds for taken in runs) for runs in (theirs, mine)]
    print(
        f"compact {codec:5} Kafka {seconds[0]:.2f} s, brokerless {seconds[1]:.2f} s: {ratio:.1f}x (bar {bar}x), "
        f"{memory:.0%} of its memory (bar {MEMORY_BAR:.0%})",
        flush=True,
    )
    return ratio >= bar and memory <= MEMORY_BAR


def two_partitions() -> bool:
    """Compare two partitions on two cores with one on one core."""
    ratios = []
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        for _ in range(ROUNDS):
            taken = []
            for count in (1, 2):
                path = Path(scratch) / f"{count}"
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                for partition in range(count):
                    copied(source("zstd"), str(path), f"t-{partition}")
                (path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
                (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
                taken.append(ours(path, "--topic", "t", "--jobs", str(count), cores=count).seconds)
            ratios.append(2 * taken[0] / taken[1])
    ratio = statistics.median(ratios)
    print(f"compact two partitions on two cores: {ratio:.2f}x one on one (bar {PARTITIONS_BAR}x)", flush=True)
    return ratio >= PARTITIONS_BAR


def many_keys() -> bool:
    """Compact more keys than fit into the memory; whatever is a key must be left once."""
    directory = source("zstd", records=MANY_KEYS, keys=1 << 30, value_bytes=10)
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        report = Path(scratch) / "report"
        taken = ours(copied(directory, scratch), "--memory", "512MiB", "--json", stdout=report)
        told = json.loads(report.read_text())
    kept = sum(segment["kept"] for segment in told["segments"])
    print(
        f"compact {told['keys']} keys in 512 MiB: {taken.seconds:.0f} s, {told['passes']} passes, "
        f"{taken.bytes >> 20} MiB at most",
        flush=True,
    )
    return bool(kept == told["keys"])


def main(*parts: str) -> int:
    """Measure, print, and return whether all bars are met."""
    if parts == ("keys",):
        return many_keys()
    good = [against_kafka(codec, bar) for codec, bar in BARS.items() if not parts or codec in parts]
    if not parts or "partitions" in parts:
        good.append(two_partitions())
    return all(good)


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
