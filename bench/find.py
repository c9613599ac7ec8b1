"""`brokerless find` in 1 GB of records: against decompression and a search alone, Kafka's tool, and a client.

The files are in the page cache, all may use all cores, and run in alternation. The limit is a process without Python,
so it is compared with a search in a process that runs already. The other programs are compared as whole processes. The
broker of `kcat` serves a copy of the directory on this machine.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from check import KAFKA
from compact import Run, run
from rivals import DATA, HERE

import brokerless as bl

sys.path.insert(0, str(HERE.parent / "tests" / "conformance"))
import kafka

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC, PARTITIONS, CODECS, RECORD_BYTES = "orders", 4, ("none", "lz4", "zstd"), (100, 1000)
TOTAL_BYTES, SEGMENT_BYTES, ROUNDS = 1_000_000_000, 256 << 20, 7
IDS, OTHERS_ROUNDS = 10_000, 2
LIMIT_BAR, DUMP_BAR, KCAT_BAR, IDS_BAR = 0.9, 20.0, 8.0, 2.0


class Logs(NamedTuple):
    """A log directory, and the id of one record."""

    directory: Path
    one: str

    @property
    def files(self) -> list[str]:
        """The files of its segments."""
        return [str(file) for file in sorted(self.directory.glob("*/*.log"))]


def main() -> bool:
    """Measure, print, and return whether all bars are met."""
    subprocess.run(["cargo", "build", "--profile", "local", "--quiet", "-p", "brokerless-limit"], cwd=HERE, check=True)
    good = []
    for record_bytes in RECORD_BYTES:
        for codec in CODECS:
            logs = written(codec, record_bytes)
            name = f"find: {codec}, {record_bytes} B"
            good += of_logs(name, logs)
            if codec == "none":
                good += against_others(name, logs)
    return all(good)


def written(codec: str, record_bytes: int) -> Logs:
    """Write orders with ids that look random and a text of words, unless they are there."""
    directory = DATA / f"find-{codec}-{record_bytes}-{TOTAL_BYTES}"
    if not directory.exists():
        made = directory.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        _write(made, codec, record_bytes)
        made.rename(directory)
    (one,) = bl.Log(directory / f"{TOPIC}-2").to_table(columns=["key"], limit=1)["key"].to_pylist()
    return Logs(directory, one.decode())


def _write(made: Path, codec: str, record_bytes: int) -> None:
    records = TOTAL_BYTES // record_bytes
    generator = np.random.default_rng(7)
    words = [b"refund ", b"order ", b"Leipzig ", b"quantity ", b"shipped ", b"returned "]
    length = max(8, record_bytes - 60)
    # A quarter of a text cannot be compressed well.
    texts = [
        (generator.bytes(length // 8).hex().encode() + b"".join(generator.choice(words, length)))[:length]
        for _ in range(512)
    ]
    notes = pa.array(texts, pa.binary())
    with bl.Producer(
        made, TOPIC, partitions=PARTITIONS, compression=codec, segment_bytes=SEGMENT_BYTES, idempotent=True
    ) as producer:
        for number, start in enumerate(range(0, records, 1 << 14)):
            count = min(1 << 14, records - start)
            ids = pa.array(np.frombuffer(generator.bytes(16 * count).hex().encode(), "S32").astype(object), pa.binary())
            note = notes.take(pa.array(generator.integers(0, len(texts), count)))
            parts = (pa.scalar(b'{"id":"'), ids, pa.scalar(b'","note":"'), note, pa.scalar(b'"}'), pa.scalar(b""))
            value = pc.binary_join_element_wise(*parts)
            partition = pa.array([number % PARTITIONS] * count, pa.int32())
            producer.send(pa.table({"key": ids, "value": value, "partition": partition}))


def of_logs(name: str, logs: Logs) -> list[bool]:
    """Compare with the limit, and 10,000 texts with one: the least time of several rounds each, in this process."""
    limit = str(HERE.parent / "target" / "local" / "brokerless-limit")
    cores = str(len(os.sched_getaffinity(0)))
    numbers = random.Random(0)  # noqa: S311 - the same data in each run
    ids = [logs.one, *(f"{numbers.getrandbits(128):032x}" for _ in range(IDS - 1))]

    def find(texts: list[str], *, check_crcs: bool = True) -> None:
        found = bl.LogDirs(logs.directory).find(any=texts, check_crcs=check_crcs, columns=["partition", "offset"])
        if found.read_all().num_rows != 1:
            sys.exit(f"{name}: not one match")

    seconds = least_of(
        {
            "limit": lambda: run(limit, "find", cores, "crc", logs.one, *logs.files),
            "find": lambda: find([logs.one]),
            "plain limit": lambda: run(limit, "find", cores, "plain", logs.one, *logs.files),
            "plain find": lambda: find([logs.one], check_crcs=False),
            "ids": lambda: find(ids),
        }
    )
    rate = TOTAL_BYTES / seconds["find"] / 1e9
    return [
        judged(f"{name}: share of the limit", seconds["limit"] / seconds["find"], LIMIT_BAR, f"{rate:.1f} GB/s"),
        judged(f"{name}: the same, without checksums", seconds["plain limit"] / seconds["plain find"], LIMIT_BAR),
        judged(f"{name}: time of {IDS} texts, of one", seconds["ids"] / seconds["find"], IDS_BAR, at_most=True),
    ]


def least_of(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least time of each call, of several rounds in alternation after one that fills the page cache."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            found = call()
            seconds = found.seconds if isinstance(found, Run) else time.perf_counter() - start
            if number:
                taken[name].append(seconds)
    return {name: min(of) for name, of in taken.items()}


def against_others(name: str, logs: Logs) -> list[bool]:
    """Compare with Kafka's tool, and with a client of a broker."""
    find = (str(Path(sys.executable).with_name("brokerless")), "find", str(logs.directory), "--any", logs.one)
    dump = f"java -cp '{KAFKA}/*' kafka.tools.DumpLogSegments --print-data-log --files {','.join(logs.files)}"
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        served = Path(scratch) / "served"
        shutil.copytree(logs.directory, served)
        # A segment of a quarter of a gigabyte has a larger index than the tests allow.
        log = Path(scratch) / "broker.log"
        with kafka.Broker(served, log=log, log_index_size_max_bytes=10 << 20) as broker:
            kcat = f"kcat -b {broker.at} -C -t {TOPIC} -o beginning -e -q"
            runs = measured(
                {
                    "find": lambda: run(*find),
                    "kcat": lambda: run("sh", "-c", f"{kcat} | grep -F {logs.one}"),
                    "dump": lambda: run("sh", "-c", f"{dump} | grep -F {logs.one}"),
                },
            )
    seconds = {what: statistics.median(taken.seconds for taken in of) for what, of in runs.items()}
    return [
        judged(f"{name}: against kafka-dump-log and grep", seconds["dump"] / seconds["find"], DUMP_BAR),
        judged(f"{name}: against kcat and grep", seconds["kcat"] / seconds["find"], KCAT_BAR),
    ]


def measured(programs: dict[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Run all programs in alternation, after a round that does not count: it fills the page cache."""
    runs: dict[str, list[Run]] = {name: [] for name in programs}
    for number in range(OTHERS_ROUNDS + 1):
        for name, program in programs.items():
            taken = program()
            if number:
                runs[name].append(taken)
    return runs


def judged(what: str, value: float, bar: float, note: str = "", *, at_most: bool = False) -> bool:
    """Print a ratio with its bar."""
    is_good = value <= bar if at_most else value >= bar
    of = "at most " if at_most else ""
    print(
        f"{what}: {value:.2f} (bar {of}{bar}){f'; {note}' if note else ''}{'' if is_good else '   BELOW'}",
        flush=True,
    )
    return is_good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
