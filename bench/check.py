"""`brokerless check` on 1 GB of logs: against `kafka-dump-log`, and against reading the files and computing checksums.

Whole process against whole process, the files in the page cache, in alternation; all may use all cores. The limit is no
Python, and takes less time than an interpreter and Arrow need to start. So its bars are for what 1 GB takes beyond the
same command on the same directory with a record in each log. The share as whole processes stands behind the bar.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from compact import run
from rivals import DATA, HERE

import brokerless as bl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compact import Run

ROUNDS = 7
TOPICS = {"plain": "none", "packed": "lz4"}
PARTITIONS, SEGMENT_BYTES = 4, 64 << 20
PARTITION_BYTES, RECORD_BYTES = 125_000_000, 1000
KAFKA = HERE.parent / "build" / "conformance" / "4.1.0" / "lib"
DUMP_BAR, DEEP_BAR, LIMIT_BAR, CORES_BAR, MEGABYTES_BAR = 2.5, 10.0, 0.8, 1.8, 400.0


def main() -> bool:
    """Measure, print, and return whether all bars are met."""
    logs = DATA / f"check-{len(TOPICS)}-{PARTITIONS}-{PARTITION_BYTES}-{RECORD_BYTES}"
    copy = logs.with_name(f"{logs.name}-copy")
    small = logs.with_name(f"{logs.name}-small")
    for directory, size in ((logs, PARTITION_BYTES), (small, 1)):
        if not directory.exists():
            write_logs(directory, size)
    if not copy.exists():
        shutil.copytree(logs, copy.with_suffix(".part"))
        copy.with_suffix(".part").rename(copy)
    runs = measured(commands(logs, copy, small))
    seconds = {name: statistics.median(taken.seconds for taken in of) for name, of in runs.items()}
    cpu = {name: statistics.median(taken.cpu_seconds for taken in of) for name, of in runs.items()}
    for name, taken in seconds.items():
        print(f"check: {name:22} {taken:6.2f} s, CPU {cpu[name]:6.2f} s", flush=True)

    def ratio(value: Callable[[Mapping[str, float]], float]) -> float:
        """Return the median of a quotient in each round."""
        rounds = range(ROUNDS)
        return statistics.median(value({name: of[i].seconds for name, of in runs.items()}) for i in rounds)

    most = max(taken.bytes for name in ("default", "deep", "against") for taken in runs[name]) / 1e6
    cores_of_limit = ratio(lambda s: s["limit, one core"] / s["limit"])

    def share(limit: str, ours: str) -> bool:
        value = ratio(lambda s: s[limit] / (s[ours] - s[f"{ours}, small"]))
        whole = ratio(lambda s: s[limit] / s[ours])
        return judged(f"{ours}, share of the limit", value, LIMIT_BAR, f"as whole processes {whole:.2f}")

    good = [
        judged("default against kafka-dump-log", ratio(lambda s: s["dump"] / s["default"]), DUMP_BAR),
        judged("deep against --deep-iteration", ratio(lambda s: s["deep dump"] / s["deep"]), DEEP_BAR),
        share("limit", "default"),
        share("limit of both", "against"),
        judged(
            "two cores against one",
            ratio(lambda s: (s["one core"] - s["one core, small"]) / (s["default"] - s["default, small"])),
            CORES_BAR,
            f"the limit {cores_of_limit:.2f}; as whole processes {ratio(lambda s: s['one core'] / s['default']):.2f}",
        ),
    ]
    print(f"check: memory {most:.0f} MB at most (bar {MEGABYTES_BAR:.0f}){'' if most <= MEGABYTES_BAR else '   BELOW'}")
    return all(good) and most <= MEGABYTES_BAR


def judged(what: str, value: float, bar: float, note: str = "") -> bool:
    """Print a ratio with its bar."""
    is_good = value >= bar
    print(
        f"check: {what}: {value:.2f} (bar {bar}){f'; {note}' if note else ''}{'' if is_good else '   BELOW'}",
        flush=True,
    )
    return is_good


def commands(logs: Path, copy: Path, small: Path) -> dict[str, Callable[[], Run]]:
    """Return what is measured: each call runs a process to its end."""
    subprocess.run(["cargo", "build", "--profile", "local", "--quiet", "-p", "brokerless-limit"], cwd=HERE, check=True)
    limit = str(HERE.parent / "target" / "local" / "brokerless-limit")
    check = (str(Path(sys.executable).with_name("brokerless")), "check")
    files, copies = ([str(file) for file in sorted(of.glob("*/*.log"))] for of in (logs, copy))
    dump = ("java", "-cp", f"{KAFKA}/*", "kafka.tools.DumpLogSegments", "--files", ",".join(files))
    cores = str(len(os.sched_getaffinity(0)))
    return {
        "limit": lambda: run(limit, "crc", cores, *files),
        "limit, one core": lambda: run(limit, "crc", "1", *files, cores=1),
        "limit of both": lambda: run(limit, "crc", cores, *files, *copies),
        "default": lambda: run(*check, str(logs)),
        "default, small": lambda: run(*check, str(small)),
        "one core": lambda: run(*check, str(logs), cores=1),
        "one core, small": lambda: run(*check, str(small), cores=1),
        "deep": lambda: run(*check, str(logs), "--deep"),
        "against": lambda: run(*check, str(logs), "--against", str(copy)),
        "against, small": lambda: run(*check, str(small), "--against", str(small)),
        "dump": lambda: run(*dump),
        "deep dump": lambda: run(*dump, "--deep-iteration"),
    }


def measured(programs: dict[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Run all programs in alternation, after a round that does not count: it fills the page cache."""
    runs: dict[str, list[Run]] = {name: [] for name in programs}
    for number in range(ROUNDS + 1):
        for name, program in programs.items():
            taken = program()
            if number:
                runs[name].append(taken)
    return runs


def write_logs(directory: Path, partition_bytes: int) -> None:
    """Write logs of about this size each, half of them in uncompressed batches, half in lz4."""
    made = directory.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)  # noqa: S311 - the same data in each run
    # Half of a value can be compressed.
    values = [generator.randbytes(RECORD_BYTES // 2) + b"brokerless" * (RECORD_BYTES // 20) for _ in range(4096)]
    for topic, codec in TOPICS.items():
        with bl.Producer(
            made,
            topic,
            partitions=PARTITIONS,
            compression=codec,
            segment_bytes=SEGMENT_BYTES,
            # As Kafka's own producer is by default.
            idempotent=True,
        ) as producer:
            for partition in range(PARTITIONS):
                chosen = values if partition_bytes > RECORD_BYTES else values[:1]
                rows = pa.table({"value": chosen, "partition": pa.array([partition] * len(chosen), pa.int32())})
                log = made / f"{topic}-{partition}"
                while sum(file.stat().st_size for file in log.glob("*.log")) < partition_bytes:
                    producer.send(rows)
                    producer.flush()
    made.rename(directory)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
