"""`brokerless check` on 1 GB of logs, against `kafka-dump-log` and against reading the files and computing checksums."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
from rivals import DATA

import brokerless as bl

TOPICS = {"plain": "none", "packed": "lz4"}
PARTITIONS, SEGMENT_BYTES = 4, 64 << 20
PARTITION_BYTES, RECORD_BYTES = 125_000_000, 1000


def write_logs(directory: Path) -> None:
    """Write a log directory with 1 GB of `.log` files, half of them in uncompressed batches, half in lz4."""
    made = directory.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    # Half of a value can be compressed.
    values = [generator.randbytes(RECORD_BYTES // 2) + b"brokerless" * (RECORD_BYTES // 20) for _ in range(4096)]
    for topic, codec in TOPICS.items():
        with bl.Producer(
            made, topic, partitions=PARTITIONS, compression=codec, segment_bytes=SEGMENT_BYTES, idempotent=True
        ) as producer:
            for partition in range(PARTITIONS):
                rows = pa.table({"value": values, "partition": pa.array([partition] * len(values), pa.int32())})
                log = made / f"{topic}-{partition}"
                while sum(file.stat().st_size for file in log.glob("*.log")) < PARTITION_BYTES:
                    producer.send(rows)
                    producer.flush()
    made.rename(directory)
